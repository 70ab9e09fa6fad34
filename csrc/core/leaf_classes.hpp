// The possible victims of a pool (evictable runs without children), each in one of a few classes, every class a heap of
// its own: pairing heaps (Fredman et al., Algorithmica 1986) threaded through shared arrays.
//
// For orders that are fixed within a class, but not between classes: the caller compares the fronts. Only leaves are
// in the heaps, so any order is leaf first. O(1) an insertion, O(log leaves) amortised a removal; 14 bytes a run, no
// allocation after construction. Less(a, b): a goes before b; a strict total order within a class, constant while a run
// is inside.
#pragma once

#include <bit>
#include <cstdint>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "kvopt/run_table.hpp"

namespace kvopt {

template <class Less>
class LeafClasses {
 public:
  LeafClasses(const RunTable& runs, std::uint32_t classes, Less less)
      : runs_(runs),
        less_(std::move(less)),
        front_(classes, kNoRun),
        occupied_((classes + 63) / 64),
        child_(runs.capacity),
        next_(runs.capacity),
        previous_(runs.capacity),
        class_(runs.capacity) {}

  bool contains(RunId r) const { return class_[r] != 0; }
  std::uint32_t class_of(RunId r) const { return class_[r] - 1U; }  // r must be inside
  RunId front(std::uint32_t c) const { return front_[c]; }          // of a class that is not empty

  // Calls each(class, front) for every class that is not empty.
  template <class Each>
  void for_each_front(Each each) const {
    for (std::size_t word = 0; word < occupied_.size(); ++word) {
      for (std::uint64_t bits = occupied_[word]; bits != 0; bits &= bits - 1) {
        const auto c = static_cast<std::uint32_t>(word * 64 + static_cast<std::size_t>(std::countr_zero(bits)));
        each(c, front_[c]);
      }
    }
  }

  void add(RunId leaf, std::uint32_t c) {
    class_[leaf] = static_cast<std::uint16_t>(c + 1);
    child_[leaf] = kNoRun;
    set_front(c, front_[c] == kNoRun ? leaf : meld(front_[c], leaf));
  }

  void remove(RunId r) {
    if (!contains(r)) return;
    const std::uint32_t c = class_of(r);
    class_[r] = 0;
    const RunId below = merge(child_[r]);
    if (front_[c] == r) {
      set_front(c, below);
      return;
    }
    detach(r);
    if (below != kNoRun) set_front(c, meld(front_[c], below));
  }

  void remove(std::span<const RunId> runs) {
    for (const RunId r : runs) remove(r);
  }

  std::string verify() const {
    std::size_t inside = 0;
    for (RunId r = 0; r < runs_.used; ++r) {
      if (runs_.is_victim(r) != contains(r)) {
        return "run " + std::to_string(r) + (contains(r) ? " should not be in" : " is a victim outside") + " the heaps";
      }
      if (!contains(r)) continue;
      ++inside;
      if (less_(r, front_[class_of(r)])) return "run " + std::to_string(r) + " goes before the front of its class";
    }
    std::size_t reached = 0;
    std::vector<RunId> open;
    for_each_front([&](std::uint32_t /*c*/, RunId front) { open.push_back(front); });
    while (!open.empty() && reached <= inside) {
      const RunId r = open.back();
      open.pop_back();
      ++reached;
      for (RunId below = child_[r]; below != kNoRun; below = next_[below]) open.push_back(below);
    }
    if (reached == inside) return {};
    return std::to_string(reached) + " runs in the heaps, " + std::to_string(inside) + " known to be";
  }

  std::size_t bytes() const {
    return child_.size() * (3 * sizeof(RunId) + sizeof(std::uint16_t)) + front_.size() * sizeof(RunId) +
           occupied_.size() * sizeof(std::uint64_t);
  }

 private:
  void set_front(std::uint32_t c, RunId r) {
    front_[c] = r;
    const std::uint64_t bit = std::uint64_t{1} << (c % 64);
    if (r == kNoRun) {
      occupied_[c / 64] &= ~bit;
    } else {
      occupied_[c / 64] |= bit;
    }
  }

  // Two heaps become one; the front is returned.
  RunId meld(RunId a, RunId b) {
    if (less_(b, a)) std::swap(a, b);
    const RunId first = child_[a];
    next_[b] = first;
    if (first != kNoRun) previous_[first] = b;
    previous_[b] = a;  // of a first child: its parent
    child_[a] = b;
    return a;
  }

  // A chain of siblings becomes one heap: melded in pairs, then the pairs from the last to the first.
  RunId merge(RunId first) {
    RunId pairs = kNoRun;
    while (first != kNoRun) {
      const RunId a = first;
      const RunId b = next_[a];
      first = b == kNoRun ? kNoRun : next_[b];
      const RunId pair = b == kNoRun ? a : meld(a, b);
      next_[pair] = pairs;
      pairs = pair;
    }
    RunId front = kNoRun;
    while (pairs != kNoRun) {
      const RunId pair = pairs;
      pairs = next_[pair];
      front = front == kNoRun ? pair : meld(front, pair);
    }
    return front;
  }

  void detach(RunId r) {
    const RunId before = previous_[r];
    const RunId after = next_[r];
    (child_[before] == r ? child_ : next_)[before] = after;
    if (after != kNoRun) previous_[after] = before;
  }

  const RunTable& runs_;
  Less less_;
  std::vector<RunId> front_;             // of each class; kNoRun: empty
  std::vector<std::uint64_t> occupied_;  // a bit a class
  LazyArray<RunId> child_;
  LazyArray<RunId> next_;           // sibling
  LazyArray<RunId> previous_;       // sibling, or the parent
  LazyArray<std::uint16_t> class_;  // plus one; 0: outside
};

}  // namespace kvopt
