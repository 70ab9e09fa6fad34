#include "kvopt/replay.hpp"

#include <chrono>
#include <numeric>
#include <string>
#include <utility>

#include "kvopt/block_pool.hpp"
#include "kvopt/error.hpp"
#include "offline/flat_cache.hpp"

namespace kvopt {

namespace {

template <class T>
void check_length(const char* name, std::span<const T> column, std::size_t requests, bool required) {
  if (column.size() == requests || (column.empty() && !required)) return;
  throw TraceError("column " + std::string(name) + " has " + std::to_string(column.size()) + " entries for " +
                   std::to_string(requests) + " requests");
}

void check_columns(const RequestColumns& c, std::size_t requests) {
  check_length("time", c.time, requests, true);
  check_length("session", c.session, requests, false);
  check_length("turn", c.turn, requests, false);
  check_length("tool", c.tool, requests, false);
  check_length("output_tokens", c.output_tokens, requests, false);
  check_length("gap", c.gap, requests, false);
  check_length("stop", c.stop, requests, false);
  check_length("subagent", c.subagent, requests, false);
  check_length("steps", c.steps, requests, false);
  check_length("return_probability", c.return_probability, requests, false);
}

}  // namespace

ReplayCounts replay(const PrefixTrace& trace, const RequestColumns& columns, std::unique_ptr<Policy> policy,
                    const ReplayOptions& options) {
  const std::size_t requests = trace.requests();
  const std::uint32_t capacity = options.capacity;
  check_columns(columns, requests);
  if (options.rule == Rule::kFlat) return replay_flat(trace, columns, std::move(policy), options);
  ReplayCounts counts{std::vector<std::uint32_t>(requests), std::vector<std::uint8_t>(requests)};
  BlockPool pool({.capacity = capacity, .block_tokens = options.block_tokens, .p_star = options.p_star},
                 std::move(policy));
  if (options.state) pool.policy().load_state(*options.state);
  Allocation allocation;
  std::vector<BlockRange> ranges;
  std::vector<std::uint64_t> keys(trace.longest_request());

  const auto start = std::chrono::steady_clock::now();
  for (std::size_t r = 0; r < requests; ++r) {
    const std::uint32_t length = trace.length(r);
    if (length >= capacity) {
      counts.skipped[r] = 1;
      continue;
    }
    if (length == 0) continue;
    trace.ranges(r, ranges);
    std::uint64_t* key = keys.data();
    for (const BlockRange& range : ranges) {
      std::iota(key, key + range.count, std::uint64_t{range.first});
      key += range.count;
    }
    const RequestInfo info = info_of(columns, r);
    pool.acquire(allocation, {.hashes = keys.data(), .count = length}, length, info);
    const std::uint32_t hit = allocation.hit();
    counts.hit_blocks[r] = hit;
    pool.commit(allocation, {.hashes = keys.data() + hit, .count = length - hit}, info);
    pool.release(allocation, info);
  }
  pool.policy().check();
  const auto end = std::chrono::steady_clock::now();
  counts.seconds = std::chrono::duration<double>(end - start).count();
  if (options.save_state) counts.state = pool.policy().save_state();
  counts.evictions = pool.stats().dropped[static_cast<std::size_t>(DropReason::kCapacity)];
  return counts;
}

}  // namespace kvopt
