#include "naive_pool.hpp"

#include <algorithm>
#include <set>

#include "check.hpp"

namespace kvopt::test {

NaivePool::NaivePool(const PoolOptions& options, Ranking ranking)
    : options_(options), ranking_(ranking), blocks_(options.capacity) {}

// ---- questions ----------------------------------------------------------------------------------

std::size_t NaivePool::count(bool (*what)(const Block&)) const {
  return static_cast<std::size_t>(std::ranges::count_if(blocks_, what));
}

PoolCounts NaivePool::counts() const {
  const auto empty = static_cast<std::uint32_t>(count(is_empty));
  const auto free = static_cast<std::uint32_t>(count(evictable));
  const auto pinned = static_cast<std::uint32_t>(count(leased));
  return {options_.capacity, empty, free, options_.capacity - empty - free - pinned, pinned};
}

bool NaivePool::matches(const Block& b, std::uint64_t key, std::size_t depth) const {
  return b.cached && !b.forgotten && b.key == key && (!prefix() || b.depth == depth);
}

// A key stands for its whole prefix, so under the prefix rule the deepest block that is there settles it.
std::size_t NaivePool::match(std::span<const std::uint64_t> keys) const {
  const auto cached = [&](std::size_t i) {
    return std::ranges::any_of(blocks_, [&](const Block& b) { return matches(b, keys[i], i); });
  };
  std::size_t hit = 0;
  if (prefix()) {
    for (hit = keys.size(); hit > 0 && !cached(hit - 1); --hit) {
    }
  } else {
    while (hit < keys.size() && cached(hit)) ++hit;
  }
  return hit;
}

std::size_t NaivePool::charged() const {
  return count([](const Block& b) { return b.leases > 0; });
}

std::vector<BlockId> NaivePool::blocks_in_cache() const {
  std::vector<BlockId> found;
  for (BlockId b = 0; b < blocks_.size(); ++b) {
    if (blocks_[b].cached && !blocks_[b].forgotten) found.push_back(b);
  }
  return found;
}

std::vector<LeaseId> NaivePool::leases() const {
  std::vector<LeaseId> ids;
  ids.reserve(leases_.size());
  for (const auto& [id, lease] : leases_) ids.push_back(id);
  return ids;
}

// ---- making room --------------------------------------------------------------------------------

bool NaivePool::has_room(std::size_t n, bool reclaim) const {
  return n <= count(is_empty) + count(evictable) + (reclaim ? count(leased) : 0);
}

std::vector<bool> NaivePool::leaves() const {
  std::vector<bool> leaf(blocks_.size(), true);
  for (const Block& b : blocks_) {
    if (b.cached && b.before != kNoBlock) leaf[b.before] = false;
  }
  return leaf;
}

std::vector<double> NaivePool::rank(const Block& b) const {
  switch (ranking_) {
    case Ranking::kLetGo:
      return {static_cast<double>(b.let_go)};
    case Ranking::kStored:
      return {static_cast<double>(b.stored)};
    case Ranking::kHits:
      return {static_cast<double>(b.hits), static_cast<double>(b.let_go)};
    case Ranking::kPriority:
      return {static_cast<double>(b.priority), b.last_use};
    case Ranking::kNone:
      return {};
  }
  return {};
}

void NaivePool::drop_victim(BlockId victim, DropReason reason) {
  CHECK(victim < blocks_.size());
  CHECK(evictable(blocks_[victim]));
  const std::vector<bool> leaf = leaves();
  CHECK(leaf[victim]);
  const std::vector<double> rank_of_victim = rank(blocks_[victim]);
  for (BlockId other = 0; other < blocks_.size(); ++other) {
    if (leaf[other] && evictable(blocks_[other]) && rank(blocks_[other]) < rank_of_victim) {
      fail(__FILE__, __LINE__,
           "block " + text(victim) + " was evicted, ranked " + text(rank_of_victim) + "; block " + text(other) +
               " has " + text(rank(blocks_[other])));
    }
  }
  blocks_[victim] = Block{};
  ++dropped_[static_cast<std::size_t>(reason)];
}

// Empty blocks are used before any block is evicted.
void NaivePool::take_room(std::span<const BlockId> got, bool reclaim) {
  while (reclaim && !has_room(got.size(), false)) {
    const auto latest = std::ranges::max_element(leases_, {}, [](const auto& l) { return l.second.deadline; });
    CHECK(latest != leases_.end());
    remove_lease(latest->first);
  }
  const std::size_t empty = std::min(got.size(), count(is_empty));
  for (std::size_t i = 0; i < got.size(); ++i) {
    if (i < empty) {
      CHECK(got[i] < blocks_.size());
      CHECK(is_empty(blocks_[got[i]]));
    } else {
      drop_victim(got[i], DropReason::kCapacity);
    }
    blocks_[got[i]].pending = true;
  }
}

void NaivePool::evict(std::span<const BlockId> victims) {
  for (const BlockId victim : victims) drop_victim(victim, DropReason::kExplicit);
}

// Nobody holds the block any longer.
void NaivePool::become_free(Block& b) {
  if (b.forgotten) {
    b = Block{};
  } else {
    b.let_go = ++let_go_;
  }
}

// ---- requests -----------------------------------------------------------------------------------

Outcome NaivePool::acquire_outcome(std::span<const std::uint64_t> keys, std::size_t total, std::size_t hit,
                                   bool reclaim) const {
  const auto is_available = [&](const Block& b) { return evictable(b) || (reclaim && leased(b)); };
  std::set<std::size_t> hit_available;  // blocks that are available now, but not once they are hit: one number a choice
  if (prefix() && hit > 0) {
    for (const Block& deepest : blocks_) {
      if (!matches(deepest, keys[hit - 1], hit - 1)) continue;
      std::size_t available = 0;
      for (const Block* b = &deepest;; b = &blocks_[b->before]) {
        available += is_available(*b) ? 1 : 0;
        if (b->before == kNoBlock) break;
      }
      hit_available.insert(available);
    }
  } else {
    std::size_t fewest = 0;
    std::size_t most = 0;
    for (const std::uint64_t key : std::set(keys.begin(), keys.begin() + static_cast<std::ptrdiff_t>(hit))) {
      bool all = true;
      bool any = false;
      for (const Block& b : blocks_) {
        if (!matches(b, key, 0)) continue;
        all = all && is_available(b);
        any = any || is_available(b);
      }
      fewest += all ? 1 : 0;
      most += any ? 1 : 0;
    }
    hit_available = {fewest, most};
  }
  const std::size_t free = count(is_empty) + count(evictable) + (reclaim ? count(leased) : 0);
  const bool at_best = total - hit + *hit_available.begin() <= free;
  const bool at_worst = total - hit + *hit_available.rbegin() <= free;
  return at_worst ? Outcome::kSucceeds : at_best ? Outcome::kEither : Outcome::kFails;
}

void NaivePool::acquire(int request, std::span<const std::uint64_t> keys, std::span<const BlockId> blocks,
                        std::size_t hit, bool reclaim, Time now) {
  for (std::size_t i = 0; i < hit; ++i) {
    CHECK(blocks[i] < blocks_.size());
    Block& b = blocks_[blocks[i]];
    CHECK(matches(b, keys[i], i));
    if (prefix()) CHECK_EQUAL(b.before, i == 0 ? kNoBlock : blocks[i - 1]);
    ++b.requests;
    ++b.hits;
    if (b.renewal > 0 && b.deadline > now) b.deadline = now + b.renewal;
  }
  take_room(blocks.subspan(hit), reclaim);
  requests_[request] = {.blocks = {blocks.begin(), blocks.end()}, .committed = hit};
}

void NaivePool::extend(int request, std::span<const BlockId> added, bool reclaim) {
  take_room(added, reclaim);
  auto& blocks = requests_.at(request).blocks;
  blocks.insert(blocks.end(), added.begin(), added.end());
}

void NaivePool::commit(int request, std::span<const std::uint64_t> keys) {
  ++commits_;
  Request& r = requests_.at(request);
  for (const std::uint64_t key : keys) {
    Block& b = blocks_[r.blocks.at(r.committed)];
    b = {.cached = true, .key = key, .depth = r.committed, .requests = 1, .stored = commits_};
    if (prefix() && r.committed > 0) {
      b.before = r.blocks[r.committed - 1];
      b.forgotten = blocks_[b.before].forgotten;
    }
    ++r.committed;
  }
}

void NaivePool::release(int request, Time now) {
  const Request r = requests_.at(request);
  requests_.erase(request);
  for (std::size_t i = r.blocks.size(); i-- > 0;) {
    Block& b = blocks_[r.blocks[i]];
    if (i >= r.committed) {
      b = Block{};
      continue;
    }
    b.last_use = now;
    --b.requests;
    if (!held(b)) become_free(b);
  }
}

// ---- leases and retention -----------------------------------------------------------------------

bool NaivePool::lease_fits(int request, std::size_t n) const {
  const auto& blocks = requests_.at(request).blocks;
  std::size_t charge = 0;
  for (std::size_t i = 0; i < n; ++i) charge += blocks_[blocks[i]].leases == 0 ? 1 : 0;
  return charged() + charge <= options_.lease_budget;
}

void NaivePool::lease(int request, std::size_t n, LeaseId id, Time deadline) {
  CHECK(!leases_.contains(id));
  const auto& blocks = requests_.at(request).blocks;
  const auto end = blocks.begin() + static_cast<std::ptrdiff_t>(n);
  for (auto b = blocks.begin(); b != end; ++b) ++blocks_[*b].leases;
  leases_[id] = {.blocks = {blocks.begin(), end}, .deadline = deadline};
}

void NaivePool::end_lease(LeaseId id) { remove_lease(id); }

void NaivePool::remove_lease(LeaseId id) {
  const Lease lease = leases_.at(id);
  leases_.erase(id);
  for (std::size_t i = lease.blocks.size(); i-- > 0;) {
    Block& b = blocks_[lease.blocks[i]];
    --b.leases;
    if (!held(b)) become_free(b);
  }
}

void NaivePool::retain(int request, std::size_t first, std::size_t n, std::uint8_t priority, Time duration,
                       bool refresh, Time now) {
  for (std::size_t i = first; i < first + n; ++i) {
    Block& b = blocks_[requests_.at(request).blocks[i]];
    const bool over = duration == 0;
    b.priority = over ? kDefaultPriority : priority;
    b.deadline = over ? 0 : now + duration;
    b.renewal = refresh && duration != kNever ? duration : 0;
  }
}

std::size_t NaivePool::expire(Time now) {
  std::size_t ended = 0;
  while (true) {
    const auto soonest = std::ranges::min_element(leases_, {}, [](const auto& l) { return l.second.deadline; });
    if (soonest == leases_.end() || soonest->second.deadline > now) break;
    remove_lease(soonest->first);
    ++ended;
  }
  for (Block& b : blocks_) {
    if (b.deadline == 0 || b.deadline > now) continue;
    b.priority = kDefaultPriority;
    b.deadline = b.renewal = 0;
  }
  return ended;
}

// ---- taking content away ------------------------------------------------------------------------

void NaivePool::forget(std::span<const BlockId> blocks) {
  std::set<BlockId> gone(blocks.begin(), blocks.end());
  for (std::size_t before = 0; before != gone.size();) {
    before = gone.size();
    for (BlockId b = 0; b < blocks_.size(); ++b) {
      if (blocks_[b].cached && !blocks_[b].forgotten && gone.contains(blocks_[b].before)) gone.insert(b);
    }
  }
  for (const BlockId id : gone) {
    Block& b = blocks_[id];
    ++dropped_[static_cast<std::size_t>(DropReason::kForgotten)];
    if (held(b)) {
      b.forgotten = true;
    } else {
      b = Block{};
    }
  }
}

void NaivePool::clear() {
  while (!leases_.empty()) remove_lease(leases_.begin()->first);
  dropped_[static_cast<std::size_t>(DropReason::kCleared)] += count(evictable);
  blocks_.assign(blocks_.size(), Block{});
}

}  // namespace kvopt::test
