// BlockPool: leases and retention priorities, and their ends.
#include <algorithm>
#include <iterator>
#include <string>

#include "core/block_pool_storage.hpp"
#include "kvopt/error.hpp"

namespace kvopt {

LeaseId BlockPool::lease(const Allocation& allocation, std::size_t n, Time deadline, Time now) {
  check_time(now);
  check_live(allocation);
  if (options_.lease_budget == 0) throw LeaseError("this pool has no lease budget (PoolOptions::lease_budget is 0)");
  if (n < 1 || n > allocation.committed_) {
    throw LeaseError("a lease on " + std::to_string(n) + " blocks; the allocation has " +
                     std::to_string(allocation.committed_) + " with a key");
  }
  if (!(deadline > now)) {
    throw LeaseError("a lease until " + std::to_string(deadline) + " s; it must end after now, " + std::to_string(now));
  }
  end_due(now);
  const bool flat = options_.rule == Rule::kFlat;
  const auto blocks = static_cast<std::uint32_t>(n);
  std::size_t charge = 0;
  if (flat) {
    for (std::size_t i = 0; i < n; ++i) charge += runs_.leases[allocation.flat_[i]] == 0 ? 1 : 0;
  } else {
    for (RunId r = allocation.tail_; r != kNoRun; r = runs_.parent[r]) {
      if (runs_.depth[r] < blocks && runs_.leases[r] == 0) charge += std::min(runs_.length[r], blocks - runs_.depth[r]);
    }
  }
  if (charged_ + charge > options_.lease_budget) {
    throw LeaseError("a lease on " + std::to_string(charge) + " more blocks; " + std::to_string(charged_) +
                     " of a budget of " + std::to_string(options_.lease_budget) + " are leased");
  }
  gather_path(allocation.tail_);
  check_countable(flat ? std::span(allocation.flat_).first(n) : std::span<const RunId>(path_));
  std::vector<RunId> holds;
  if (flat) {
    const auto end = allocation.flat_.begin() + blocks;
    holds.assign(std::make_reverse_iterator(end), allocation.flat_.rend());
    path_ = holds;
  } else {
    holds.push_back(cut_at(allocation.tail_, blocks));
    gather_path(holds.front());
  }
  for (const RunId r : path_) {
    ++runs_.references[r];
    if (runs_.leases[r]++ == 0) charged_ += runs_.length[r];
  }
  const LeaseId id = storage_->leases.open(holds, deadline);
  finish(now);
  return id;
}

void BlockPool::end_lease(LeaseId id, Time now) {
  check_time(now);
  const std::int64_t slot = storage_->leases.find(id);
  if (slot < 0) throw LeaseError("lease " + std::to_string(id) + " is unknown or over");
  end_lease_at(static_cast<std::size_t>(slot), now);
  finish(now);
}

void BlockPool::end_lease_at(std::size_t slot, Time now) {
  changed_.clear();
  const auto let_go = [this](RunId r) {
    if (--runs_.leases[r] == 0) charged_ -= runs_.length[r];
    if (--runs_.references[r] != 0) return;
    leased_ -= runs_.length[r];
    if ((runs_.flags[r] & run_flag::kForgotten) != 0) {
      give_up(r);
    } else {
      evictable_ += runs_.length[r];
      changed_.push_back(r);
    }
  };
  for (const RunId hold : storage_->leases.close(slot)) {
    for (RunId r = hold; r != kNoRun;) {
      const RunId up = runs_.parent[r];
      let_go(r);
      r = up;
    }
  }
  if (!changed_.empty()) policy_->on_evictable(changed_, RequestInfo{.now = now});
}

void BlockPool::retain(const Allocation& allocation, std::size_t first, std::size_t n, std::uint8_t priority,
                       Time duration, Lifetime lifetime, Time now) {
  check_time(now);
  check_live(allocation);
  if (!storage_->retentions) throw ConfigError("this pool was built without retention (PoolOptions::retention)");
  if (!policy_->honours_priority()) throw ConfigError("the policy of this pool does not look at priorities");
  if (priority > kMaxPriority) {
    throw ConfigError("priority " + std::to_string(priority) + "; it must be 0 to " + std::to_string(kMaxPriority));
  }
  if (!(duration >= 0)) throw ConfigError("a duration of " + std::to_string(duration) + " s; it must be 0 or more");
  if (first > allocation.committed_ || n > allocation.committed_ - first) {
    throw StaleBlockError("blocks " + std::to_string(first) + " to " + std::to_string(first + n) +
                          "; the allocation has " + std::to_string(allocation.committed_) + " with a key");
  }
  const auto set = [&](RunId r) {
    if (duration == 0) {
      runs_.priority[r] = kDefaultPriority;
      storage_->retentions->drop(r);
    } else {
      runs_.priority[r] = priority;
      const bool renews = lifetime == Lifetime::kRefresh && duration != kNever;
      storage_->retentions->set(r, now + duration, renews ? duration : 0);
    }
    tell_priority(r);
  };
  if (n > 0 && options_.rule == Rule::kFlat) {
    for (std::size_t i = first; i < first + n; ++i) set(allocation.flat_[i]);
  } else if (n > 0) {
    RunId r = cut_at(allocation.tail_, static_cast<std::uint32_t>(first + n));
    if (first > 0) cut_at(r, static_cast<std::uint32_t>(first));
    for (; r != kNoRun && runs_.depth[r] >= first; r = runs_.parent[r]) set(r);
  }
  finish(now);
}

void BlockPool::tell_priority(RunId r) {
  if ((runs_.flags[r] & run_flag::kForgotten) == 0) policy_->on_priority(r);
}

std::size_t BlockPool::end_due(Time now) {
  std::size_t ended = 0;
  storage_->leases.pop_due(now, [&](std::size_t slot) {
    end_lease_at(slot, now);
    ++stats_.leases_expired;
    ++ended;
  });
  if (storage_->retentions) {
    storage_->retentions->pop_due(now, [&](RunId r) {
      runs_.priority[r] = kDefaultPriority;
      tell_priority(r);
      ++stats_.retentions_expired;
      ++ended;
    });
  }
  return ended;
}

std::size_t BlockPool::expire(Time now) {
  check_time(now);
  const std::size_t ended = end_due(now);
  finish(now);
  return ended;
}

}  // namespace kvopt
