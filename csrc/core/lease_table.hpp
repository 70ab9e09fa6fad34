// Leases: hard pins with a deadline, each owned by a handle (slot and generation).
//
// A lease holds runs, each with everything in front of it; the pool counts the references.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "core/deadline_heap.hpp"
#include "kvopt/types.hpp"

namespace kvopt {

class LeaseTable {
 public:
  struct Lease {
    std::vector<RunId> holds;  // each with everything in front of it
    Time deadline = 0;
    std::uint32_t generation = 0;
    bool live = false;
  };

  std::size_t live() const { return live_; }
  const std::vector<Lease>& leases() const { return leases_; }

  std::uint64_t open(std::span<const RunId> holds, Time deadline) {
    if (free_.empty()) {
      free_.push_back(static_cast<std::uint32_t>(leases_.size()));
      leases_.emplace_back();
    }
    const std::uint32_t slot = free_.back();
    free_.pop_back();
    Lease& lease = leases_[slot];
    lease.holds.assign(holds.begin(), holds.end());
    lease.deadline = deadline;
    lease.live = true;
    ++live_;
    deadlines_.push({deadline, slot, lease.generation});
    if (deadlines_.size() > 2 * live_ + 64) deadlines_.compact([this](const auto& e) { return current(e); });
    return (std::uint64_t{lease.generation} << 32) | slot;
  }

  // The slot of a live lease, or -1.
  std::int64_t find(std::uint64_t id) const {
    const std::uint64_t slot = id & 0xFFFFFFFFU;
    if (slot >= leases_.size() || !leases_[slot].live || leases_[slot].generation != id >> 32) return -1;
    return static_cast<std::int64_t>(slot);
  }

  // The live lease that ends last; there must be one.
  std::size_t latest() const {
    std::size_t best = leases_.size();
    for (std::size_t s = 0; s < leases_.size(); ++s) {
      if (leases_[s].live && (best == leases_.size() || leases_[s].deadline > leases_[best].deadline)) best = s;
    }
    return best;
  }

  // Forgets the lease; returns what it held, readable until the slot is opened again.
  std::span<const RunId> close(std::size_t slot) {
    Lease& lease = leases_[slot];
    lease.live = false;
    ++lease.generation;
    --live_;
    free_.push_back(static_cast<std::uint32_t>(slot));
    return lease.holds;
  }

  template <class Due>
  void pop_due(Time now, Due due) {
    deadlines_.pop_due(now, [&](const DeadlineHeap::Entry& e) {
      if (current(e)) due(e.item);
    });
  }

  std::size_t bytes() const { return leases_.capacity() * sizeof(Lease) + deadlines_.bytes(); }

 private:
  bool current(const DeadlineHeap::Entry& e) const {
    return leases_[e.item].live && leases_[e.item].generation == e.stamp;
  }

  std::size_t live_ = 0;
  std::vector<Lease> leases_;
  std::vector<std::uint32_t> free_;
  DeadlineHeap deadlines_;
};

}  // namespace kvopt
