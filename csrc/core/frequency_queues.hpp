// The possible victims of a pool (evictable runs without children) in one queue a frequency, in the order in which they
// got it; the least frequency is found through two levels of bitmaps.
//
// Frequencies are counted on a ring of 65,536, from a base that may rise (ageing): what is below the base, or further
// above it than that, is kept at the near end. O(1). 8 bytes a run and 0.5 MiB, no allocation after construction.
#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <cstdint>
#include <string>

#include "core/evictable_queues.hpp"

namespace kvopt {

class FrequencyQueues {
 public:
  explicit FrequencyQueues(const RunTable& runs) : queues_(runs, kRing) {}

  bool contains(RunId r) const { return queues_.contains(r); }

  void append(RunId r, std::uint64_t frequency) { queues_.append(opened(frequency), r); }
  void prepend(RunId r, std::uint64_t frequency) { queues_.prepend(opened(frequency), r); }

  void remove(RunId r) {
    const std::uint32_t emptied = queues_.remove(r);
    if (emptied == EvictableQueues::kNoQueue) return;
    words_[emptied / 64] &= ~(std::uint64_t{1} << (emptied % 64));
    if (words_[emptied / 64] == 0) summary_[emptied / 4096] &= ~(std::uint64_t{1} << (emptied / 64 % 64));
  }

  // Of those with the least frequency, the one that got it first, or last. There is one.
  RunId first_of_least() const { return queues_.front(least()); }
  RunId last_of_least() const { return queues_.back(least()); }

  // The least frequency there is.
  std::uint64_t least_frequency() const { return base_ + (least() - static_cast<std::uint32_t>(base_)) % kRing; }

  // From now on no frequency is below this, unless it was set before.
  void raise_base(std::uint64_t to) { base_ = std::max(base_, std::min(to, least_frequency())); }

  std::string verify() const { return queues_.verify(kRing); }
  std::size_t bytes() const { return queues_.bytes() + sizeof words_ + sizeof summary_; }

 private:
  static constexpr std::uint32_t kRing = 65'536;

  std::uint32_t opened(std::uint64_t frequency) {
    const auto q = static_cast<std::uint32_t>(std::clamp(frequency, base_, base_ + kRing - 1) % kRing);
    words_[q / 64] |= std::uint64_t{1} << (q % 64);
    summary_[q / 4096] |= std::uint64_t{1} << (q / 64 % 64);
    return q;
  }

  // The first queue from the base on, around the ring, that is not empty.
  std::uint32_t least() const {
    const auto from = static_cast<std::uint32_t>(base_ % kRing);
    const std::uint64_t in_word = words_[from / 64] >> (from % 64);
    if (in_word != 0) return from + static_cast<std::uint32_t>(std::countr_zero(in_word));
    std::uint32_t word = (from / 64 + 1) % words_.size();
    std::uint64_t in_summary = summary_[word / 64] >> (word % 64) << (word % 64);
    while (in_summary == 0) {
      word = (word / 64 + 1) % summary_.size() * 64;
      in_summary = summary_[word / 64];
    }
    word = word / 64 * 64 + static_cast<std::uint32_t>(std::countr_zero(in_summary));
    return word * 64 + static_cast<std::uint32_t>(std::countr_zero(words_[word]));
  }

  EvictableQueues queues_;
  std::array<std::uint64_t, kRing / 64> words_{};
  std::array<std::uint64_t, kRing / 4096> summary_{};
  std::uint64_t base_ = 0;
};

}  // namespace kvopt
