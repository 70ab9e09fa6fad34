// Many 32-bit keys that change all the time, and where the highest of them is.
//
// Two levels: 16 keys a row, and the highest of each row. A key that rises costs O(1), one that falls from the top of
// its row a look at the row, the highest of all a look at all rows, four a vector instruction, and at one of them. 4.3
// bytes a key, allocated at construction and taken from the system as used.
#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <cstdint>
#include <utility>

#include "kvopt/run_table.hpp"

namespace kvopt {

class HighestKey {
 public:
  // Room for `most` keys, all 0.
  explicit HighestKey(std::size_t most) : keys_((most / kRow + 1) * kRow), rows_(most / kRow + 1) {}

  std::uint32_t operator[](std::size_t i) const { return keys_[i]; }

  void raise(std::size_t i, std::uint32_t key) {
    keys_[i] = std::max(keys_[i], key);
    rows_[i / kRow] = std::max(rows_[i / kRow], key);
  }

  void set(std::size_t i, std::uint32_t key) {
    const std::uint32_t old = std::exchange(keys_[i], key);
    std::uint32_t& highest = rows_[i / kRow];
    if (key >= highest) {
      highest = key;
    } else if (old == highest) {
      highest = highest_of(keys_.data() + i / kRow * kRow, kRow);
    }
  }

  // Where the highest of the first `used` keys is, while the others are 0. Of equal ones in a row, the one that
  // goes_first(a, b) of b tells from all others.
  template <class GoesFirst>
  std::size_t highest(std::size_t used, GoesFirst goes_first) const {
    const std::size_t rows = used / kRow + 1;
    const std::uint32_t key = highest_of(rows_.data(), rows);
    std::size_t row = 0;
    while (rows_[row] != key) ++row;
    const std::uint32_t* keys = keys_.data() + row * kRow;
    std::uint32_t equal = where_equal<kRow>(keys, key);
    std::size_t best = row * kRow + static_cast<std::size_t>(std::countr_zero(equal));
    while ((equal &= equal - 1) != 0) {
      const std::size_t other = row * kRow + static_cast<std::size_t>(std::countr_zero(equal));
      if (goes_first(other, best)) best = other;
    }
    return best;
  }

  // The first `used` keys become 0; the others are.
  void clear(std::size_t used) {
    std::fill_n(keys_.data(), used, 0);
    std::fill_n(rows_.data(), used / kRow + 1, 0);
  }

  std::size_t bytes() const { return (keys_.size() + rows_.size()) * sizeof(std::uint32_t); }

  // One bit for each of so many keys that is this one. From a table of bits, since shifts by a lane's number are no
  // vector instruction.
  template <std::size_t Count>
  static std::uint32_t where_equal(const std::uint32_t* keys, std::uint32_t key) {
    std::uint32_t equal = 0;
    for (std::size_t i = 0; i < Count; ++i) equal |= keys[i] == key ? kBits[i] : 0;
    return equal;
  }

 private:
  static constexpr std::size_t kRow = 16;
  static constexpr auto kBits = [] {
    std::array<std::uint32_t, kRow> bits{};
    for (std::size_t i = 0; i < kRow; ++i) bits[i] = 1U << i;
    return bits;
  }();

  static std::uint32_t highest_of(const std::uint32_t* keys, std::size_t count) {
    std::uint32_t highest = 0;
    for (std::size_t i = 0; i < count; ++i) highest = std::max(highest, keys[i]);
    return highest;
  }

  LazyArray<std::uint32_t> keys_;
  LazyArray<std::uint32_t> rows_;
};

}  // namespace kvopt
