// What one run measures: totals, latencies, tokens by cause, series over time and, where wanted, a log of events. The
// orders are those of kvopt.metrics, whose objects fill and read these.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "simulator/samples.hpp"
#include "simulator/time_series.hpp"

namespace kvopt::simulator {

enum class EventKind : std::uint8_t {
  kArrived,
  kRefused,
  kAdmitted,
  kLoading,
  kFirstToken,
  kPreempted,
  kFinished,
  kAborted,
  kEvicted,
};
enum class Latency : std::uint8_t { kTtft, kTimePerToken, kEndToEnd, kQueueing, kJobCompletion };
inline constexpr std::size_t kLatencies = 5;
enum class Cause : std::uint8_t { kCold, kEvicted, kPreempted, kTail };
inline constexpr std::size_t kCauses = 4;
enum class Count : std::uint8_t { kArrivals, kPromptTokens, kHitTokens, kPrefilledTokens, kEvictions, kPreemptions };
inline constexpr std::size_t kCounts = 6;
inline constexpr std::size_t kGauges = 4;  // blocks held, blocks cached, requests running, requests waiting

// Rows in the order of happening.
class EventLog {
 public:
  void add(double time, EventKind kind, std::int64_t request, std::int64_t amount) {
    time_.push_back(time);
    kind_.push_back(static_cast<std::uint8_t>(kind));
    request_.push_back(request);
    amount_.push_back(amount);
  }
  const std::vector<double>& time() const { return time_; }
  const std::vector<std::uint8_t>& kind() const { return kind_; }
  const std::vector<std::int64_t>& request() const { return request_; }
  const std::vector<std::int64_t>& amount() const { return amount_; }

 private:
  std::vector<double> time_;
  std::vector<std::uint8_t> kind_;
  std::vector<std::int64_t> request_;
  std::vector<std::int64_t> amount_;
};

// See kvopt.metrics.Totals for what each counts.
struct Totals {
  std::int64_t requests = 0;
  std::int64_t finished = 0;
  std::int64_t refused = 0;
  std::int64_t aborted = 0;
  std::int64_t unsent = 0;
  std::int64_t sessions = 0;
  std::int64_t steps = 0;
  std::int64_t prompt_tokens = 0;
  std::int64_t hit_tokens = 0;
  std::int64_t reread_tokens = 0;
  std::int64_t loaded_tokens = 0;
  std::int64_t output_tokens = 0;
  std::int64_t preemptions = 0;
  std::int64_t evictions = 0;
  std::int64_t evicted_hits = 0;
  double busy_s = 0;
  double held_block_s = 0;
  double cached_block_s = 0;
  double useful_block_s = 0;
  double wasted_block_s = 0;
  double unresolved_block_s = 0;
};

struct Collector {
  Totals totals;
  std::array<std::int64_t, kCauses> prefill_tokens{};
  std::array<double, kCauses> prefill_ms{};
  std::array<std::shared_ptr<Sample>, kLatencies> latency;
  std::shared_ptr<Sample> eviction_age;  // blocks that go together count with their mean
  std::shared_ptr<TimeSeries> series;
  std::shared_ptr<EventLog> log;  // or none

  void add(Latency which, double seconds) { latency[static_cast<std::size_t>(which)]->add(seconds, 1); }

  void count(double time, Count which, std::int64_t amount = 1) {
    series->count(time, static_cast<std::size_t>(which), static_cast<double>(amount));
  }

  void event(double time, EventKind kind, std::int64_t request, std::int64_t amount) {
    if (log != nullptr) log->add(time, kind, request, amount);
  }

  // `blocks` were evicted together for a request: the mean seconds since their last use, their hits added up.
  void evicted(double time, std::int64_t request, std::int64_t blocks, double age, std::int64_t hits) {
    age = std::max(age, 0.0);
    totals.evictions += blocks;
    totals.evicted_hits += hits;
    totals.wasted_block_s += static_cast<double>(blocks) * age;
    eviction_age->add(age, blocks);
    count(time, Count::kEvictions, blocks);
    event(time, EventKind::kEvicted, request, blocks);
  }
};

}  // namespace kvopt::simulator
