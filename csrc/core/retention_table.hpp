// Retention deadlines of runs. A run has one retention at a time; the newest wins.
//
// A hit that renews moves only the run's deadline; its heap entry follows when it surfaces, so renewing costs O(1).
#pragma once

#include <cstdint>
#include <vector>

#include "core/deadline_heap.hpp"
#include "kvopt/run_table.hpp"
#include "kvopt/types.hpp"

namespace kvopt {

class RetentionTable {
 public:
  explicit RetentionTable(const RunTable& runs) : runs_(runs), deadline_(runs.capacity), renewal_(runs.capacity) {}

  // 0 when the run has none.
  Time deadline(RunId r) const { return deadline_[r]; }

  // renewal: seconds that a hit adds from its own time; 0 for a fixed lifetime. A deadline of kNever lasts for good.
  void set(RunId r, Time deadline, Time renewal) {
    drop(r);
    deadline_[r] = deadline;
    renewal_[r] = renewal;
    if (!ends(r)) return;
    heap_.push({deadline, r, 0});
    ++ending_;
    if (heap_.size() > 2 * ending_ + 1024) compact();
  }

  void copy(RunId from, RunId to) { set(to, deadline_[from], renewal_[from]); }

  void renew(RunId r, Time now) {
    if (renewal_[r] > 0 && deadline_[r] > now) deadline_[r] = now + renewal_[r];
  }

  void drop(RunId r) {
    if (ends(r)) --ending_;
    deadline_[r] = renewal_[r] = 0;
  }

  // Calls due(run) for each retention that is over.
  template <class Due>
  void pop_due(Time now, Due due) {
    heap_.pop_due(now, [&](const DeadlineHeap::Entry& e) {
      if (!current(e)) return;
      if (deadline_[e.item] > now) {
        if (deadline_[e.item] != kNever) heap_.push({deadline_[e.item], e.item, 0});
        return;
      }
      drop(e.item);
      due(e.item);
    });
  }

  void clear() { heap_.clear(); }

  std::size_t bytes() const { return std::size_t{runs_.capacity} * 2 * sizeof(Time) + heap_.bytes(); }

 private:
  // Whether there is a retention to which the entry may belong. One that is left from before, even from when another
  // run had the id, does no harm: it surfaces no later than it is due, and whether it is due is in deadline_.
  bool current(const DeadlineHeap::Entry& e) const { return deadline_[e.item] != 0; }

  bool ends(RunId r) const { return deadline_[r] != 0 && deadline_[r] != kNever; }

  // Keeps one entry a retained run.
  void compact() {
    std::vector<bool> seen(runs_.used);
    heap_.compact([&](const DeadlineHeap::Entry& e) {
      if (!current(e) || !ends(e.item) || e.deadline > deadline_[e.item] || seen[e.item]) return false;
      seen[e.item] = true;
      return true;
    });
  }

  const RunTable& runs_;
  LazyArray<Time> deadline_;
  LazyArray<Time> renewal_;
  DeadlineHeap heap_;
  std::size_t ending_ = 0;  // runs whose retention has an end
};

}  // namespace kvopt
