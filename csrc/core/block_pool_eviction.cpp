// BlockPool: making room.
#include <algorithm>
#include <iterator>
#include <ranges>
#include <string>

#include "core/block_pool_storage.hpp"
#include "kvopt/error.hpp"

namespace kvopt {

// Appends n empty blocks to `out`; the caller has checked that there is room.
void BlockPool::take_room(std::vector<BlockId>& out, std::size_t n, Time now, bool reclaim_leases) {
  while (reclaim_leases && n > storage_->empty.size() + evictable_) {
    end_lease_at(storage_->leases.latest(), now);
    ++stats_.leases_reclaimed;
  }
  const std::size_t ready = std::min<std::size_t>(n, storage_->empty.size());
  if (n > ready) choose_victims(n - ready, now);
  storage_->empty.take(ready, out);
  if (n > ready) remove_victims(out, DropReason::kCapacity, now);
  stats_.new_blocks += n;
}

// Asks the policy for victims of n blocks in all, into victims_. Nothing is lost yet: when the policy names a run that
// is no victim, all that it named before is given back.
void BlockPool::choose_victims(std::size_t n, Time now) {
  victims_.clear();
  std::size_t chosen = 0;
  try {
    while (chosen < n) {
      const RunId r = policy_->choose(static_cast<std::uint32_t>(n - chosen), now);
      if (r >= runs_.used || !runs_.is_victim(r)) refuse_victim(r);
      const std::uint32_t most = std::max(policy_->expendable(r), std::uint32_t{1});
      if (most < n - chosen && most < runs_.length[r]) split(r, runs_.length[r] - most);
      const auto blocks = static_cast<std::uint32_t>(std::min<std::size_t>(runs_.length[r], n - chosen));
      chosen += blocks;
      victims_.push_back({r, blocks});
      if (blocks < runs_.length[r]) break;
      policy_->on_dropped({&r, 1});
      runs_.flags[r] |= run_flag::kChosen;
      const RunId up = runs_.parent[r];
      if (up != kNoRun && --runs_.children[up] == 0 && runs_.evictable(up)) policy_->on_uncovered(up);
    }
  } catch (...) {
    for (const Victim& victim : victims_ | std::views::reverse) restore(victim.run, now);
    throw;
  }
}

// Gives the policy back a run that it chose. What is in front of the run enters the order anew, so that it stays
// behind it.
void BlockPool::restore(RunId r, Time now) {
  runs_.flags[r] &= static_cast<std::uint8_t>(~run_flag::kChosen);
  changed_.assign(1, r);
  const RunId up = runs_.parent[r];
  for (RunId front = up; front != kNoRun && runs_.evictable(front); front = runs_.parent[front]) {
    changed_.push_back(front);
  }
  if (changed_.size() > 1) policy_->on_referenced(std::span(changed_).subspan(1));
  if (up != kNoRun) ++runs_.children[up];
  policy_->on_evictable(changed_, RequestInfo{.now = now});
}

void BlockPool::refuse_victim(RunId r) const {
  std::string what = "is outside the table";
  if (r < runs_.used) {
    if ((runs_.flags[r] & run_flag::kLive) == 0) {
      what = "holds nothing";
    } else if ((runs_.flags[r] & run_flag::kChosen) != 0) {
      what = "was chosen just before";
    } else if (runs_.references[r] > 0) {
      what = "is held by a request or a lease";
    } else {
      what = "has cached children";
    }
  }
  throw PolicyError("the policy chose run " + std::to_string(r) + ", which " + what);
}

// Takes what choose_victims() found off the deep ends of its runs; the blocks go to `out`, the deepest first.
void BlockPool::remove_victims(std::vector<BlockId>& out, DropReason reason, Time now) {
  evicted_ = {};
  SlotArena& arena = storage_->arena;
  for (const auto& [r, blocks] : victims_) {
    const bool whole = blocks == runs_.length[r];
    if (whole) storage_->index.erase(r);
    const std::uint32_t first = runs_.first_slot[r] + runs_.length[r] - blocks;
    const BlockId* ids = arena.blocks(first);
    policy_->on_evicted(r, *arena.keys(first), blocks);
    evicted_.blocks += blocks;
    evicted_.idle_s += blocks * (now - runs_.last_use[r]);
    evicted_.hits += std::uint64_t{blocks} * runs_.hits[r];
    out.insert(out.end(), std::make_reverse_iterator(ids + blocks), std::make_reverse_iterator(ids));
    arena.release({first, blocks});
    evictable_ -= blocks;
    stats_.dropped[static_cast<std::size_t>(reason)] += blocks;
    if (whole) {
      free_run(r);
    } else {
      runs_.length[r] -= blocks;
      policy_->on_trimmed(r);
    }
  }
}

std::vector<BlockId> BlockPool::evict(std::size_t n, Time now) {
  check_time(now);
  policy_->check();
  end_due(now);
  if (n > evictable_) {
    throw NotEnoughBlocksError("eviction of " + std::to_string(n) + " blocks; " + std::to_string(evictable_) +
                               " can be evicted");
  }
  std::vector<BlockId> evicted;
  choose_victims(n, now);
  remove_victims(evicted, DropReason::kExplicit, now);
  for (const BlockId b : evicted) storage_->empty.add(b);
  finish(now);
  return evicted;
}

}  // namespace kvopt
