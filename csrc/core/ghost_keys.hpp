// Keys of evicted blocks, in pieces: what is gone of a chain, from its deep end on, piece by piece.
//
// A ring of words that is allocated once; new pieces overwrite the oldest, which are not known any more then. A piece
// is three words and its keys. O(1) a piece, and a copy of eight bytes a block.
#pragma once

#include <algorithm>
#include <bit>
#include <cstdint>
#include <span>

#include "core/common_prefix.hpp"
#include "kvopt/run_table.hpp"

namespace kvopt {

// A place within a chain of pieces.
struct GhostPlace {
  std::uint64_t piece = 0;  // 0: none
  std::uint32_t skip = 0;   // keys of it that are not of the chain any more
};

class GhostKeys {
 public:
  // Room for at least so many keys, if they come in pieces that are not too short.
  explicit GhostKeys(std::uint32_t keys) : words_(std::bit_ceil(std::size_t{keys} + kHead + 1)) {}

  // A piece in front of what stands at `behind`. Too long a one is not known.
  GhostPlace push(std::span<const std::uint64_t> keys, GhostPlace behind) {
    if (keys.size() + kHead > words_.size()) return {};
    const std::uint64_t piece = end_;
    word(piece) = behind.piece;
    word(piece + 1) = behind.skip;
    word(piece + 2) = keys.size();
    std::uint64_t* first = &word(piece + kHead);
    const std::size_t here = std::min(keys.size(), side_by_side(piece + kHead));
    std::copy_n(keys.data(), here, first);
    if (here < keys.size()) std::copy_n(keys.data() + here, keys.size() - here, words_.data());
    end_ += kHead + keys.size();
    return {piece, 0};
  }

  bool knows(GhostPlace place) const { return place.piece != 0 && end_ - place.piece <= words_.size(); }

  // The key at a known place.
  std::uint64_t key(GhostPlace place) const { return word(place.piece + kHead + place.skip); }

  // How many of these keys are those of the chain from a known place on; it goes behind them. It is not known any more
  // when they reach what was overwritten.
  std::uint32_t match(GhostPlace& place, std::span<const std::uint64_t> keys) const {
    std::size_t matched = 0;
    while (matched < keys.size() && knows(place)) {
      const std::uint64_t at = place.piece + kHead + place.skip;
      const std::size_t left = word(place.piece + 2) - place.skip;
      const std::size_t most = std::min({left, side_by_side(at), keys.size() - matched});
      const std::size_t same = common_prefix(&words_[at & (words_.size() - 1)], keys.data() + matched, most);
      matched += same;
      place.skip += static_cast<std::uint32_t>(same);
      if (same == left) place = {word(place.piece), static_cast<std::uint32_t>(word(place.piece + 1))};
      if (same < most) break;
    }
    return static_cast<std::uint32_t>(matched);
  }

  std::size_t bytes() const { return words_.size() * sizeof(std::uint64_t); }

 private:
  static constexpr std::size_t kHead = 3;  // words

  // How many words lie side by side from this one on.
  std::size_t side_by_side(std::uint64_t at) const { return words_.size() - (at & (words_.size() - 1)); }
  std::uint64_t& word(std::uint64_t at) { return words_[at & (words_.size() - 1)]; }
  std::uint64_t word(std::uint64_t at) const { return words_[at & (words_.size() - 1)]; }

  LazyArray<std::uint64_t> words_;
  std::uint64_t end_ = 1;
};

}  // namespace kvopt
