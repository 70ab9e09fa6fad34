// Scores in memory, and the look at all features that comes first in checked mode.
#include <string>

#include "kvopt/error.hpp"
#include "scoring/block.hpp"
#include "scoring/checks.hpp"
#include "scoring/kernels.hpp"
#include "scoring/parallel.hpp"
#include "scoring/prepared.hpp"

namespace kvopt {

namespace scoring {

namespace {

// Scores of more bytes are not in any cache that is a thread's own when somebody reads them; written past the caches,
// they need not be read before.
constexpr std::size_t kMostCached = std::size_t{4} << 20;

}  // namespace

void require_threads(std::uint32_t threads) {
  if (threads >= 1 && threads <= kMostThreads) return;
  throw ConfigError("threads is " + std::to_string(threads) + "; it must be 1 to " + std::to_string(kMostThreads));
}

void require_values(const BlockFeatures& features, const PreparedScore& prepared, const Kernels& kernels) {
  const auto check = [&](Column column, const float* values, const std::string& name) {
    if ((prepared.columns & column) == 0) return;
    const std::size_t at = kernels.first_nan(values, features.count);
    if (at < features.count) throw ConfigError("feature '" + name + "' of block " + std::to_string(at) + " is NaN");
  };
  check(kLastUse, features.last_use, "last_use");
  check(kCost, features.cost, "cost");
  check(kPace, features.pace, "pace");
  for (std::uint32_t e = 0; e < features.extra_columns; ++e) {
    if ((prepared.inputs_used >> (static_cast<std::uint32_t>(Input::kExtra) + e) & 1) == 0) continue;
    check(kExtraColumns, features.extra + e * features.count, "extra' column '" + std::to_string(e));
  }
  if (prepared.score != Score::kWorkloadAware && prepared.score != Score::kRetentionIndex) return;
  for (std::size_t i = 0; i < features.count; ++i) {
    if (features.cls[i] >= prepared.classes) {
      throw ConfigError("feature 'class' of block " + std::to_string(i) + " is " + std::to_string(features.cls[i]) +
                        "; the tables have " + std::to_string(prepared.classes) + " classes");
    }
  }
}

}  // namespace scoring

void score(const BlockFeatures& features, const ScoreParams& params, Time now, float* out,
           const ScoringOptions& options) {
  using namespace scoring;
  const Kernels& kernels = kernels_for(options.instructions);
  const PreparedParams prepared = prepare(params, now);
  require_threads(options.threads);
  require_columns(features, prepared.view);
  if (options.checked) require_values(features, prepared.view, kernels);
  const std::size_t count = features.count;
  const bool streamed = count * params.sets * sizeof(float) > kMostCached;
  const auto score_all = [&](std::size_t begin, std::size_t end) {
    for (std::size_t set = 0; set < params.sets; ++set) {
      kernels.score(features, prepared.view, set, begin, end, out + set * count + begin, streamed);
    }
  };
  for_each_part(count, parts_of(count, options.threads), [&](std::size_t /*part*/, std::size_t begin, std::size_t end) {
    if (params.sets == 1) {
      score_all(begin, end);
    } else {
      for_each_tile(begin, end, score_all);  // each piece of the features is read once
    }
  });
}

}  // namespace kvopt
