// Which block carries which key: several blocks may carry one key, and a block may carry several.
//
// Structure: an open-addressing table from a 32-bit tag to the first entry of a key; entries of the same key are linked
// in the order of insertion. Entry b is the first key of block b; further keys of a block (rare) have entries above.
// The tag is keyed with a number that is drawn once a process, because who chooses a prompt may choose its hash. A
// table slot holds all that moving it needs, so a removal never reads keys.
// Complexity: O(1) expected each. 48 bytes a block plus 16 to 32 for the table; pages that were never used take none.
#pragma once

#include <array>
#include <bit>
#include <cstdint>
#include <cstring>
#include <random>
#include <string>
#include <unordered_map>
#include <vector>

#include "kvopt/engine_pool.hpp"
#include "kvopt/run_table.hpp"
#include "kvopt/types.hpp"

namespace kvopt {

class BlockIndex {
 public:
  using Tag = std::uint32_t;

  explicit BlockIndex(std::uint32_t blocks)
      : blocks_(blocks), bits_(bits_for(blocks)), slots_(std::size_t{1} << bits_), entries_(blocks) {}

  bool has_key(BlockId b) const { return entries_[b].bytes > 0; }
  BlockKey key(BlockId b) const { return key_of(entries_[b]); }

  std::vector<BlockKey> more_keys(BlockId b) const {
    std::vector<BlockKey> keys;
    if (const auto found = more_.find(b); found != more_.end()) {
      for (const EntryId e : found->second) keys.push_back(key_of(entry(e)));
    }
    return keys;
  }

  Tag tag(BlockKey key) const { return tag_of(key.data(), key.size()); }
  void prefetch(Tag tag) const { __builtin_prefetch(&slots_[home(tag)]); }
  // The key that lies where the tag leads, most likely the one that is wanted.
  void prefetch_entry(Tag tag) const {
    const EntryId e = slots_[home(tag)].entry;
    if (e == 0 || e > blocks_) return;
    const auto* begin = reinterpret_cast<const char*>(&entries_[e - 1]);
    __builtin_prefetch(begin);
    __builtin_prefetch(begin + sizeof(Entry) - 1);  // an entry lies in two lines more often than not
  }

  // The first block that got this key, or kNoBlock.
  BlockId find(BlockKey key, Tag tag) const {
    const EntryId e = first(key, tag);
    return e == kNone ? kNoBlock : block_of(e);
  }
  BlockId find(BlockKey key) const { return find(key, tag(key)); }

  bool contains(BlockKey key, BlockId b) const {
    for (EntryId e = first(key, tag(key)); e != kNone; e = next(e)) {
      if (block_of(e) == b) return true;
    }
    return false;
  }

  // False when the block carries it already.
  bool insert(BlockKey key, BlockId b) {
    if (has_key(b) && contains(key, b)) return false;
    EntryId e = b;
    if (has_key(b)) {
      e = new_entry(b);
      more_[b].push_back(e);
    }
    fill(entry(e), key);
    link(e, tag(key));
    return true;
  }

  // Takes all keys off a block, calling each(key) before one goes.
  template <class Each>
  std::size_t remove(BlockId b, Each each) {
    if (!has_key(b)) return 0;
    each(key(b));
    unlink(b);
    entries_[b].bytes = 0;
    std::size_t removed = 1;
    if (more_.empty()) return removed;
    const auto found = more_.find(b);
    if (found == more_.end()) return removed;
    for (const EntryId e : found->second) {
      each(key_of(entry(e)));
      unlink(e);
      entry(e).bytes = 0;
      free_.push_back(e);
      ++removed;
    }
    more_.erase(found);
    return removed;
  }

  std::size_t size() const { return used_; }  // different keys

  // The table, the lists and the keys agree; else a sentence that says what is wrong.
  std::string verify() const {
    std::size_t occupied = 0;
    std::size_t linked = 0;
    for (std::size_t s = 0; s < slots_.size(); ++s) {
      if (slots_[s].entry == 0) continue;
      ++occupied;
      EntryId last = kNone;
      for (EntryId e = slots_[s].entry - 1; e != kNone; last = e, e = next(e)) {
        if (entry(e).bytes == 0) return "entry " + std::to_string(e) + " is in the table without a key";
        if (tag(key_of(entry(e))) != slots_[s].tag) return "entry " + std::to_string(e) + " is under a wrong tag";
        if (last != kNone && entry(e).previous != last) return "entry " + std::to_string(e) + " is linked wrongly";
        ++linked;
      }
      const EntryId head = slots_[s].entry - 1;
      if (entry(head).previous != last) return "the list of entry " + std::to_string(head) + " has no end";
      if (first(key_of(entry(head)), slots_[s].tag) != head) return "entry " + std::to_string(head) + " is not found";
    }
    std::size_t carried = 0;
    for (BlockId b = 0; b < blocks_; ++b) carried += has_key(b) ? 1 : 0;
    for (const auto& [b, entries] : more_) carried += entries.size();
    if (occupied != used_) return "keys are miscounted";
    return linked == carried ? std::string() : "a key of a block is not in the table";
  }

  std::size_t bytes() const {
    return slots_.size() * sizeof(Slot) + entries_.size() * sizeof(Entry) + extra_.capacity() * sizeof(Extra);
  }

 private:
  using EntryId = std::uint32_t;
  static constexpr EntryId kNone = UINT32_MAX;
  static constexpr std::uint32_t kExtra = std::uint32_t{1} << 30;  // entries of further keys begin here

  struct Entry {
    std::array<std::uint8_t, kMostKeyBytes> key;
    EntryId next;      // with the same key, stored later, plus one; 0: none
    EntryId previous;  // of the first: the last
    std::uint8_t bytes;
  };
  struct Extra {
    Entry entry;
    BlockId block;
  };
  struct Slot {
    EntryId entry;  // the first with its key, plus one; 0: empty
    Tag tag;
  };

  static std::uint32_t bits_for(std::size_t keys) { return static_cast<std::uint32_t>(std::bit_width(keys)) + 1; }
  static BlockKey key_of(const Entry& e) { return {e.key.data(), e.bytes}; }

  Entry& entry(EntryId e) { return e < kExtra ? entries_[e] : extra_[e - kExtra].entry; }
  const Entry& entry(EntryId e) const { return e < kExtra ? entries_[e] : extra_[e - kExtra].entry; }
  BlockId block_of(EntryId e) const { return e < kExtra ? e : extra_[e - kExtra].block; }
  EntryId next(EntryId e) const { return entry(e).next - 1; }  // 0 wraps around to kNone

  static std::uint64_t fold(std::uint64_t a, std::uint64_t b) {
    __extension__ using Wide = unsigned __int128;
    const Wide product = static_cast<Wide>(a) * b;
    return static_cast<std::uint64_t>(product) ^ static_cast<std::uint64_t>(product >> 64);
  }

  Tag tag_of(const std::uint8_t* key, std::size_t bytes) const {
    static const std::array<std::uint64_t, 2> kSecret = draw();
    std::uint64_t state = kSecret[0] ^ bytes;
    std::uint64_t word = 0;
    for (std::size_t i = 0; i + sizeof word <= bytes && i < 2 * sizeof word; i += sizeof word) {
      std::memcpy(&word, key + i, sizeof word);  // 16 bytes of a hash are as good as all
      state = fold(state ^ word, kSecret[1]);
    }
    word = 0;
    const std::size_t rest = std::min(bytes, sizeof word);
    std::memcpy(&word, key + bytes - rest, rest);
    return static_cast<Tag>(fold(state ^ word, kSecret[1]) >> 32);
  }

  static std::array<std::uint64_t, 2> draw() {
    std::random_device device;
    const auto word = [&] { return std::uint64_t{device()} << 32 | device(); };
    return {word(), word() | 1};
  }

  std::size_t home(Tag tag) const { return tag >> (32 - bits_); }
  std::size_t after(std::size_t s) const { return (s + 1) & (slots_.size() - 1); }

  static void fill(Entry& e, BlockKey key) {
    std::memcpy(e.key.data(), key.data(), key.size());
    e.bytes = static_cast<std::uint8_t>(key.size());
  }
  static bool same(const Entry& e, BlockKey key) {
    return e.bytes == key.size() && std::memcmp(e.key.data(), key.data(), key.size()) == 0;
  }

  EntryId first(BlockKey key, Tag tag) const {
    for (std::size_t s = home(tag); slots_[s].entry != 0; s = after(s)) {
      if (slots_[s].tag == tag && same(entry(slots_[s].entry - 1), key)) return slots_[s].entry - 1;
    }
    return kNone;
  }

  EntryId new_entry(BlockId b) {
    if (free_.empty()) {
      extra_.push_back({});
      free_.push_back(kExtra + static_cast<EntryId>(extra_.size() - 1));
    }
    const EntryId e = free_.back();
    free_.pop_back();
    extra_[e - kExtra].block = b;
    return e;
  }

  void link(EntryId e, Tag tag) {
    const EntryId head = first(key_of(entry(e)), tag);
    entry(e).next = 0;
    if (head != kNone) {
      const EntryId last = entry(head).previous;
      entry(last).next = e + 1;
      entry(e).previous = last;
      entry(head).previous = e;
      return;
    }
    entry(e).previous = e;
    if (3 * ++used_ > 2 * slots_.size()) grow();
    place({e + 1, tag});
  }

  void place(Slot slot) {
    std::size_t s = home(slot.tag);
    while (slots_[s].entry != 0) s = after(s);
    slots_[s] = slot;
  }

  void unlink(EntryId e) {
    const Tag tag_of_key = tag(key_of(entry(e)));
    std::size_t s = home(tag_of_key);
    const auto leads_here = [&] { return slots_[s].tag == tag_of_key && slots_[s].entry == e + 1; };
    const EntryId following = next(e);
    if (const EntryId before = entry(e).previous; before != e && next(before) == e) {  // not the first of several
      entry(before).next = entry(e).next;
      if (following != kNone) {
        entry(following).previous = before;
      } else {
        entry(first(key_of(entry(e)), tag_of_key)).previous = before;
      }
      return;
    }
    while (!leads_here()) s = after(s);
    if (following != kNone) {
      entry(following).previous = entry(e).previous;
      slots_[s].entry = following + 1;
      return;
    }
    --used_;
    for (std::size_t from = after(s); slots_[from].entry != 0; from = after(from)) {
      const std::size_t wanted = home(slots_[from].tag);
      if (((from - wanted) & (slots_.size() - 1)) < ((from - s) & (slots_.size() - 1))) continue;
      slots_[s] = slots_[from];
      s = from;
    }
    slots_[s] = {};
  }

  void grow() {
    LazyArray<Slot> old(std::size_t{1} << ++bits_);
    std::swap(old, slots_);
    for (std::size_t s = 0; s < old.size(); ++s) {
      if (old[s].entry != 0) place(old[s]);
    }
  }

  std::uint32_t blocks_;
  std::uint32_t bits_;
  std::size_t used_ = 0;
  LazyArray<Slot> slots_;
  LazyArray<Entry> entries_;
  std::vector<Extra> extra_;
  std::vector<EntryId> free_;  // among extra_
  std::unordered_map<BlockId, std::vector<EntryId>> more_;
};

}  // namespace kvopt
