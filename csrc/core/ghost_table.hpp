// What was evicted lately, by the key of its first block: a hash table with separate chaining, oldest forgotten first.
//
// Bounded in blocks, so that it reaches back as far whether runs are long or short; an entry of more blocks than that
// counts as that many. Each entry has a number below the bound, under which its owner keeps what it remembers of it.
// O(1); 28 to 32 bytes an entry, no allocation after construction.
#pragma once

#include <algorithm>
#include <bit>
#include <cstdint>

#include "kvopt/run_table.hpp"

namespace kvopt {

class GhostTable {
 public:
  using Ghost = std::uint32_t;
  static constexpr Ghost kNoGhost = UINT32_MAX;

  explicit GhostTable(std::uint32_t blocks)
      : limit_(blocks), heads_(std::bit_ceil(std::max(blocks, 1u))), entries_(std::size_t{blocks} + 1) {
    entries_[limit_].older = entries_[limit_].newer = limit_;
  }

  std::uint32_t limit() const { return limit_; }

  // Whether the oldest ghosts go when one of this many blocks is inserted: for owners that must know which.
  bool needs_room(std::uint32_t blocks) const { return blocks_ > 0 && blocks_ + blocks > limit_; }
  std::uint64_t oldest_key() const { return entries_[entries_[limit_].newer].key; }

  // kNoGhost when nothing can be remembered. A ghost of the same key is replaced.
  Ghost insert(std::uint64_t key, std::uint32_t blocks) {
    if (limit_ == 0) return kNoGhost;
    take(key);
    blocks = std::min(blocks, limit_);
    while (needs_room(blocks)) take(oldest_key());
    const Ghost g = free_ != kNoGhost ? free_ : used_++;
    if (g == free_) free_ = entries_[g].chain;
    Ghost& head = heads_[bucket(key)];
    const Ghost newest = entries_[limit_].older;
    entries_[g] = {key, head, newest, limit_, blocks};
    head = g + 1;
    entries_[newest].newer = entries_[limit_].older = g;
    blocks_ += blocks;
    return g;
  }

  // Forgets the ghost of this key. Its number stays valid until the next insertion; kNoGhost: there was none.
  Ghost take(std::uint64_t key) {
    for (Ghost* link = &heads_[bucket(key)]; *link != 0; link = &entries_[*link - 1].chain) {
      const Ghost g = *link - 1;
      Entry& entry = entries_[g];
      if (entry.key != key) continue;
      *link = entry.chain;
      entries_[entry.older].newer = entry.newer;
      entries_[entry.newer].older = entry.older;
      blocks_ -= entry.blocks;
      entry.chain = free_;
      free_ = g;
      return g;
    }
    return kNoGhost;
  }

  std::size_t bytes() const { return heads_.size() * sizeof(Ghost) + entries_.size() * sizeof(Entry); }

 private:
  struct Entry {
    std::uint64_t key;
    Ghost chain;  // next in the bucket, plus one; of a free entry, the next free one
    Ghost older;
    Ghost newer;
    std::uint32_t blocks;
  };

  std::size_t bucket(std::uint64_t key) const {
    const std::uint64_t mixed = key * 0x9E3779B97F4A7C15u;
    return static_cast<std::size_t>((mixed ^ (mixed >> 32)) & (heads_.size() - 1));
  }

  std::uint32_t limit_;
  LazyArray<Ghost> heads_;    // entry, plus one; 0: none
  LazyArray<Entry> entries_;  // entries_[limit_] is both ends of the order of age
  Ghost used_ = 0;
  Ghost free_ = kNoGhost;
  std::uint64_t blocks_ = 0;
};

}  // namespace kvopt
