// BlockPool: what a request does. acquire, extend, commit, release.
#include <algorithm>
#include <string>

#include "core/block_pool_storage.hpp"
#include "kvopt/error.hpp"

namespace kvopt {

void BlockPool::check_room(std::size_t need, std::size_t spoken_for, bool reclaim_leases) const {
  const std::size_t available = storage_->empty.size() + evictable_ + (reclaim_leases ? leased_ : 0) - spoken_for;
  if (need <= available) return;
  throw NotEnoughBlocksError(std::to_string(need) + " blocks are needed; " + std::to_string(available) +
                             " are empty or can be evicted");
}

// Blocks on the path to `tail` that count as available now, but not once a request holds the path. Whoever holds a run
// holds what is in front of it, so they are the deep end of the path.
std::size_t BlockPool::available_on(RunId tail, std::uint32_t in_tail, bool leased) const {
  std::size_t blocks = 0;
  for (RunId r = tail; r != kNoRun; r = runs_.parent[r]) {
    if (runs_.references[r] > (leased ? runs_.leases[r] : 0)) break;
    blocks += r == tail ? in_tail : runs_.length[r];
  }
  return blocks;
}

void BlockPool::gather_path(RunId tail) {
  path_.clear();
  for (RunId r = tail; r != kNoRun; r = runs_.parent[r]) path_.push_back(r);
}

// Refuses when one more holder of each of these runs could not be counted. Whoever holds a run holds what is in front
// of it, so under the prefix rule the first run of a path speaks for all.
void BlockPool::check_countable(std::span<const RunId> runs) {
  if (options_.rule == Rule::kPrefix && !runs.empty()) runs = runs.last(1);
  std::size_t counted = 0;
  while (counted < runs.size() && runs_.references[runs[counted]] < kMostReferences) {
    ++runs_.references[runs[counted++]];  // a run may be named twice
  }
  for (const RunId r : runs.first(counted)) --runs_.references[r];
  if (counted < runs.size()) {
    throw ReferenceCountError("run " + std::to_string(runs[counted]) + " is held " + std::to_string(kMostReferences) +
                              " times, and more cannot be counted");
  }
}

void BlockPool::reference(std::span<const RunId> runs, bool hit, const RequestInfo& info) {
  if (hit && !runs.empty()) policy_->on_hit(runs, info);
  changed_.clear();
  for (const RunId r : runs) {
    const std::uint32_t held = runs_.references[r]++;
    if (held == 0) {
      changed_.push_back(r);
      evictable_ -= runs_.length[r];
    } else if (held == runs_.leases[r]) {
      leased_ -= runs_.length[r];
    }
  }
  if (!changed_.empty()) policy_->on_referenced(changed_);
  for (const RunId r : runs) runs_.hits[r] += hit ? 1 : 0;  // only now: an order may not see a key change under it
}

void BlockPool::dereference(std::span<const RunId> runs, const RequestInfo& info) {
  changed_.clear();
  for (const RunId r : runs) {
    const std::uint32_t held = --runs_.references[r];
    if (held == 0) {
      if ((runs_.flags[r] & run_flag::kForgotten) != 0) {
        give_up(r);
      } else {
        changed_.push_back(r);
        evictable_ += runs_.length[r];
      }
    } else if (held == runs_.leases[r]) {
      leased_ += runs_.length[r];
    }
  }
  if (!changed_.empty()) policy_->on_evictable(changed_, info);
}

void BlockPool::acquire(Allocation& allocation, Keys keys, std::size_t total, const RequestInfo& info,
                        std::size_t max_hit, bool reclaim_leases) {
  check_time(info.now);
  policy_->check();
  if (allocation.owner_ != nullptr) throw StaleBlockError("the allocation is in use; release it first");
  if (total < 1 || total > options_.capacity) {
    throw NotEnoughBlocksError("a request of " + std::to_string(total) + " blocks; a pool of " +
                               std::to_string(options_.capacity) + " can hold 1 to that many");
  }
  if (keys.count > total) {
    throw PoolError(std::to_string(keys.count) + " keys for a request of " + std::to_string(total) + " blocks");
  }
  end_due(info.now);
  std::size_t hit = 0;
  if (options_.rule == Rule::kFlat) {
    hit = hold_flat(allocation, keys, total, info, max_hit, reclaim_leases);
  } else {
    const Path path = walk(keys, max_hit);
    gather_path(path.tail);
    check_countable(path_);
    check_room(total - path.hit, available_on(path.tail, path.in_tail, reclaim_leases), reclaim_leases);
    hit = path.hit;
    if (hit > 0 && path.in_tail < runs_.length[path.tail]) path_.front() = split(path.tail, path.in_tail);
    allocation.tail_ = hit > 0 ? path_.front() : kNoRun;
    reference(path_, true, info);
  }
  const std::size_t missed = options_.rule == Rule::kFlat ? keys.count : std::min(keys.count, hit + 1);
  for (std::size_t i = hit; i < missed; ++i) policy_->on_miss(keys.hashes[i], info);
  try {
    take_room(allocation.pending_, total - hit, info.now, reclaim_leases);
  } catch (...) {
    for (const RunId r : path_) --runs_.hits[r];
    dereference(path_, info);
    allocation.flat_.clear();
    throw;
  }
  if (storage_->retentions) {
    for (const RunId r : path_) storage_->retentions->renew(r, info.now);
  }
  allocation.own_tail_ = false;
  allocation.next_pending_ = 0;
  allocation.hit_ = allocation.committed_ = static_cast<std::uint32_t>(hit);
  allocation.owner_ = this;
  ++stats_.requests;
  stats_.hit_blocks += hit;
  finish(info.now);
}

std::size_t BlockPool::hold_flat(Allocation& allocation, const Keys& keys, std::size_t total, const RequestInfo& info,
                                 std::size_t max_hit, bool reclaim_leases) {
  allocation.flat_.clear();
  std::size_t spoken_for = 0;
  for (std::size_t i = 0; i < std::min(max_hit, keys.count); ++i) {
    const RunId r = run_with_key(kNoRun, keys, i);
    if (r == kNoRun) break;
    allocation.flat_.push_back(r);
  }
  check_countable(allocation.flat_);
  for (const RunId r : allocation.flat_) {
    spoken_for += runs_.references[r] <= (reclaim_leases ? runs_.leases[r] : 0) ? 1 : 0;
    ++runs_.references[r];  // a key that is named twice speaks for one block
  }
  for (const RunId r : allocation.flat_) --runs_.references[r];
  check_room(total - allocation.flat_.size(), spoken_for, reclaim_leases);
  path_.assign(allocation.flat_.rbegin(), allocation.flat_.rend());
  reference(path_, true, info);
  return allocation.flat_.size();
}

void BlockPool::extend(Allocation& allocation, std::size_t n, const RequestInfo& info, bool reclaim_leases) {
  check_time(info.now);
  check_live(allocation);
  policy_->check();
  end_due(info.now);
  check_room(n, 0, reclaim_leases);
  take_room(allocation.pending_, n, info.now, reclaim_leases);
  finish(info.now);
}

void BlockPool::commit(Allocation& allocation, Keys keys, const RequestInfo& info) {
  check_time(info.now);
  check_live(allocation);
  if (const std::size_t open = allocation.pending_.size() - allocation.next_pending_; keys.count > open) {
    throw PoolError(std::to_string(keys.count) + " keys for " + std::to_string(open) + " blocks without one");
  }
  changed_.clear();
  for (std::size_t i = 0; i < keys.count;) {
    const std::uint32_t more = extend_own_tail(allocation, keys, i);
    i += more > 0 ? more : store_run(allocation, keys, i);
  }
  stats_.stored_blocks += keys.count;
  std::ranges::reverse(changed_);
  if (!changed_.empty()) policy_->on_stored(changed_, info);
  finish(info.now);
}

void BlockPool::release(Allocation& allocation, const RequestInfo& info) {
  check_time(info.now);
  check_live(allocation);
  for (std::size_t i = allocation.pending_.size(); i-- > allocation.next_pending_;) {
    storage_->empty.add(allocation.pending_[i]);
  }
  if (options_.rule == Rule::kFlat) {
    path_.assign(allocation.flat_.rbegin(), allocation.flat_.rend());
  } else {
    gather_path(allocation.tail_);
  }
  for (const RunId r : path_) runs_.last_use[r] = info.now;
  dereference(path_, info);
  allocation.owner_ = nullptr;
  allocation.tail_ = kNoRun;
  allocation.flat_.clear();
  allocation.pending_.clear();
  allocation.next_pending_ = 0;
  allocation.hit_ = allocation.committed_ = 0;
  finish(info.now);
}

}  // namespace kvopt
