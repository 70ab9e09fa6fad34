// The loops that run over blocks, compiled once for each set of vector instructions (kernels.cpp) and chosen among at
// run time (dispatch.cpp).
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "kvopt/scoring.hpp"
#include "scoring/prepared.hpp"

namespace kvopt::scoring {

inline constexpr std::size_t kTile = 4096;  // blocks whose features and scores stay in the nearest caches

struct Kernels {
  // out[i - begin] for the blocks [begin, end), at most kTile.
  void (*score)(const BlockFeatures& features, const PreparedScore& prepared, std::size_t set, std::size_t begin,
                std::size_t end, float* out);
  // Writes the places in scores[0, count), count <= kTile, of what is at most `limit`, or below it where `strict`, in
  // rising order; returns how many there are. NaN never is. `places` has room for kTile.
  std::size_t (*below)(const float* scores, std::size_t count, float limit, bool strict, std::uint32_t* places);
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
