// The k lowest of a stream of scores, ties by index, without keeping the stream.
//
// Candidates are kept as (order key, index) in 64 bits, so that their order is that of integers. A limit, the k-th
// lowest that is known, holds off nearly everything; when the candidates fill their room, they are cut to the lowest k
// and the limit falls. A first limit may come from a sample; where it turns out too low, with fewer than k
// candidates at the end, the stream must be offered again without. Amortised O(1) a score in any order.
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

using Candidate = std::uint64_t;  // order key in the upper half, index in the lower

inline Candidate candidate_of(float score, std::uint64_t index) {
  return std::uint64_t{order_key(score)} << 32 | index;
}
inline std::uint32_t index_of(Candidate candidate) { return static_cast<std::uint32_t>(candidate); }

// Leaves the lowest k, in no order.
inline void keep_lowest(std::vector<Candidate>& candidates, std::size_t k) {
  if (candidates.size() <= k) return;
  std::ranges::nth_element(candidates, candidates.begin() + static_cast<std::ptrdiff_t>(k));
  candidates.resize(k);
}

class Lowest {
 public:
  Lowest(const Kernels& kernels, std::size_t k) : kernels_(kernels), k_(k), room_(std::max(2 * k, kLeastRoom)) {
    candidates_.reserve(room_ + kTile);
  }

  // Nothing above this score will be kept, until it is reset.
  void limit_to(float score) {
    limit_ = score;
    limited_ = true;
  }
  void reset() {
    candidates_.clear();
    limited_ = strict_ = false;
    limit_ = std::numeric_limits<float>::infinity();
  }

  // Scores of blocks first, first + 1, ..., at most kTile; indices must rise from call to call. `eligible`: of the same
  // blocks, or null.
  void offer(std::span<const float> scores, std::uint64_t first, const std::uint8_t* eligible) {
    if (limited_) {
      const std::size_t found = kernels_.below(scores.data(), scores.size(), limit_, strict_, places_.data());
      for (std::size_t i = 0; i < found; ++i) add(scores[places_[i]], first, places_[i], eligible);
    } else {
      for (std::uint32_t i = 0; i < scores.size(); ++i) add(scores[i], first, i, eligible);
    }
    if (candidates_.size() > room_) cut();
  }

  const std::vector<Candidate>& candidates() const { return candidates_; }

 private:
  static constexpr std::size_t kLeastRoom = 1U << 15;

  void add(float score, std::uint64_t first, std::uint32_t place, const std::uint8_t* eligible) {
    if (eligible == nullptr || eligible[place] != 0) candidates_.push_back(candidate_of(score, first + place));
  }

  // What comes later has a greater index, so a score must be below the limit from here on.
  void cut() {
    keep_lowest(candidates_, k_);
    const auto highest = std::ranges::max_element(candidates_);
    const auto key = static_cast<std::uint32_t>(*highest >> 32);
    limited_ = true;
    strict_ = key != UINT32_MAX;
    limit_ = strict_ ? score_of(key) : std::numeric_limits<float>::infinity();
  }

  const Kernels& kernels_;
  std::size_t k_;
  std::size_t room_;
  bool limited_ = false;
  bool strict_ = false;
  float limit_ = std::numeric_limits<float>::infinity();
  std::vector<Candidate> candidates_;
  std::vector<std::uint32_t> places_ = std::vector<std::uint32_t>(kTile);
};

}  // namespace kvopt::scoring
