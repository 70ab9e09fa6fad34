// BlockPool: construction, looking up, counts.
#include "kvopt/block_pool.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <numeric>
#include <ranges>
#include <string>
#include <utility>

#include "core/block_pool_storage.hpp"
#include "core/common_prefix.hpp"
#include "kvopt/error.hpp"

namespace kvopt {

void check(const PoolOptions& options) {
  constexpr std::uint32_t kMostBlocks = std::uint32_t{1} << 31;
  if (options.capacity < 1 || options.capacity > kMostBlocks) {
    throw ConfigError("capacity is " + std::to_string(options.capacity) + " blocks; it must be 1 to " +
                      std::to_string(kMostBlocks));
  }
  if (options.key_bytes > 64) {
    throw ConfigError("key_bytes is " + std::to_string(options.key_bytes) + "; it must be 0 (integers) to 64");
  }
  if (options.block_tokens < 1) throw ConfigError("block_tokens is 0; it must be at least 1");
  if (!(options.p_star >= kLeastPStar)) {
    throw ConfigError("p_star is " + std::to_string(options.p_star) + " tokens; it must be 0.001 or more");
  }
  if (options.lease_budget >= options.capacity) {
    throw ConfigError("lease_budget is " + std::to_string(options.lease_budget) +
                      " blocks; it must be below the capacity, " + std::to_string(options.capacity));
  }
}

std::uint64_t key_digest(const std::uint8_t* key, std::size_t size) {
  constexpr std::uint64_t kOdd = 0x9E3779B97F4A7C15U;
  std::uint64_t digest = size * kOdd;
  for (std::size_t i = 0; i < size; i += sizeof(std::uint64_t)) {
    std::uint64_t word = 0;
    std::memcpy(&word, key + i, std::min(size - i, sizeof word));
    digest = (digest ^ word) * kOdd;
    digest ^= digest >> 32;
  }
  return digest;
}

namespace {

PoolOptions checked(const PoolOptions& options) {
  check(options);
  return options;
}

}  // namespace

BlockPool::BlockPool(const PoolOptions& options, std::unique_ptr<Policy> policy)
    : options_(checked(options)),
      table_(std::make_shared<RunTable>(options.capacity)),
      runs_(*table_),
      storage_(std::make_unique<Storage>(options, runs_)),
      policy_(std::move(policy)) {
  if (policy_ == nullptr) throw ConfigError("a pool needs a policy");
  victims_.reserve(options.capacity);  // takes memory only as it is used
  runs_.slot_keys = storage_->arena.keys(0);
  policy_->attach({runs_, options_.rule, options_.block_tokens, options_.p_star});
}

BlockPool::~BlockPool() = default;

void BlockPool::check_time(Time now) const {
  if (!std::isfinite(now) || now < now_) {
    throw PoolError("time " + std::to_string(now) + " s: the clock must be finite and not go back (last " +
                    std::to_string(now_) + " s)");
  }
}

void BlockPool::check_live(const Allocation& allocation) const {
  if (allocation.owner_ == nullptr) {
    throw StaleBlockError("the allocation holds nothing: it was released, or never acquired");
  }
  if (allocation.owner_ != this) throw StaleBlockError("the allocation belongs to another pool");
}

// ---- looking up
// ------------------------------------------------------------------------------------------------------

bool BlockPool::same_key(RunId r, const Keys& keys, std::size_t i) const { return common(r, keys, i, i + 1) == 1; }

// How many keys, from keys[i] on, run r begins with.
std::uint32_t BlockPool::common(RunId r, const Keys& keys, std::size_t i, std::size_t n) const {
  const SlotArena& arena = storage_->arena;
  const std::uint32_t slot = runs_.first_slot[r];
  const std::size_t most = std::min<std::size_t>(runs_.length[r], n - i);
  std::size_t same = common_prefix(arena.keys(slot), keys.hashes + i, most);
  if (const std::size_t width = options_.key_bytes; width > 0) {
    const std::uint8_t* bytes = arena.key_bytes(slot);
    const std::uint8_t* wanted = keys.bytes + i * width;
    if (std::memcmp(bytes, wanted, same * width) != 0) {
      same = 0;
      while (std::memcmp(bytes + same * width, wanted + same * width, width) == 0) ++same;
    }
  }
  return static_cast<std::uint32_t>(same);
}

// The run that begins with keys[i], under the prefix rule behind i blocks, or kNoRun. Of several the one behind
// `parent`, since first copies stand behind each other, and only they are longer than a block.
RunId BlockPool::run_with_key(RunId parent, const Keys& keys, std::size_t i) const {
  const bool flat = options_.rule == Rule::kFlat;
  RunId elsewhere = kNoRun;
  const RunId found = storage_->index.find(keys.hashes[i], [&](RunId r) {
    if ((!flat && runs_.depth[r] != i) || !same_key(r, keys, i)) return false;
    if (runs_.parent[r] == parent) return true;
    if (elsewhere == kNoRun) elsewhere = r;
    return false;
  });
  return found != kNoRun ? found : elsewhere;
}

// Where duplicates were stored, the run that is found may stand behind another chain than the one that led to it, with
// the same keys: the path is always the one in front of the deepest run.
BlockPool::Path BlockPool::walk(const Keys& keys, std::size_t limit) const {
  const std::size_t n = std::min(limit, keys.count);
  Path path;
  while (path.hit < n) {
    const bool inside = path.tail != kNoRun && path.in_tail < runs_.length[path.tail];
    const RunId r = run_with_key(inside ? kNoRun : path.tail, keys, path.hit);
    if (r == kNoRun) break;
    path.tail = r;
    path.in_tail = common(r, keys, path.hit, n);
    path.hit += path.in_tail;
  }
  return path;
}

std::size_t BlockPool::match(Keys keys) const {
  if (options_.rule == Rule::kPrefix) return walk(keys, keys.count).hit;
  std::size_t hit = 0;
  while (hit < keys.count && run_with_key(kNoRun, keys, hit) != kNoRun) ++hit;
  return hit;
}

BlockPool::Probe BlockPool::probe(Keys keys) const {
  Probe probe;
  if (options_.rule == Rule::kPrefix) {
    const Path path = walk(keys, keys.count);
    probe.hit = path.hit;
    probe.idle = static_cast<std::uint32_t>(available_on(path.tail, path.in_tail, false));
    return probe;
  }
  for (std::size_t i = 0; i < keys.count; ++i) {
    const RunId r = run_with_key(kNoRun, keys, i);
    if (r == kNoRun) break;
    ++probe.hit;
    probe.idle += runs_.references[r] == 0 ? 1 : 0;
  }
  return probe;
}

void BlockPool::blocks_of(const Allocation& allocation, std::span<BlockId> out) const {
  check_live(allocation);
  if (out.size() < allocation.size()) {
    throw PoolError("room for " + std::to_string(out.size()) + " block ids; the allocation has " +
                    std::to_string(allocation.size()));
  }
  auto pending = allocation.pending_.begin() + static_cast<std::ptrdiff_t>(allocation.next_pending_);
  std::copy(pending, allocation.pending_.end(), out.begin() + allocation.committed_);
  std::size_t end = allocation.committed_;
  const auto copy_run = [&](RunId r) {
    end -= runs_.length[r];
    std::copy_n(storage_->arena.blocks(runs_.first_slot[r]), runs_.length[r],
                out.begin() + static_cast<std::ptrdiff_t>(end));
  };
  if (options_.rule == Rule::kFlat) {
    std::ranges::for_each(allocation.flat_ | std::views::reverse, copy_run);
  } else {
    for (RunId r = allocation.tail_; r != kNoRun; r = runs_.parent[r]) copy_run(r);
  }
}

// ---- counts
// ----------------------------------------------------------------------------------------------------------

PoolCounts BlockPool::counts() const {
  const auto empty = storage_->empty.size();
  return {options_.capacity, empty, evictable_, options_.capacity - empty - evictable_ - leased_, leased_};
}

PoolStats BlockPool::stats() const {
  PoolStats stats = stats_;
  stats.counts = counts();
  for (RunId r = 0; r < runs_.used; ++r) stats.runs += (runs_.flags[r] & run_flag::kLive) != 0 ? 1 : 0;
  stats.bytes = runs_.bytes(options_.lease_budget > 0) + storage_->empty.bytes() + storage_->arena.bytes() +
                storage_->index.bytes() + storage_->leases.bytes() + policy_->bytes() +
                (storage_->retentions ? storage_->retentions->bytes() : 0);
  return stats;
}

void BlockPool::finish(Time now) {
  now_ = now;
#ifdef KVOPT_INTERNAL_CHECKS
  if (const auto broken = verify(); !broken.empty()) throw PoolError("invariant broken: " + broken.front());
#endif
}

}  // namespace kvopt
