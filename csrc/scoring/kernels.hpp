// The loops that run over blocks, compiled once for each set of vector instructions (kernels.cpp) and chosen among at
// run time (dispatch.cpp).
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "kvopt/scoring.hpp"
#include "scoring/prepared.hpp"

namespace kvopt::scoring {

using Candidate = std::uint64_t;  // order key in the upper half, index in the lower

// What a score must be to count: anything, or at most `limit`, or below it. NaN is neither.
struct Bound {
  enum class Kind : std::uint8_t { kNone, kAtMost, kBelow };

  Kind kind = Kind::kNone;
  float limit = 0;
};

inline constexpr std::size_t kTile = 4096;  // blocks whose features and scores stay in the nearest caches

struct Kernels {
  // out[i - begin] for the blocks [begin, end). `streamed`: the scores are not worth a place in the caches.
  void (*score)(const BlockFeatures& features, const PreparedScore& prepared, std::size_t set, std::size_t begin,
                std::size_t end, float* out, bool streamed);
  // Writes the candidates among the scores of blocks first, first + 1, ..., at most kTile, in rising order; returns how
  // many there are. `eligible`: a byte for each of them, or null. `to` has room for kTile + 2.
  std::size_t (*collect)(const float* scores, std::size_t count, const std::uint8_t* eligible, std::uint32_t first,
                         Bound bound, Candidate* to);
  // The first NaN, or count.
  std::size_t (*first_nan)(const float* column, std::size_t count);
};

struct Instructions {
  std::string_view name;
  const Kernels* kernels;
};

// The best, or those of this name. Throws ConfigError where they are unknown, or missing here.
const Kernels& kernels_for(std::string_view name);

}  // namespace kvopt::scoring
