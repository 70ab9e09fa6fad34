// Parameters as the functors read them: checked, and what does not depend on a block computed once, in float64.
//
// A PreparedScore is a view of plain arrays, so a copy of it with pointers into a GPU's memory serves there; whoever
// makes that copy takes sizes and contents from PreparedParams.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "kvopt/scoring.hpp"
#include "scoring/target.hpp"

namespace kvopt::scoring {

struct PreparedScore {
  Score score = Score::kRecency;
  std::uint32_t sets = 1;
  std::uint32_t classes = 0;
  double now = 0;
  ForestShape forest{};
  NetworkShape network{};
  // Each [sets][stride]; unused ones have stride 0.
  const double* doubles = nullptr;
  const float* floats = nullptr;
  const std::int32_t* numbers = nullptr;
  std::size_t doubles_stride = 0;
  std::size_t floats_stride = 0;
  std::size_t numbers_stride = 0;
  std::uint32_t columns = 0;      // that it reads: scoring::Column
  std::uint32_t inputs_used = 0;  // of forest and network: bit i is Input i

  KVOPT_HOST_DEVICE const double* doubles_of(std::size_t set) const { return doubles + set * doubles_stride; }
  KVOPT_HOST_DEVICE const float* floats_of(std::size_t set) const { return floats + set * floats_stride; }
  KVOPT_HOST_DEVICE const std::int32_t* numbers_of(std::size_t set) const { return numbers + set * numbers_stride; }
};

// Owns what `view` points to.
struct PreparedParams {
  std::vector<double> doubles;
  std::vector<float> floats;
  std::vector<std::int32_t> numbers;
  PreparedScore view;
};

// Throws ConfigError for parameters that do not fit their score.
PreparedParams prepare(const ScoreParams& params, Time now);

// Throws ConfigError when a column that the score reads is missing, or there are more than kMostBlocks.
void require_columns(const BlockFeatures& features, const PreparedScore& prepared);

}  // namespace kvopt::scoring
