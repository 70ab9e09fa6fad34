// One block's features as a value, and which of them a score reads.
//
// A score functor is a small value struct: `kColumns`, and `double operator()(const Block&) const`, which looks at
// those columns only. Whoever calls it loads them: the CPU loop one block a lane, a CUDA kernel 16 bytes a load.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kvopt/scoring.hpp"
#include "scoring/target.hpp"

namespace kvopt::scoring::inline KVOPT_SCORING_TARGET {

enum Column : std::uint32_t {
  kLastUse = 1U << 0,
  kCost = 1U << 1,
  kPace = 1U << 2,
  kHits = 1U << 3,
  kDepth = 1U << 4,
  kClass = 1U << 5,
  kExtraColumns = 1U << 6,
};

struct Block {
  float last_use = 0;
  float cost = 0;
  float pace = 0;
  std::uint32_t hits = 0;
  std::uint32_t depth = 0;
  std::uint8_t cls = 0;
};

template <std::uint32_t Columns>
KVOPT_HOST_DEVICE inline Block load(const BlockFeatures& features, std::size_t i) {
  Block block;
  if constexpr ((Columns & kLastUse) != 0) block.last_use = features.last_use[i];
  if constexpr ((Columns & kCost) != 0) block.cost = features.cost[i];
  if constexpr ((Columns & kPace) != 0) block.pace = features.pace[i];
  if constexpr ((Columns & kHits) != 0) block.hits = features.hits[i];
  if constexpr ((Columns & kDepth) != 0) block.depth = features.depth[i];
  if constexpr ((Columns & kClass) != 0) block.cls = features.cls[i];
  return block;
}

// Fetches what lies at block i of the columns into the nearest cache.
template <std::uint32_t Columns>
inline void prefetch(const BlockFeatures& features, std::size_t i) {
  if constexpr ((Columns & kLastUse) != 0) __builtin_prefetch(features.last_use + i);
  if constexpr ((Columns & kCost) != 0) __builtin_prefetch(features.cost + i);
  if constexpr ((Columns & kPace) != 0) __builtin_prefetch(features.pace + i);
  if constexpr ((Columns & kHits) != 0) __builtin_prefetch(features.hits + i);
  if constexpr ((Columns & kDepth) != 0) __builtin_prefetch(features.depth + i);
  if constexpr ((Columns & kClass) != 0) __builtin_prefetch(features.cls + i);
}

// Seconds since the last use. A last use after now counts as now; NaN stays. `zero` is 0, at best hidden().
KVOPT_HOST_DEVICE inline double idle_time(double now, float last_use, double zero = 0) {
  const double idle = now - last_use;
  return idle < zero ? zero : idle;
}

}  // namespace kvopt::scoring::inline KVOPT_SCORING_TARGET
