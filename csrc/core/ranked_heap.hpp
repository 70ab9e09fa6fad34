// The possible victims of a pool (evictable runs without children), ordered by a rank that each run is given: an
// indexed 4-ary heap that keeps the ranks beside the runs, so that sifting reads no other memory.
//
// Lazy: a run that is referenced or covered by a child stays where it is and is put off when it comes to the front; it
// gets its place, old or new, when it is a victim again. So a hit costs one move, most often a short one, instead of a
// removal and an insertion. O(log leaves) an eviction of a run. No allocation after construction.
#pragma once

#include <algorithm>
#include <cstdint>
#include <span>
#include <string>

#include "kvopt/run_table.hpp"

namespace kvopt {

template <class Rank>
class RankedHeap {
 public:
  explicit RankedHeap(const RunTable& runs)
      : runs_(runs), heap_(runs.capacity), place_(runs.capacity), rank_(runs.capacity) {}

  const Rank& rank(RunId r) const { return rank_[r]; }

  // The rank of an evictable run.
  void set(RunId r, const Rank& rank) {
    rank_[r] = rank;
    if (runs_.children[r] == 0) place(r);
  }

  void copy_rank(RunId from, RunId to) { rank_[to] = rank_[from]; }

  // Gives an evictable run without children its place.
  void place(RunId r) {
    if (place_[r] == 0) {
      sift_up(size_++, {rank_[r], r});
      return;
    }
    const std::uint32_t at = place_[r] - 1;
    const Entry moving{rank_[r], r};
    if (moving.rank < heap_[at].rank) {
      sift_up(at, moving);
    } else {
      sift_down(at, moving);
    }
  }

  void remove(std::span<const RunId> runs) {
    for (const RunId r : runs) {
      if (place_[r] != 0) erase(place_[r] - 1);
    }
  }

  bool empty() {
    while (size_ > 0 && !runs_.is_victim(heap_[0].run)) erase(0);
    return size_ == 0;
  }

  // The victim of the lowest rank; there is one.
  RunId front() { return empty() ? kNoRun : heap_[0].run; }

  bool contains(RunId r) const { return place_[r] != 0; }

  // Whether the order is right and each run that is in it has its rank; which runs have to be in is for the policy.
  std::string verify() const {
    for (std::uint32_t i = 0; i < size_; ++i) {
      const RunId r = heap_[i].run;
      if (!runs_.hittable(r)) return "run " + std::to_string(r) + " is in the heap, but can be hit no more";
      if (place_[r] != i + 1) return "run " + std::to_string(r) + " is in the heap more than once";
      if (runs_.is_victim(r) && (heap_[i].rank < rank_[r] || rank_[r] < heap_[i].rank)) {
        return "run " + std::to_string(r) + " is in the heap with an old rank";
      }
      if (i > 0 && heap_[i].rank < heap_[(i - 1) / kArity].rank) {
        return "the heap is out of order at " + std::to_string(i);
      }
    }
    return {};
  }

  // As verify(), for a heap that holds every victim.
  std::string verify_all() const {
    for (RunId r = 0; r < runs_.used; ++r) {
      if (runs_.is_victim(r) && !contains(r)) return "run " + std::to_string(r) + " is a victim outside the heap";
    }
    return verify();
  }

  std::size_t bytes() const {
    return heap_.size() * sizeof(Entry) + place_.size() * sizeof(std::uint32_t) + rank_.size() * sizeof(Rank);
  }

 private:
  struct Entry {
    Rank rank;
    RunId run;
  };
  static constexpr std::uint32_t kArity = 4;

  void put(std::uint32_t at, const Entry& entry) {
    heap_[at] = entry;
    place_[entry.run] = at + 1;
  }

  // Closes the gap at `at` with the last entry.
  void erase(std::uint32_t at) {
    place_[heap_[at].run] = 0;
    if (at == --size_) return;
    const Entry last = heap_[size_];
    if (at > 0 && last.rank < heap_[(at - 1) / kArity].rank) {
      sift_up(at, last);
    } else {
      sift_down(at, last);
    }
  }

  void sift_up(std::uint32_t at, Entry moving) {
    while (at > 0) {
      const std::uint32_t up = (at - 1) / kArity;
      if (!(moving.rank < heap_[up].rank)) break;
      put(at, heap_[up]);
      at = up;
    }
    put(at, moving);
  }

  void sift_down(std::uint32_t at, Entry moving) {
    for (;;) {
      const std::uint32_t first = at * kArity + 1;
      if (first >= size_) break;
      const std::uint32_t last = std::min(first + kArity, size_);
      std::uint32_t best = first;
      for (std::uint32_t child = first + 1; child < last; ++child) {
        if (heap_[child].rank < heap_[best].rank) best = child;
      }
      if (!(heap_[best].rank < moving.rank)) break;
      put(at, heap_[best]);
      at = best;
    }
    put(at, moving);
  }

  const RunTable& runs_;
  LazyArray<Entry> heap_;
  LazyArray<std::uint32_t> place_;  // index in the heap, plus one; 0: outside
  LazyArray<Rank> rank_;
  std::uint32_t size_ = 0;
};

}  // namespace kvopt
