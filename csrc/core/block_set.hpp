// A set of block ids, of which the lowest are taken first: a bit a block, under it a tree of bits that say where any
// are.
//
// Complexity: O(log64 blocks) an id or less, none of it where neighbours come and go together; 1.02 bits a block, no
// allocation after construction.
#pragma once

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "kvopt/types.hpp"

namespace kvopt {

class BlockSet {
 public:
  // All ids below `blocks`.
  explicit BlockSet(std::uint32_t blocks) : blocks_(blocks) {
    for (std::size_t bits = blocks; levels_.empty() || bits > 1;) {
      bits = (bits + kBits - 1) / kBits;
      levels_.emplace_back(bits);
    }
    fill();
  }

  std::uint32_t size() const { return size_; }
  bool contains(BlockId b) const { return (levels_[0][b / kBits] >> (b % kBits) & 1U) != 0; }

  void fill() {
    std::size_t bits = blocks_;
    for (auto& level : levels_) {
      std::ranges::fill(level, ~std::uint64_t{0});
      if (bits % kBits != 0) level.back() = (std::uint64_t{1} << (bits % kBits)) - 1;
      bits = level.size();
    }
    size_ = blocks_;
  }

  // b must be outside.
  void add(BlockId b) {
    ++size_;
    std::size_t at = b;
    for (auto& level : levels_) {
      std::uint64_t& word = level[at / kBits];
      const bool known = word != 0;
      word |= std::uint64_t{1} << (at % kBits);
      if (known) return;
      at /= kBits;
    }
  }

  // Appends the n lowest to `out`; there must be as many.
  void take(std::size_t n, std::vector<BlockId>& out) {
    size_ -= static_cast<std::uint32_t>(n);
    while (n > 0) {
      std::size_t at = 0;
      for (std::size_t l = levels_.size(); l-- > 0;) {
        at = at * kBits + static_cast<std::size_t>(std::countr_zero(levels_[l][at]));
      }
      const std::size_t in_word = at / kBits;
      std::uint64_t& word = levels_[0][in_word];
      for (; word != 0 && n > 0; --n, word &= word - 1) {
        out.push_back(static_cast<BlockId>(in_word * kBits + static_cast<std::size_t>(std::countr_zero(word))));
      }
      if (word == 0) none_in(in_word);
    }
  }

  std::size_t bytes() const {
    std::size_t words = 0;
    for (const auto& level : levels_) words += level.size();
    return words * sizeof(std::uint64_t);
  }

 private:
  static constexpr std::size_t kBits = 64;

  // Word `at` of the lowest level is empty now.
  void none_in(std::size_t at) {
    for (std::size_t l = 1; l < levels_.size(); ++l) {
      std::uint64_t& word = levels_[l][at / kBits];
      word &= ~(std::uint64_t{1} << (at % kBits));
      if (word != 0) return;
      at /= kBits;
    }
  }

  std::uint32_t blocks_;
  std::uint32_t size_ = 0;
  std::vector<std::vector<std::uint64_t>>
      levels_;  // the ids; then, a bit a word of the level before, whether it has any
};

}  // namespace kvopt
