// Compiled several times, with KVOPT_SCORING_TARGET naming the instructions (cmake/scoring.cmake); plain loops over
// plain arrays that the compiler vectorises. Nothing of the standard library but inline constants may be used here: a
// function that the compiler chose not to inline would be shared with the rest of the program.
#include "scoring/kernels.hpp"

#include "scoring/block_loops.hpp"
#include "scoring/collect_loop.hpp"
#include "scoring/kv_scores.hpp"
#include "scoring/learned_loops.hpp"
#include "scoring/simple_scores.hpp"

namespace kvopt::scoring::inline KVOPT_SCORING_TARGET {

namespace {

void score(const BlockFeatures& features, const PreparedScore& prepared, std::size_t set, std::size_t begin,
           std::size_t end, float* out, bool streamed) {
  switch (prepared.score) {
    case Score::kRecency:
      score_blocks<Recency>(features, prepared, set, begin, end, out, streamed);
      break;
    case Score::kFrequency:
      score_blocks<Frequency>(features, prepared, set, begin, end, out, streamed);
      break;
    case Score::kCostPerAge:
      score_blocks<CostPerAge>(features, prepared, set, begin, end, out, streamed);
      break;
    case Score::kAsymCache:
      score_blocks<AsymCache>(features, prepared, set, begin, end, out, streamed);
      break;
    case Score::kWorkloadAware:
      score_blocks<WorkloadAware>(features, prepared, set, begin, end, out, streamed);
      break;
    case Score::kRetentionIndex:
      score_blocks<RetentionIndex>(features, prepared, set, begin, end, out, streamed);
      break;
    case Score::kForest:
      score_forest(features, prepared, set, begin, end, out);
      break;
    case Score::kNetwork:
      score_network(features, prepared, set, begin, end, out);
      break;
  }
}

std::size_t first_nan(const float* column, std::size_t count) {
  constexpr std::size_t kStretch = 256;
  std::size_t begin = 0;
  for (; begin + kStretch <= count; begin += kStretch) {
    std::uint32_t nans = 0;
    for (std::size_t i = 0; i < kStretch; ++i) nans += is_nan(column[begin + i]) ? 1 : 0;
    if (nans != 0) break;
  }
  while (begin < count && !is_nan(column[begin])) ++begin;
  return begin;
}

}  // namespace

extern const Kernels kKernels;
const Kernels kKernels = {score, collect, first_nan};

}  // namespace kvopt::scoring::inline KVOPT_SCORING_TARGET
