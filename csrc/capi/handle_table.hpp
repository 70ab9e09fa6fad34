// Values by handle: a slot and a serial number that no other handle of this process has had, so that a stale handle, or
// one of another table, finds nothing. O(1) each. Whoever owns a table locks it.
#pragma once

#include <atomic>
#include <cstdint>
#include <new>
#include <vector>

namespace kvopt::capi {

inline constexpr std::uint32_t kSlotBits = 28;

// From 1 up; at 100,000 handles a second they last for a week, after which only a handle of that age could be mistaken.
inline std::uint64_t next_serial() {
  static std::atomic<std::uint64_t> next{0};
  constexpr std::uint64_t kMost = (std::uint64_t{1} << (64 - kSlotBits)) - 1;
  return next.fetch_add(1, std::memory_order_relaxed) % kMost + 1;
}

// A slot keeps its value for its next handle: memory that the value owns is used again.
template <class Value>
class HandleTable {
 public:
  // Throws std::bad_alloc, also when there are 2^28 values already.
  std::uint64_t add() {
    if (free_.empty()) {
      if (entries_.size() >> kSlotBits != 0) throw std::bad_alloc();
      entries_.emplace_back();
      free_.reserve(entries_.capacity());  // so that remove() cannot fail
      free_.push_back(entries_.size() - 1);
    }
    const std::size_t slot = free_.back();
    free_.pop_back();
    return entries_[slot].id = next_serial() << kSlotBits | slot;
  }

  // Null when the handle is none of this table's.
  Value* find(std::uint64_t id) {
    const std::size_t slot = slot_of(id);
    return id != 0 && slot < entries_.size() && entries_[slot].id == id ? &entries_[slot].value : nullptr;
  }

  // The handle is one that find() has found.
  void remove(std::uint64_t id) {
    entries_[slot_of(id)].id = 0;
    free_.push_back(slot_of(id));
  }

 private:
  struct Entry {
    std::uint64_t id = 0;
    Value value = {};
  };

  static std::size_t slot_of(std::uint64_t id) { return id & ((std::uint64_t{1} << kSlotBits) - 1); }

  std::vector<Entry> entries_;
  std::vector<std::size_t> free_;
};

}  // namespace kvopt::capi
