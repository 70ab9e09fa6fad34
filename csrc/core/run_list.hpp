// A doubly linked list of runs, threaded through two arrays: 8 bytes a run, no allocation after attach().
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "kvopt/run_table.hpp"

namespace kvopt {

class RunList {
 public:
  explicit RunList(std::uint32_t capacity)
      : end_(capacity), next_(std::size_t{capacity} + 1), previous_(std::size_t{capacity} + 1) {
    next_[end_] = previous_[end_] = end_;
  }

  bool empty() const { return next_[end_] == end_; }
  RunId front() const { return next_[end_]; }
  RunId next(RunId r) const { return next_[r]; }  // the capacity after the last

  void append(RunId r) { insert_before(end_, r); }
  void insert_after(RunId place, RunId r) { insert_before(next_[place], r); }

  // r must be in the list.
  void remove(RunId r) {
    next_[previous_[r]] = next_[r];
    previous_[next_[r]] = previous_[r];
  }

  // Holds exactly the evictable runs, none before its children.
  std::string verify(const RunTable& runs) const {
    std::vector<std::uint32_t> children(runs.used);
    for (RunId r = 0; r < runs.used; ++r) children[r] = runs.children[r];
    std::uint32_t listed = 0;
    RunId before = end_;
    for (RunId r = next_[end_]; r != end_; before = r, r = next_[r]) {
      if (r >= runs.used || !runs.evictable(r)) return "run " + std::to_string(r) + " in the list is not evictable";
      if (previous_[r] != before) return "the list's links disagree at run " + std::to_string(r);
      if (children[r] != 0) return "run " + std::to_string(r) + " comes before its children";
      if (runs.parent[r] != kNoRun) --children[runs.parent[r]];
      if (++listed > runs.used) return "the list has a cycle";
    }
    std::uint32_t evictable = 0;
    for (RunId r = 0; r < runs.used; ++r) evictable += runs.evictable(r) ? 1 : 0;
    if (listed == evictable) return {};
    return std::to_string(listed) + " runs in the list, " + std::to_string(evictable) + " evictable";
  }

  std::size_t bytes() const { return (next_.size() + previous_.size()) * sizeof(RunId); }

 private:
  void insert_before(RunId place, RunId r) {
    const RunId before = previous_[place];
    next_[before] = previous_[place] = r;
    previous_[r] = before;
    next_[r] = place;
  }

  RunId end_;
  LazyArray<RunId> next_;
  LazyArray<RunId> previous_;
};

}  // namespace kvopt
