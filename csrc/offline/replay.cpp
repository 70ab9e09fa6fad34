#include "kvopt/replay.hpp"

#include <chrono>
#include <numeric>
#include <string>
#include <utility>

#include "kvopt/block_pool.hpp"
#include "kvopt/error.hpp"

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
}

RequestInfo info_of(const RequestColumns& c, std::size_t r) {
  RequestInfo info{.now = c.time[r], .request = static_cast<std::int64_t>(r)};
  if (!c.session.empty()) info.session = c.session[r];
  if (!c.turn.empty()) info.turn = c.turn[r];
  if (!c.tool.empty()) info.tool = c.tool[r];
  if (!c.output_tokens.empty()) info.output_tokens = c.output_tokens[r];
  if (!c.gap.empty() && c.gap[r] >= 0) info.gap = c.gap[r];
  if (!c.stop.empty()) info.stop = static_cast<StopReason>(c.stop[r]);
  if (!c.subagent.empty()) info.subagent = c.subagent[r] != 0;
  return info;
}

}  // namespace

ReplayCounts replay(const PrefixTrace& trace, const RequestColumns& columns, std::unique_ptr<Policy> policy,
                    std::uint32_t capacity) {
  const std::size_t requests = trace.requests();
  check_columns(columns, requests);
  ReplayCounts counts{std::vector<std::uint32_t>(requests), std::vector<std::uint8_t>(requests)};
  BlockPool pool({.capacity = capacity}, std::move(policy));
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
  counts.evictions = pool.stats().dropped[static_cast<std::size_t>(DropReason::kCapacity)];
  return counts;
}

}  // namespace kvopt
