// The k lowest of a stream of scores, ties by index, without keeping the stream.
//
// Candidates are kept as (order key, index) in 64 bits, so that their order is that of integers, and in the order of
// their indices. A limit, the k-th lowest that is known, holds off nearly everything; when the candidates fill their
// room, they are cut to the lowest k and the limit falls. A first limit may come from a sample; where it turns out too
// low, with fewer than k candidates at the end, the stream must be offered again without. Amortised O(1) a score in any
// order.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <vector>

#include "scoring/kernels.hpp"
#include "scoring/target.hpp"

namespace kvopt::scoring {

class Lowest {
 public:
  // `room` has room_for() candidates and stays where it is.
  Lowest(const Kernels& kernels, std::size_t k, std::span<Candidate> room)
      : kernels_(kernels), k_(k), candidates_(room.data()), most_(room.size() - kSlack) {}

  // Candidates that a choice of k among `count` scores needs room for.
  static std::size_t room_for(std::size_t k, std::size_t count) {
    return std::min(std::max(2 * k, kLeastRoom), count) + kSlack;
  }

  // Nothing above this score will be kept, until it is reset.
  void limit_to(float score) { bound_ = {Bound::Kind::kAtMost, score}; }
  void reset() {
    found_ = 0;
    bound_ = {};
  }

  // Scores of blocks first, first + 1, ..., at most kTile; indices must rise from call to call. `eligible`: of the same
  // blocks, or null.
  void offer(std::span<const float> scores, std::uint64_t first, const std::uint8_t* eligible) {
    found_ += kernels_.collect(scores.data(), scores.size(), eligible, static_cast<std::uint32_t>(first), bound_,
                               candidates_ + found_);
    if (found_ > most_) cut();
  }

  // In the order of their indices.
  std::span<const Candidate> candidates() const { return {candidates_, found_}; }

 private:
  static constexpr std::size_t kLeastRoom = 1U << 15;
  static constexpr std::size_t kSlack = kTile + 2;  // for what one more tile brings

  // What comes later has a greater index, so a score must be below the limit from here on.
  void cut() {
    std::vector<Candidate> order(candidates_, candidates_ + found_);
    const auto last = order.begin() + static_cast<std::ptrdiff_t>(k_ - 1);
    std::ranges::nth_element(order, last);
    const Candidate highest = *last;
    Candidate* end =
        std::remove_if(candidates_, candidates_ + found_, [&](Candidate candidate) { return candidate > highest; });
    found_ = static_cast<std::size_t>(end - candidates_);
    const auto key = static_cast<std::uint32_t>(highest >> 32);
    // Where the k-th is NaN, every number is still below it.
    bound_ = key == UINT32_MAX ? Bound{Bound::Kind::kAtMost, std::numeric_limits<float>::infinity()}
                               : Bound{Bound::Kind::kBelow, score_of(key)};
  }

  const Kernels& kernels_;
  std::size_t k_;
  Candidate* candidates_;
  std::size_t most_;
  std::size_t found_ = 0;
  Bound bound_;
};

}  // namespace kvopt::scoring
