// Values of many blocks under many parameter sets at once, and the choice of the lowest: for scores that no queue can
// keep in order (learned ones, ones of many features), for tables of 10^7 to 10^8 entries and for sweeps.
//
// Low means: evict first. Every score is computed in float64 from float32 inputs and rounded to float32 once; the same
// functors (csrc/scoring/) run on CPU and GPU. What has no value (NaN) sorts last. Ties go to the lower index.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

#include "kvopt/export.h"
#include "kvopt/types.hpp"

namespace kvopt {

// Idle is now - last_use, at least 0; see csrc/scoring/ for the formulas. Params of one set, all float32, in order:
enum class Score : std::uint8_t {
  kRecency,         // - idle                                            none
  kFrequency,       // hits + 1 - ageing * idle                          ageing (hits a second)
  kCostPerAge,      // cost / (idle + offset)                            offset (s)
  kAsymCache,       // ln(f(idle) * cost)                                lifespan (s), p, r
  kWorkloadAware,   // ln(exp(-rate idle) (1 - exp(-rate life)))         life (s), then a class: rate (1/s)
  kRetentionIndex,  // cost * pace * index(idle * pace)                  a class: kAgeBins values of the index
  kForest,          // base + sum of a leaf a tree                       see ForestShape
  kNetwork,         // b2 + W2 relu(b1 + W1 input)                       see NetworkShape
};
inline constexpr std::size_t kScores = 8;
inline constexpr std::uint32_t kAgeBins = 32;  // as ReuseModel::kBins
inline constexpr std::uint32_t kMostClasses = 256;
inline constexpr std::uint32_t kMostSets = 65'535;

// What forests and networks can look at, as float32; extra columns follow.
enum class Input : std::uint8_t { kIdle, kCost, kPace, kHits, kDepth, kClass, kExtra };
inline constexpr std::uint32_t kMostExtra = 26;
inline constexpr std::uint32_t kMostInputs = static_cast<std::uint32_t>(Input::kExtra) + kMostExtra;

// Complete binary trees, all of one depth d (shallower ones are padded). Params: base; then a tree: 2^d - 1 inputs
// (numbers of Input, as floats) and 2^d - 1 thresholds in breadth-first order; 2^d leaves from left to right. An input
// above the threshold goes right.
struct ForestShape {
  std::uint32_t trees = 0;
  std::uint32_t depth = 0;
};
inline constexpr std::uint32_t kMostTreeDepth = 12;
inline constexpr std::uint32_t kMostTrees = 4096;

// One hidden layer. Params: W1 [hidden][inputs], b1 [hidden], W2 [hidden], b2.
struct NetworkShape {
  std::uint32_t inputs = 0;
  std::uint32_t hidden = 0;
  std::array<std::uint8_t, kMostInputs> input{};      // numbers of Input
  std::array<std::uint8_t, kMostInputs> logarithm{};  // 1: ln(1 + x) goes in instead of x
};
inline constexpr std::uint32_t kMostHidden = 1024;

struct ScoreParams {
  Score score = Score::kRecency;
  std::uint32_t sets = 1;   // P
  std::uint32_t width = 0;  // K: floats a set
  const float* values = nullptr;
  std::uint32_t classes = 0;  // of the two scores with a table
  ForestShape forest{};
  NetworkShape network{};
};

// One column a feature, each of `count` entries; those that the score does not look at may be null.
struct BlockFeatures {
  std::size_t count = 0;
  const float* last_use = nullptr;       // seconds on the caller's clock
  const float* cost = nullptr;           // what losing the block costs, at least 0; any unit
  const float* pace = nullptr;           // units of age a second of the session that used it last
  const std::uint32_t* hits = nullptr;   // since it was stored
  const std::uint32_t* depth = nullptr;  // blocks before it
  const std::uint8_t* cls = nullptr;     // row of the tables
  const float* extra = nullptr;          // [extra_columns][count], for forests and networks
  std::uint32_t extra_columns = 0;
};
inline constexpr std::size_t kMostBlocks = UINT32_MAX;

struct ScoringOptions {
  std::uint32_t threads = 1;
  // A look at all features first: NaN and classes without a row throw ConfigError, nothing is written.
  bool checked = false;
  // Empty: the best that the processor has. Else one of scoring_instructions().
  std::string_view instructions = {};
};

// What this build and processor can compute with, the best first: "avx512", "avx2", "baseline".
KVOPT_API std::span<const std::string_view> scoring_instructions();

// All functions throw ConfigError, before anything is written, for parameters that do not fit their score, a column
// that is missing, more than kMostBlocks blocks, and instructions that are unknown or missing here.

// out[set * count + block], float32.
KVOPT_API void score(const BlockFeatures& features, const ScoreParams& params, Time now, float* out,
                     const ScoringOptions& options = {});

// Throws ConfigError when fewer than k blocks are eligible, or there are too many to be compared.
KVOPT_API void require_selectable(std::size_t count, std::size_t k, const std::uint8_t* eligible);

// Indices of the k lowest scores, lowest first: the first k of a stable argsort. `eligible`: one byte a block, 0 leaves
// it out; null: all. Throws ConfigError when fewer than k are eligible.
KVOPT_API void select_k(const float* scores, std::size_t count, std::size_t k, const std::uint8_t* eligible,
                        std::uint32_t* out, const ScoringOptions& options = {});

// The same of each set's scores, which never reach memory: out[set * k + rank].
KVOPT_API void score_select(const BlockFeatures& features, const ScoreParams& params, Time now, std::size_t k,
                            const std::uint8_t* eligible, std::uint32_t* out, const ScoringOptions& options = {});

}  // namespace kvopt
