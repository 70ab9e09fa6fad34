// Things that end at a deadline, the soonest first: a 4-ary heap of (deadline, item, stamp).
//
// Invalidation is lazy: the owner bumps an item's stamp, and entries with an older stamp are skipped when they surface,
// so a cancel costs nothing and a tick costs only what is due. The owner compacts when stale entries outnumber live
// ones.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "kvopt/types.hpp"

namespace kvopt {

class DeadlineHeap {
 public:
  struct Entry {
    Time deadline;
    std::uint32_t item;
    std::uint32_t stamp;
  };

  void reserve(std::size_t n) { heap_.reserve(n); }
  std::size_t size() const { return heap_.size(); }
  std::size_t bytes() const { return heap_.capacity() * sizeof(Entry); }
  void clear() { heap_.clear(); }

  void push(Entry entry) {
    heap_.push_back(entry);
    sift_up(heap_.size() - 1);
  }

  // Hands every entry with deadline <= now to due(entry), soonest first; due may push.
  template <class Due>
  void pop_due(Time now, Due due) {
    while (!heap_.empty() && heap_.front().deadline <= now) {
      const Entry top = heap_.front();
      pop();
      due(top);
    }
  }

  // Keeps the entries for which live(entry) holds.
  template <class Live>
  void compact(Live live) {
    std::erase_if(heap_, [&](const Entry& e) { return !live(e); });
    for (std::size_t i = heap_.size(); i-- > 0;) sift_down(i);
  }

 private:
  static constexpr std::size_t kArity = 4;

  void pop() {
    heap_.front() = heap_.back();
    heap_.pop_back();
    if (!heap_.empty()) sift_down(0);
  }

  void sift_up(std::size_t i) {
    const Entry moving = heap_[i];
    while (i > 0) {
      const std::size_t up = (i - 1) / kArity;
      if (heap_[up].deadline <= moving.deadline) break;
      heap_[i] = heap_[up];
      i = up;
    }
    heap_[i] = moving;
  }

  void sift_down(std::size_t i) {
    const Entry moving = heap_[i];
    for (;;) {
      const std::size_t first = i * kArity + 1;
      if (first >= heap_.size()) break;
      const std::size_t last = std::min(first + kArity, heap_.size());
      std::size_t soonest = first;
      for (std::size_t c = first + 1; c < last; ++c) {
        if (heap_[c].deadline < heap_[soonest].deadline) soonest = c;
      }
      if (moving.deadline <= heap_[soonest].deadline) break;
      heap_[i] = heap_[soonest];
      i = soonest;
    }
    heap_[i] = moving;
  }

  std::vector<Entry> heap_;
};

}  // namespace kvopt
