// Scores without tables: recency (LRU), frequency (LFU) and cost per age (Pensieve).
#pragma once

#include "scoring/block.hpp"
#include "scoring/prepared.hpp"

namespace kvopt::scoring::inline KVOPT_SCORING_TARGET {

// - idle: LRU's order. All that were used last at now or later are equal.
struct Recency {
  static constexpr std::uint32_t kColumns = kLastUse;

  KVOPT_HOST_DEVICE Recency(const PreparedScore& prepared, std::size_t /*set*/) : now(prepared.now) {}
  KVOPT_HOST_DEVICE double operator()(const Block& b) const { return -idle_time(now, b.last_use); }

  double now;
};

// hits + 1 - ageing * idle: LFU's order; with ageing, every second without a use takes as many hits away.
struct Frequency {
  static constexpr std::uint32_t kColumns = kLastUse | kHits;

  KVOPT_HOST_DEVICE Frequency(const PreparedScore& prepared, std::size_t set)
      : now(prepared.now), ageing(prepared.doubles_of(set)[0]) {}
  KVOPT_HOST_DEVICE double operator()(const Block& b) const {
    return (b.hits + 1.0) - ageing * idle_time(now, b.last_use);
  }

  double now;
  double ageing;  // hits a second
};

// cost / (idle + offset): Pensieve's order (csrc/policies/pensieve.cpp) with offset 0, where a block that is in use
// this moment has the value inf, or 0 if it costs nothing.
struct CostPerAge {
  static constexpr std::uint32_t kColumns = kLastUse | kCost;

  KVOPT_HOST_DEVICE CostPerAge(const PreparedScore& prepared, std::size_t set)
      : now(prepared.now), offset(prepared.doubles_of(set)[0]) {}
  KVOPT_HOST_DEVICE double operator()(const Block& b) const {
    const double value = b.cost / (idle_time(now, b.last_use) + offset);
    return b.cost == 0 && !is_nan(b.last_use) ? 0 : value;
  }

  double now;
  double offset;  // s
};

}  // namespace kvopt::scoring::inline KVOPT_SCORING_TARGET
