// The possible victims of a pool (evictable runs without children), ordered by a key: an indexed 4-ary heap.
//
// Only leaves are in the heap. When a leaf goes, its parent may become one and enters, so any key gives a leaf-first
// order, also one by which an interior run would come first. 8 bytes a run; O(log leaves) an insertion or removal, none
// for interior runs. Less(a, b): a goes before b; a strict total order (end with the id), constant while a run is
// evictable.
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "kvopt/policy.hpp"
#include "kvopt/run_table.hpp"

namespace kvopt {

template <class Less>
class LeafHeap {
 public:
  LeafHeap(const RunTable& runs, Less less) : runs_(runs), less_(std::move(less)), place_(runs.capacity) {}

  bool contains(RunId r) const { return place_[r] != 0; }
  RunId front() const { return heap_.front(); }

  void add(std::span<const RunId> evictable) {
    for (const RunId r : evictable) {
      if (runs_.children[r] == 0) add(r);
    }
  }

  void add(RunId leaf) {
    heap_.push_back(leaf);
    sift_up(static_cast<std::uint32_t>(heap_.size() - 1));
  }

  void remove(std::span<const RunId> runs) {
    for (const RunId r : runs) {
      if (contains(r)) erase(place_[r] - 1);
    }
  }

  // The key of r changed.
  void update(RunId r) {
    if (!contains(r)) return;
    sift_up(place_[r] - 1);
    sift_down(place_[r] - 1);
  }

  std::string verify() const {
    std::size_t leaves = 0;
    for (RunId r = 0; r < runs_.used; ++r) {
      const bool leaf = runs_.is_victim(r);
      leaves += leaf ? 1 : 0;
      if (leaf != contains(r)) {
        return "run " + std::to_string(r) + (leaf ? " is a victim outside" : " should not be in") + " the heap";
      }
    }
    if (leaves != heap_.size()) return "the heap holds runs more than once";
    for (std::uint32_t i = 1; i < heap_.size(); ++i) {
      if (less_(heap_[i], heap_[(i - 1) / kArity])) return "the heap is out of order at " + std::to_string(i);
    }
    return {};
  }

  std::size_t bytes() const { return place_.size() * sizeof(std::uint32_t) + heap_.capacity() * sizeof(RunId); }

 private:
  static constexpr std::uint32_t kArity = 4;

  void put(std::uint32_t at, RunId r) {
    heap_[at] = r;
    place_[r] = at + 1;
  }

  // Closes the gap at `at` with the last entry.
  void erase(std::uint32_t at) {
    place_[heap_[at]] = 0;
    const RunId last = heap_.back();
    heap_.pop_back();
    if (at == heap_.size()) return;
    put(at, last);
    sift_up(at);
    sift_down(place_[last] - 1);
  }

  void sift_up(std::uint32_t i) {
    const RunId moving = heap_[i];
    while (i > 0) {
      const std::uint32_t up = (i - 1) / kArity;
      if (!less_(moving, heap_[up])) break;
      put(i, heap_[up]);
      i = up;
    }
    put(i, moving);
  }

  void sift_down(std::uint32_t i) {
    const RunId moving = heap_[i];
    const auto n = static_cast<std::uint32_t>(heap_.size());
    for (;;) {
      const std::uint32_t first = i * kArity + 1;
      if (first >= n) break;
      const std::uint32_t last = std::min(first + kArity, n);
      std::uint32_t best = first;
      for (std::uint32_t c = first + 1; c < last; ++c) {
        if (less_(heap_[c], heap_[best])) best = c;
      }
      if (!less_(heap_[best], moving)) break;
      put(i, heap_[best]);
      i = best;
    }
    put(i, moving);
  }

  const RunTable& runs_;
  Less less_;
  std::vector<RunId> heap_;
  LazyArray<std::uint32_t> place_;  // index in the heap, plus one; 0: outside
};

// A policy whose order is a LeafHeap. Derived classes override attach(), call order_by() in it, and keep the keys.
template <class Less>
class LeafHeapPolicy : public Policy {
 public:
  void on_split(RunId /*head*/, RunId tail) override { heap_->update(tail); }  // its depth is another
  void on_referenced(std::span<const RunId> runs) override { heap_->remove(runs); }
  void on_evictable(std::span<const RunId> runs, const RequestInfo& /*info*/) override { heap_->add(runs); }
  void on_dropped(std::span<const RunId> runs) override { heap_->remove(runs); }
  void on_uncovered(RunId run) override { heap_->add(run); }
  void on_trimmed(RunId run) override { heap_->update(run); }
  RunId choose(std::uint32_t /*wanted*/, Time /*now*/) override { return heap_->front(); }
  std::string verify() const override { return heap_->verify(); }
  std::size_t bytes() const override { return heap_->bytes(); }

 protected:
  void order_by(const RunTable& runs, Less less) { heap_.emplace(runs, std::move(less)); }

  std::optional<LeafHeap<Less>> heap_;
};

}  // namespace kvopt
