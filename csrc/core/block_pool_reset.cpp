// BlockPool: forget and clear, which look at every run.
#include <algorithm>
#include <numeric>
#include <ranges>
#include <string>

#include "core/block_pool_storage.hpp"
#include "kvopt/error.hpp"

namespace kvopt {

void BlockPool::forget(std::span<const BlockId> blocks) {
  // Where each block is: a run, and its place in it.
  std::vector<std::uint32_t> cut(runs_.used, UINT32_MAX);  // the first block of each run to go
  std::vector<bool> wanted(options_.capacity);
  for (const BlockId b : blocks) {
    if (b >= options_.capacity) {
      throw StaleBlockError("block " + std::to_string(b) + " of a pool of " + std::to_string(options_.capacity));
    }
    wanted[b] = true;
  }
  std::vector<RunId> live;
  for (RunId r = 0; r < runs_.used; ++r) {
    if (!runs_.hittable(r)) continue;
    live.push_back(r);
    const BlockId* ids = storage_->arena.blocks(runs_.first_slot[r]);
    for (std::uint32_t i = runs_.length[r]; i-- > 0;) {
      if (!wanted[ids[i]]) continue;
      cut[r] = i;
      wanted[ids[i]] = false;
    }
  }
  for (const BlockId b : blocks) {
    if (wanted[b]) throw StaleBlockError("block " + std::to_string(b) + " holds no cached content");
  }

  std::ranges::sort(live, {}, [this](RunId r) { return runs_.depth[r]; });
  std::vector<bool> gone(runs_.used);
  for (const RunId r : live) {
    const RunId up = runs_.parent[r];
    if (up != kNoRun && gone[up]) cut[r] = 0;
    gone[r] = cut[r] != UINT32_MAX;
  }
  for (const RunId r : live | std::views::reverse) {
    if (!gone[r]) continue;
    if (cut[r] > 0) {
      const RunId head = split(r, cut[r]);
      if (head < gone.size()) gone[head] = false;  // the id of a run that was given up just now
    }
    storage_->index.erase(r);
    stats_.dropped[static_cast<std::size_t>(DropReason::kForgotten)] += runs_.length[r];
    if (runs_.references[r] > 0) {
      runs_.flags[r] |= run_flag::kForgotten;
      policy_->on_forgotten(r);
      continue;
    }
    policy_->on_dropped({&r, 1});
    policy_->on_forgotten(r);
    evictable_ -= runs_.length[r];
    const RunId up = runs_.parent[r];
    give_up(r);
    if (up != kNoRun && runs_.is_victim(up) && (up >= gone.size() || !gone[up])) policy_->on_uncovered(up);
  }
  finish(now_);
}

void BlockPool::clear() {
  if (const std::uint32_t held = counts().referenced; held > 0) {
    throw PoolError("requests still hold " + std::to_string(held) + " blocks; release them before clear()");
  }
  while (storage_->leases.live() > 0) end_lease_at(storage_->leases.latest(), now_);
  std::vector<RunId> cached;
  for (RunId r = 0; r < runs_.used; ++r) {
    if ((runs_.flags[r] & run_flag::kLive) != 0) cached.push_back(r);
  }
  if (!cached.empty()) policy_->on_dropped(cached);
  for (const RunId r : cached) {
    policy_->on_forgotten(r);
    free_run(r);
  }
  stats_.dropped[static_cast<std::size_t>(DropReason::kCleared)] += evictable_;
  evictable_ = 0;
  first_free_run_ = kNoRun;
  runs_.used = 0;
  storage_->index.clear();
  storage_->arena.clear();
  if (storage_->retentions) storage_->retentions->clear();
  storage_->empty.fill();
  finish(now_);
}

}  // namespace kvopt
