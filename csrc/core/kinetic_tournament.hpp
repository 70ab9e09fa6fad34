// The possible victims of a pool (evictable runs without children), ordered by a score that moves with time, where of
// two runs each overtakes the other at most once: a kinetic tournament (Basch, Guibas and Hershberger, SODA 1997).
//
// A complete binary tree over run ids. Each node knows which of its runs goes first, and from when on it has to be
// looked at again. O(log runs) an insertion or removal at most, less as a rule: it stops where nothing changes. A query
// costs O(1) plus the nodes that are due. Up to 32 bytes a run; no allocation after construction.
//
// Order: first(a, b, now): a goes before b at that time, a strict total order at every moment; and overtakes(a, b):
// when b will go before a, which is ahead now (kNever: not at all; too early is harmless).
#pragma once

#include <algorithm>
#include <bit>
#include <cstdint>
#include <span>
#include <string>
#include <utility>

#include "kvopt/run_table.hpp"
#include "kvopt/types.hpp"

namespace kvopt {

template <class Order>
class KineticTournament {
 public:
  KineticTournament(const RunTable& runs, Order order)
      : runs_(runs),
        order_(std::move(order)),
        leaves_(std::bit_ceil(std::max(runs.capacity, std::uint32_t{2}))),
        winner_(std::size_t{leaves_} * 2),
        due_(leaves_) {}

  bool contains(RunId r) const { return winner_[leaves_ + r] != 0; }

  // The first at this time; there is one. Time does not go back.
  RunId front(Time now) {
    advance(now);
    if (due(1) <= now) refresh(1);
    return winner_[1] - 1;
  }

  void add(RunId leaf, Time now) {
    advance(now);
    winner_[leaves_ + leaf] = leaf + 1;
    settle(leaf);
  }

  void add(std::span<const RunId> evictable, Time now) {
    for (const RunId r : evictable) {
      if (runs_.children[r] == 0) add(r, now);
    }
  }

  void remove(std::span<const RunId> runs) {
    for (const RunId r : runs) {
      if (!contains(r)) continue;
      winner_[leaves_ + r] = 0;
      settle(r);
    }
  }

  // The score of r changed.
  void update(RunId r) {
    if (contains(r)) settle(r);
  }

  std::string verify() const {
    RunId best = kNoRun;
    for (RunId r = 0; r < runs_.used; ++r) {
      if (runs_.is_victim(r) != contains(r)) {
        return "run " + std::to_string(r) + (contains(r) ? " should not be in" : " is a victim outside") +
               " the tournament";
      }
      if (contains(r) && (best == kNoRun || order_.first(r, best, now_))) best = r;
    }
    if (due(1) <= now_ || (best == kNoRun ? 0 : best + 1) == winner_[1]) return {};
    return "run " + std::to_string(best) + " goes first, not the winner of the tournament";
  }

  std::size_t bytes() const { return winner_.size() * sizeof(RunId) + due_.size() * sizeof(Time); }

 private:
  // Untouched memory is zeros: there, nobody is inside, and nothing is due.
  Time due(std::uint32_t node) const { return node >= leaves_ || winner_[node] == 0 ? kNever : due_[node]; }
  void advance(Time now) { now_ = std::max(now_, now); }

  // Plays the match at `node` anew; whether anything changed.
  bool play(std::uint32_t node) {
    const std::size_t below = 2 * std::size_t{node};
    const RunId left = winner_[below];
    const RunId right = winner_[below + 1];
    RunId winner = left;
    Time next = std::min(due(2 * node), due(2 * node + 1));
    if (left == 0) {
      winner = right;
    } else if (right != 0) {
      const bool ahead = order_.first(left - 1, right - 1, now_);
      winner = ahead ? left : right;
      next = std::min(next, order_.overtakes(winner - 1, (ahead ? right : left) - 1));
    }
    if (winner == winner_[node] && next == due(node)) return false;
    winner_[node] = winner;
    due_[node] = next;
    return true;
  }

  // What stands above a leaf that came, went or changed.
  void settle(RunId r) {
    for (std::uint32_t node = (leaves_ + r) / 2; node > 0; node /= 2) {
      if (!play(node) && winner_[node] != r + 1) break;
    }
  }

  void refresh(std::uint32_t node) {
    if (due(2 * node) <= now_) refresh(2 * node);
    if (due(2 * node + 1) <= now_) refresh(2 * node + 1);
    play(node);
  }

  const RunTable& runs_;
  Order order_;
  std::uint32_t leaves_;     // a power of two
  LazyArray<RunId> winner_;  // of each node, plus one; 0: nobody. The leaves are the second half
  LazyArray<Time> due_;      // of each inner node
  Time now_ = -kNever;
};

}  // namespace kvopt
