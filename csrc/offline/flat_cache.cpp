// Replay by the flat rule: a cache of single blocks, each a run of its own, driven reference by reference.
//
// The same policies and the same hooks as in a BlockPool, without its keys, slots and handles: block numbers of a trace
// are dense, so the index is an array.
#include "offline/flat_cache.hpp"

#include <chrono>
#include <cmath>
#include <memory>
#include <queue>
#include <string>
#include <utility>
#include <vector>

#include "kvopt/error.hpp"

namespace kvopt {

namespace {

class FlatCache {
 public:
  FlatCache(std::uint32_t blocks, const ReplayOptions& options, std::unique_ptr<Policy> policy)
      : table_(std::make_shared<RunTable>(options.capacity)),
        runs_(*table_),
        key_(options.capacity),
        run_of_(blocks, kNoRun),
        policy_(std::move(policy)) {
    runs_.slot_keys = key_.data();
    policy_->attach({runs_, Rule::kFlat, options.block_tokens, options.p_star});
  }

  std::uint64_t evictions() const { return evictions_; }
  Policy& policy() { return *policy_; }

  bool reference(std::uint32_t block, std::uint32_t depth, const RequestInfo& info) {
    RunId r = run_of_[block];
    const bool hit = r != kNoRun;
    if (hit) {
      policy_->on_hit({&r, 1}, info);
      runs_.references[r] = 1;
      policy_->on_referenced({&r, 1});
      ++runs_.hits[r];
    } else {
      policy_->on_miss(block, info);
      r = runs_.used < runs_.capacity ? runs_.used++ : evict(info.now);
      run_of_[block] = r;
      runs_.parent[r] = kNoRun;
      runs_.first_slot[r] = r;
      key_[r] = block;
      runs_.length[r] = 1;
      runs_.depth[r] = depth;
      runs_.hits[r] = 0;
      runs_.references[r] = 1;
      runs_.priority[r] = kDefaultPriority;
      runs_.flags[r] = run_flag::kLive;
      policy_->on_stored({&r, 1}, info);
    }
    runs_.references[r] = 0;
    runs_.last_use[r] = info.now;
    policy_->on_evictable({&r, 1}, info);
    return hit;
  }

 private:
  RunId evict(Time now) {
    const RunId r = policy_->choose(1, now);
    if (r >= runs_.used || !runs_.is_victim(r))
      throw PolicyError("the policy chose run " + std::to_string(r) + ", which is no victim");
    policy_->on_dropped({&r, 1});
    policy_->on_evicted(r, key_[r], 1);
    run_of_[key_[r]] = kNoRun;
    ++evictions_;
    return r;
  }

  std::shared_ptr<RunTable> table_;
  RunTable& runs_;
  LazyArray<std::uint64_t> key_;  // of each run: its block
  std::vector<RunId> run_of_;
  std::unique_ptr<Policy> policy_;
  std::uint64_t evictions_ = 0;
};

// Calls each(request, place in the request, block) for every reference of the trace.
template <class Each>
void for_each_reference(const PrefixTrace& trace, Each each) {
  std::vector<BlockRange> ranges;
  for (std::size_t r = 0; r < trace.requests(); ++r) {
    trace.ranges(r, ranges);
    std::uint32_t place = 0;
    for (const BlockRange& range : ranges) {
      for (std::uint32_t i = 0; i < range.count; ++i) each(r, place++, range.first + i);
    }
  }
}

double seconds_since(std::chrono::steady_clock::time_point start) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

}  // namespace

ReplayCounts replay_flat(const PrefixTrace& trace, const RequestColumns& columns, std::unique_ptr<Policy> policy,
                         const ReplayOptions& options) {
  if (options.capacity < 1) throw ConfigError("capacity is 0 blocks; it must be at least 1");
  ReplayCounts counts{std::vector<std::uint32_t>(trace.requests()), std::vector<std::uint8_t>(trace.requests())};
  FlatCache cache(trace.unique_blocks(), options, std::move(policy));
  if (options.state) cache.policy().load_state(*options.state);
  const auto start = std::chrono::steady_clock::now();
  std::size_t current = trace.requests();
  std::int64_t reference = 0;
  RequestInfo info{.now = -kNever};
  for_each_reference(trace, [&](std::size_t r, std::uint32_t place, std::uint32_t block) {
    if (r != current) {
      const Time last = info.now;
      current = r;
      info = info_of(columns, r);
      if (!std::isfinite(info.now) || info.now < last) {
        throw PoolError("time " + std::to_string(info.now) + " s of request " + std::to_string(r) +
                        ": the clock must be finite and not go back (last " + std::to_string(last) + " s)");
      }
      cache.policy().check();
    }
    info.request = reference++;
    counts.hit_blocks[r] += cache.reference(block, place, info) ? 1 : 0;
  });
  cache.policy().check();
  counts.seconds = seconds_since(start);
  if (options.save_state) counts.state = cache.policy().save_state();
  counts.evictions = cache.evictions();
  return counts;
}

ReplayCounts replay_min_flat(const PrefixTrace& trace, std::uint32_t capacity, bool bypass) {
  if (capacity < 1) throw ConfigError("capacity is 0 blocks; it must be at least 1");
  ReplayCounts counts{std::vector<std::uint32_t>(trace.requests()), std::vector<std::uint8_t>(trace.requests())};
  const auto start = std::chrono::steady_clock::now();
  constexpr std::uint64_t kNeverUsed = UINT64_MAX;
  std::vector<std::uint64_t> next(trace.block_references());  // next reference of the same block, by reference
  std::vector<std::uint64_t> last(trace.unique_blocks(), kNeverUsed);
  std::uint64_t at = 0;
  for_each_reference(trace, [&](std::size_t /*r*/, std::uint32_t /*place*/, std::uint32_t block) {
    if (last[block] != kNeverUsed) next[last[block]] = at;
    last[block] = at;
    next[at++] = kNeverUsed;
  });
  std::vector<std::uint64_t> due(trace.unique_blocks());  // next use of a cached block; 0: not cached
  std::priority_queue<std::pair<std::uint64_t, std::uint32_t>> farthest;
  std::uint32_t cached = 0;
  at = 0;
  for_each_reference(trace, [&](std::size_t r, std::uint32_t /*place*/, std::uint32_t block) {
    const std::uint64_t use = next[at++];
    if (due[block] != 0) {
      ++counts.hit_blocks[r];
      --cached;
      due[block] = 0;
    }
    if (!bypass || use != kNeverUsed || cached < capacity) {
      const auto drop_farthest = [&] {
        while (due[farthest.top().second] != farthest.top().first) farthest.pop();
        due[farthest.top().second] = 0;
        farthest.pop();
        --cached;
        ++counts.evictions;
      };
      if (!bypass && cached == capacity) drop_farthest();
      due[block] = use;
      farthest.emplace(use, block);
      ++cached;
      if (cached > capacity) drop_farthest();
    }
  });
  counts.seconds = seconds_since(start);
  return counts;
}

}  // namespace kvopt
