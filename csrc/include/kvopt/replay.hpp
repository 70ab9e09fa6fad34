// Replays a workload, one request after another, by the prefix rule.
//
// The longest cached prefix of a request's blocks is its hit; then all its blocks become resident, evicting as needed
// but never one of its own, and all get the request's time as last use. A request with at least as many blocks as the
// capacity is skipped and counted apart.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "kvopt/export.h"
#include "kvopt/policy.hpp"
#include "kvopt/prefix_trace.hpp"

namespace kvopt {

struct ReplayCounts {
  std::vector<std::uint32_t> hit_blocks;  // of each request; 0 when skipped
  std::vector<std::uint8_t> skipped;      // of each request
  std::uint64_t evictions = 0;
  double seconds = 0;      // the replay itself, on the thread that ran it
  std::string state = {};  // what the policy had learned at the end, where it was asked for
};

// What the server would know of each request; empty columns are unknown. `time` is required.
struct RequestColumns {
  std::span<const Time> time;
  std::span<const std::int32_t> session;
  std::span<const std::int32_t> turn;
  std::span<const std::int32_t> tool;
  std::span<const std::uint32_t> output_tokens;
  std::span<const float> gap;
  std::span<const std::uint8_t> stop;
  std::span<const std::uint8_t> subagent;
  std::span<const std::int32_t> steps;
  std::span<const float> return_probability;
};

struct ReplayOptions {
  std::uint32_t capacity = 0;  // blocks
  Rule rule = Rule::kPrefix;
  std::uint32_t block_tokens = 16;
  double p_star = 28'600;
  std::optional<std::string_view> state = {};  // of Policy::save_state(), to go on from
  bool save_state = false;
};

// Online policies. Prefix rule: through a BlockPool. Flat rule, as papers on caches replay: every reference is an
// access to a block by itself, no request is skipped, and RequestInfo::request is the number of the reference. Throws
// PolicyStateError for a state that the policy refuses, ConfigError for capacity 0, TraceError when a column's length
// is not the number of requests.
KVOPT_API ReplayCounts replay(const PrefixTrace& trace, const RequestColumns& columns, std::unique_ptr<Policy> policy,
                              const ReplayOptions& options);

// Offline optimum: evicts the farthest next use, ties deepest first. With bypass a request's own blocks may go at once.
// Under the flat rule, Belady's MIN over single blocks.
KVOPT_API ReplayCounts replay_min(const PrefixTrace& trace, std::uint32_t capacity, bool bypass,
                                  Rule rule = Rule::kPrefix);

// LRU at all capacities in one pass (Mattson et al., IBM Systems Journal 1970), by runs of blocks that were last used
// together: a request costs its blocks once, sequentially, plus O(log requests) a run.
class StackDistances {
 public:
  KVOPT_API explicit StackDistances(const PrefixTrace& trace);

  // Hit blocks of the whole trace at each capacity. Exact above the longest request; below it, requests that replay()
  // would skip take part here. Throws ConfigError for a capacity below 1.
  KVOPT_API std::vector<std::uint64_t> hits_at(std::span<const std::int64_t> capacities) const;

  // Hit blocks of each request at one capacity.
  KVOPT_API std::vector<std::uint32_t> request_hits_at(std::int64_t capacity) const;

  std::uint64_t block_references() const { return references_; }

 private:
  struct Run {  // blocks that were last used by one request: distances newer + 1 to newer + count
    std::uint32_t newer;
    std::uint32_t count;
  };
  std::vector<Run> runs_;
  std::vector<std::size_t> first_run_;  // of each request, and the end
  std::uint64_t references_ = 0;
};

}  // namespace kvopt
