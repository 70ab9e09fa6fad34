// Where the keys and ids of cached blocks lie: slots, handed out as contiguous extents.
//
// A run's blocks lie side by side, so that comparing a prompt with a run is a sequential read. There are an eighth more
// slots than blocks, so that long extents stay to be had; where none is long enough, a run is made of several.
// Structure: free extents in lists by their length, eight a power of two (as TLSF: Masmano et al., ECRTS 2004),
// boundary tags for merging neighbours. Lists and tags are kept in the free slots themselves. Complexity: O(1) an
// allocation or release. 12.1 bytes a slot, plus the key when it is a byte string.
#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <cstdint>
#include <cstring>
#include <string>

#include "kvopt/run_table.hpp"
#include "kvopt/types.hpp"

namespace kvopt {

struct Extent {
  std::uint32_t first;
  std::uint32_t count;
};

class SlotArena {
 public:
  SlotArena(std::uint32_t blocks, std::uint32_t key_bytes)
      : slots_(blocks + blocks / kBlocksASpareSlot + 64),
        key_bytes_(key_bytes),
        key_(slots_),
        block_(slots_),
        free_(slots_ / 64 + 1),
        bytes_(std::size_t{slots_} * key_bytes) {
    clear();
  }

  std::uint64_t* keys(std::uint32_t slot) { return key_.data() + slot; }
  const std::uint64_t* keys(std::uint32_t slot) const { return key_.data() + slot; }
  BlockId* blocks(std::uint32_t slot) { return block_.data() + slot; }
  const BlockId* blocks(std::uint32_t slot) const { return block_.data() + slot; }
  std::uint8_t* key_bytes(std::uint32_t slot) { return bytes_.data() + std::size_t{slot} * key_bytes_; }
  const std::uint8_t* key_bytes(std::uint32_t slot) const { return bytes_.data() + std::size_t{slot} * key_bytes_; }
  std::uint32_t slots() const { return slots_; }
  std::uint32_t free_slots() const { return free_slots_; }

  // 1 to `wanted` slots; as many as can be had side by side.
  Extent allocate(std::uint32_t wanted) {
    const std::uint32_t first = heads_[class_for(wanted)];
    const std::uint32_t length = tag(first);
    unlink(first, length);
    const std::uint32_t count = std::min(length, wanted);
    if (count < length) link(first + count, length - count);
    take({first, count});
    return {first, count};
  }

  // 0 to `wanted` slots that begin at `slot`, the end of an extent in use.
  std::uint32_t extend(std::uint32_t slot, std::uint32_t wanted) {
    if (slot >= slots_ || !is_free(slot)) return 0;
    const std::uint32_t length = tag(slot);
    unlink(slot, length);
    const std::uint32_t count = std::min(length, wanted);
    if (count < length) link(slot + count, length - count);
    take({slot, count});
    return count;
  }

  void release(Extent e) {
    mark(e, [](std::uint64_t& word, std::uint64_t bits) { word |= bits; });
    free_slots_ += e.count;
    const std::uint32_t end = e.first + e.count;
    if (end < slots_ && is_free(end)) {
      const std::uint32_t length = tag(end);
      unlink(end, length);
      e.count += length;
    }
    if (e.first > 0 && is_free(e.first - 1)) {
      const std::uint32_t length = tag(e.first - 1);
      unlink(e.first - length, length);
      e = {e.first - length, e.count + length};
    }
    link(e.first, e.count);
  }

  void clear() {
    heads_.fill(kNoSlot);
    classes_.fill(0);
    free_slots_ = slots_;
    mark({0, slots_}, [](std::uint64_t& word, std::uint64_t bits) { word |= bits; });
    link(0, slots_);
  }

  // Free extents are whole, merged and listed; else a sentence that says what is wrong.
  std::string verify() const {
    std::uint32_t counted = 0;
    std::uint32_t extents = 0;
    for (std::uint32_t s = 0; s < slots_;) {
      if (!is_free(s)) {
        ++s;
        continue;
      }
      std::uint32_t end = s;
      while (end < slots_ && is_free(end)) ++end;
      if (tag(s) != end - s || tag(end - 1) != end - s)
        return "the free extent at slot " + std::to_string(s) + " is tagged wrongly";
      counted += end - s;
      ++extents;
      s = end;
    }
    std::uint32_t listed = 0;
    for (std::uint32_t cls = 0; cls < heads_.size(); ++cls) {
      for (std::uint32_t s = heads_[cls]; s != kNoSlot && listed <= extents; s = links(s).next) {
        ++listed;
        if (!is_free(s) || size_class(tag(s)) != cls) return "slot " + std::to_string(s) + " is in a wrong list";
      }
    }
    if (counted != free_slots_ || listed != extents) return "free slots are counted or listed wrongly";
    return {};
  }

  std::size_t bytes() const {
    return std::size_t{slots_} * (sizeof(std::uint64_t) + sizeof(BlockId) + key_bytes_) + free_.size() * 8;
  }

 private:
  static constexpr std::uint32_t kNoSlot = UINT32_MAX;
  static constexpr std::uint32_t kBlocksASpareSlot = 8;
  static constexpr std::uint32_t kFineBits = 3;
  static constexpr std::uint32_t kFine = 1U << kFineBits;  // classes of lengths a power of two
  static constexpr std::uint32_t kClasses = (32 - kFineBits + 1) << kFineBits;

  struct Links {  // of a free extent, kept in the key of its first slot
    std::uint32_t next;
    std::uint32_t previous;
  };

  // Lengths below 2 kFine have a class each.
  static std::uint32_t size_class(std::uint32_t length) {
    const auto octave = static_cast<std::uint32_t>(std::bit_width(length >> kFineBits));  // 0: below kFine
    return octave == 0 ? length : (octave << kFineBits) + (length >> (octave - 1)) - kFine;
  }

  // The lowest class that is not empty and has extents of `wanted` slots or more only; else the highest that is not
  // empty.
  std::uint32_t class_for(std::uint32_t wanted) const {
    std::uint32_t cls = size_class(wanted);
    if (cls >= kFine) cls = size_class(wanted + (1U << ((cls >> kFineBits) - 1)) - 1);
    for (std::uint32_t word = cls / 64; word < classes_.size(); ++word) {
      std::uint64_t bits = classes_[word];
      if (word == cls / 64) bits &= ~std::uint64_t{0} << (cls % 64);
      if (bits != 0) return word * 64 + static_cast<std::uint32_t>(std::countr_zero(bits));
    }
    std::uint32_t word = static_cast<std::uint32_t>(classes_.size()) - 1;
    while (word > 0 && classes_[word] == 0) --word;
    return word * 64 + static_cast<std::uint32_t>(std::bit_width(classes_[word] | 1U)) - 1;
  }

  bool is_free(std::uint32_t s) const { return (free_[s / 64] >> (s % 64) & 1) != 0; }

  // The length of a free extent, kept in the block ids of its first and last slot.
  std::uint32_t tag(std::uint32_t s) const { return block_[s]; }

  Links links(std::uint32_t s) const { return std::bit_cast<Links>(key_[s]); }
  void set_links(std::uint32_t s, Links l) { key_[s] = std::bit_cast<std::uint64_t>(l); }

  // Calls change(word, bits) for each word of free_ that has bits of the extent.
  template <class Change>
  void mark(Extent e, Change change) {
    std::uint32_t first = e.first;
    for (const std::uint32_t end = e.first + e.count; first < end;) {
      const std::uint32_t count = std::min(end - first, 64 - first % 64);
      change(free_[first / 64], ~std::uint64_t{0} >> (64 - count) << (first % 64));
      first += count;
    }
  }

  void take(Extent e) {
    mark(e, [](std::uint64_t& word, std::uint64_t bits) { word &= ~bits; });
    free_slots_ -= e.count;
  }

  void link(std::uint32_t first, std::uint32_t length) {
    const std::uint32_t cls = size_class(length);
    block_[first] = block_[first + length - 1] = length;
    const std::uint32_t next = heads_[cls];
    set_links(first, {next, kNoSlot});
    if (next != kNoSlot) set_links(next, {links(next).next, first});
    heads_[cls] = first;
    classes_[cls / 64] |= std::uint64_t{1} << (cls % 64);
  }

  void unlink(std::uint32_t first, std::uint32_t length) {
    const std::uint32_t cls = size_class(length);
    const Links l = links(first);
    if (l.previous == kNoSlot) {
      heads_[cls] = l.next;
    } else {
      set_links(l.previous, {l.next, links(l.previous).previous});
    }
    if (l.next != kNoSlot) set_links(l.next, {links(l.next).next, l.previous});
    if (heads_[cls] == kNoSlot) classes_[cls / 64] &= ~(std::uint64_t{1} << (cls % 64));
  }

  std::uint32_t slots_;
  std::uint32_t key_bytes_;
  std::uint32_t free_slots_ = 0;
  std::array<std::uint64_t, (kClasses + 63) / 64> classes_{};  // bit c: the list of class c is not empty
  std::array<std::uint32_t, kClasses> heads_{};
  LazyArray<std::uint64_t> key_;
  LazyArray<BlockId> block_;
  LazyArray<std::uint64_t> free_;  // one bit a slot
  LazyArray<std::uint8_t> bytes_;
};

}  // namespace kvopt
