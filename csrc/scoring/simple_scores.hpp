// Scores without tables: recency (LRU), frequency (LFU) and cost per age (Pensieve).
#pragma once

#include "scoring/block.hpp"
#include "scoring/prepared.hpp"

namespace kvopt::scoring::inline KVOPT_SCORING_TARGET {

// - idle: LRU's order. All that were used last at now or later are equal.
struct Recency {
  static constexpr std::uint32_t kColumns = kLastUse;

  KVOPT_HOST_DEVICE Recency(const PreparedScore& prepared, std::size_t /*set*/) : now(prepared.now) {}
  KVOPT_HOST_DEVICE double operator()(const Block& b) const {
    const double score = b.last_use - now;
    return score > zero ? zero : score;
  }

  double now;
  double zero = hidden(0);
};

// hits + 1 - ageing * idle: LFU's order; with ageing, every second without a use takes as many hits away.
struct Frequency {
  static constexpr std::uint32_t kColumns = kLastUse | kHits;

  KVOPT_HOST_DEVICE Frequency(const PreparedScore& prepared, std::size_t set)
      : now(prepared.now), ageing(prepared.doubles_of(set)[0]) {}
  KVOPT_HOST_DEVICE double operator()(const Block& b) const {
    return (b.hits + 1.0) - ageing * idle_time(now, b.last_use, zero);
  }

  double now;
  double ageing;  // hits a second
  double zero = hidden(0);
};

// cost / (idle + offset): Pensieve's order (csrc/policies/pensieve.cpp) with offset 0, where a block that is in use
// this moment has the value inf, or 0 if it costs nothing.
struct CostPerAge {
  static constexpr std::uint32_t kColumns = kLastUse | kCost;

  KVOPT_HOST_DEVICE CostPerAge(const PreparedScore& prepared, std::size_t set)
      : now(prepared.now), offset(prepared.doubles_of(set)[0] + kLeast), most(hidden(kMost)) {}
  KVOPT_HOST_DEVICE double operator()(const Block& b) const {
    const double age = idle_time(now, b.last_use, zero) + offset;
    return b.cost * reciprocal(age > most ? most : age);
  }

  // With ages beyond, every cost but 0 and inf is inf or 0 as float32.
  static constexpr double kLeast = 0x1p-1000;
  static constexpr double kMost = 0x1p1000;

  double now;
  double offset;  // s
  double most;
  double zero = hidden(0);
};

}  // namespace kvopt::scoring::inline KVOPT_SCORING_TARGET
