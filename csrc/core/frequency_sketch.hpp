// How often keys were seen lately, roughly: a count-min sketch of 4-bit counters, halved once a sample.
//
// Four counters a key, all in one cache line; the least of them is the count, too high where keys share all four, never
// too low within a sample. Only the least ones of a key are raised (conservative update). 64 bytes for every 8 blocks
// of capacity, no allocation after construction.
#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <cstdint>

#include "kvopt/run_table.hpp"

namespace kvopt {

class FrequencySketch {
 public:
  static constexpr std::uint32_t kMost = 15;

  // The counters are halved every `sample` additions.
  FrequencySketch(std::uint32_t keys, std::uint64_t sample)
      : lines_(std::bit_ceil(std::max(keys / 8, 1u))), sample_(std::max<std::uint64_t>(sample, 1)) {}

  std::uint32_t count(std::uint64_t key) const {
    const std::uint64_t hash = mixed(key);
    return least(lines_[line(hash)], hash);
  }

  // Counts a key `times` times, as additions of this weight together.
  void add(std::uint64_t key, std::uint32_t times, std::uint64_t weight) {
    const std::uint64_t hash = mixed(key);
    Line& counters = lines_[line(hash)];
    for (; times > 0; --times) {
      const std::uint32_t before = least(counters, hash);
      if (before == kMost) break;
      for (std::uint32_t row = 0; row < 4; ++row) {
        if (counter(counters, row, hash) == before) counters[word(row, hash)] += std::uint64_t{1} << shift(row, hash);
      }
    }
    added_ += weight;
    if (added_ >= sample_) halve();
  }

  std::size_t bytes() const { return lines_.size() * sizeof(Line); }

 private:
  using Line = std::array<std::uint64_t, 8>;  // two words a row

  static std::uint64_t mixed(std::uint64_t key) {
    std::uint64_t x = (key ^ (key >> 32)) * 0xD6E8FEB86659FD93u;
    x = (x ^ (x >> 32)) * 0xD6E8FEB86659FD93u;
    return x ^ (x >> 32);
  }

  std::size_t line(std::uint64_t hash) const { return (hash >> 32) & (lines_.size() - 1); }

  // Each row takes five bits of the hash: one for the word, four for the counter in it.
  static std::uint32_t word(std::uint32_t row, std::uint64_t hash) {
    return row * 2 + static_cast<std::uint32_t>((hash >> (row * 5 + 4)) & 1);
  }
  static std::uint32_t shift(std::uint32_t row, std::uint64_t hash) {
    return static_cast<std::uint32_t>((hash >> (row * 5)) & 15) * 4;
  }
  static std::uint32_t counter(const Line& counters, std::uint32_t row, std::uint64_t hash) {
    return static_cast<std::uint32_t>((counters[word(row, hash)] >> shift(row, hash)) & kMost);
  }
  static std::uint32_t least(const Line& counters, std::uint64_t hash) {
    std::uint32_t count = kMost;
    for (std::uint32_t row = 0; row < 4; ++row) count = std::min(count, counter(counters, row, hash));
    return count;
  }

  void halve() {
    added_ /= 2;
    for (std::size_t i = 0; i < lines_.size(); ++i) {
      for (std::uint64_t& counters : lines_[i]) counters = (counters >> 1) & 0x7777777777777777u;
    }
  }

  LazyArray<Line> lines_;
  std::uint64_t sample_;
  std::uint64_t added_ = 0;
};

}  // namespace kvopt
