#include "scoring/prepared.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <limits>
#include <span>
#include <string>
#include <string_view>

#include "kvopt/error.hpp"
#include "scoring/kv_scores.hpp"

namespace kvopt::scoring {

namespace {

constexpr double kNoValue = std::numeric_limits<double>::quiet_NaN();

// A value of a set; `name` is what the message calls it.
void require(bool good, std::string_view name, double value, std::size_t set, std::string_view limit) {
  if (good) return;
  throw ConfigError(std::string(name) + " of parameter set " + std::to_string(set) + " is " + std::to_string(value) +
                    "; it must be " + std::string(limit));
}

void require_count(std::string_view what, std::uint64_t value, std::uint64_t least, std::uint64_t most) {
  if (value >= least && value <= most) return;
  throw ConfigError(std::string(what) + " is " + std::to_string(value) + "; it must be " + std::to_string(least) +
                    " to " + std::to_string(most));
}

void require_width(const ScoreParams& params, std::uint64_t width) {
  if (params.width == width) return;
  throw ConfigError("a parameter set has " + std::to_string(params.width) + " values; this score takes " +
                    std::to_string(width));
}

std::span<const float> values_of(const ScoreParams& params, std::size_t set) {
  return {params.values + set * params.width, params.width};
}

void require_input(std::uint32_t input, std::size_t set) {
  require(input < kMostInputs, "an input", input, set, "below " + std::to_string(kMostInputs));
}

// One value a set that must be finite and at least 0.
void prepare_one(const ScoreParams& params, std::string_view name, PreparedParams& out) {
  require_width(params, 1);
  for (std::size_t set = 0; set < params.sets; ++set) {
    const double value = values_of(params, set)[0];
    require(std::isfinite(value) && value >= 0, name, value, set, "finite and at least 0");
    out.doubles.push_back(value);
  }
}

void prepare_asymcache(const ScoreParams& params, PreparedParams& out) {
  require_width(params, 3);
  for (std::size_t set = 0; set < params.sets; ++set) {
    const double lifespan = values_of(params, set)[0];
    const double p = values_of(params, set)[1];
    const double r = values_of(params, set)[2];
    require(lifespan > 0 && std::isfinite(lifespan), "lifespan", lifespan, set, "finite seconds above 0");
    require(p > 0 && p < 1, "p", p, set, "between 0 and 1");
    require(r >= 1 && std::isfinite(r), "r", r, set, "finite and at least 1");
    const double slow = -std::log(p) / lifespan;
    out.doubles.insert(out.doubles.end(), {slow, slow * r, lifespan * (1 - 1 / r)});
  }
}

void prepare_workload_aware(const ScoreParams& params, PreparedParams& out) {
  require_count("classes", params.classes, 1, kMostClasses);
  require_width(params, std::uint64_t{1} + params.classes);
  for (std::size_t set = 0; set < params.sets; ++set) {
    const auto values = values_of(params, set);
    const double life = values[0];
    require(life > 0 && std::isfinite(life), "life", life, set, "finite seconds above 0");
    const std::size_t rate = out.doubles.size();
    out.doubles.resize(rate + std::size_t{2} * kMostClasses, kNoValue);
    for (std::size_t c = 0; c < params.classes; ++c) {
      const double value = values[1 + c];
      require(std::isfinite(value) && value >= 0, "rate of class " + std::to_string(c), value, set,
              "finite and at least 0");
      out.doubles[rate + c] = value;
      out.doubles[rate + kMostClasses + c] = std::log(-std::expm1(-value * life));
    }
  }
}

void prepare_retention_index(const ScoreParams& params, PreparedParams& out) {
  require_count("classes", params.classes, 1, kMostClasses);
  require_width(params, std::uint64_t{params.classes} * kAgeBins);
  for (std::size_t set = 0; set < params.sets; ++set) {
    const auto values = values_of(params, set);
    for (const float value : values) {
      require(std::isfinite(value), "a value of the index", value, set, "finite");
    }
    for (std::size_t i = 0; i < values.size(); ++i) {
      const bool last = i % kAgeBins == kAgeBins - 1;
      out.doubles.push_back(RetentionIndex::pair_of(values[i], values[last ? i : i + 1]));
    }
    constexpr float kNone = std::numeric_limits<float>::quiet_NaN();
    out.doubles.resize((set + 1) * kMostClasses * kAgeBins, RetentionIndex::pair_of(kNone, kNone));
  }
}

void prepare_forest(const ScoreParams& params, PreparedParams& out) {
  const auto [trees, depth] = params.forest;
  require_count("trees", trees, 1, kMostTrees);
  require_count("the depth of trees", depth, 1, kMostTreeDepth);
  const std::size_t inner = (std::size_t{1} << depth) - 1;
  const std::size_t leaves = inner + 1;
  require_width(params, 1 + trees * (2 * inner + leaves));
  for (std::size_t set = 0; set < params.sets; ++set) {
    const auto values = values_of(params, set);
    for (const float value : values) require(std::isfinite(value), "a value of the forest", value, set, "finite");
    out.doubles.push_back(values[0]);
    const std::size_t begin = out.floats.size();
    out.floats.resize(begin + trees * (inner + leaves));
    for (std::size_t t = 0; t < trees; ++t) {
      const auto tree = values.subspan(1 + t * (2 * inner + leaves), 2 * inner + leaves);
      for (const float input : tree.first(inner)) {
        require(input >= 0 && input == std::floor(input) && input < kMostInputs, "an input", input, set,
                "a whole number below " + std::to_string(kMostInputs));
        const auto number = static_cast<std::uint32_t>(input);
        out.numbers.push_back(static_cast<std::int32_t>(number));
        out.view.inputs_used |= 1U << number;
      }
      const auto thresholds = out.floats.begin() + static_cast<std::ptrdiff_t>(begin);
      std::ranges::copy(tree.subspan(inner, inner), thresholds + static_cast<std::ptrdiff_t>(t * inner));
      std::ranges::copy(tree.last(leaves), thresholds + static_cast<std::ptrdiff_t>(trees * inner + t * leaves));
    }
  }
}

void prepare_network(const ScoreParams& params, PreparedParams& out) {
  const NetworkShape& shape = params.network;
  require_count("inputs", shape.inputs, 1, kMostInputs);
  require_count("hidden units", shape.hidden, 1, kMostHidden);
  require_width(params, std::uint64_t{shape.hidden} * (shape.inputs + 2) + 1);
  for (std::size_t set = 0; set < params.sets; ++set) {
    const auto values = values_of(params, set);
    for (const float value : values) require(std::isfinite(value), "a weight", value, set, "finite");
    out.doubles.insert(out.doubles.end(), values.begin(), values.end());
    for (std::uint32_t i = 0; i < shape.inputs; ++i) {
      require_input(shape.input[i], set);
      out.view.inputs_used |= 1U << shape.input[i];
      out.numbers.push_back(shape.input[i]);
    }
    for (std::uint32_t i = 0; i < shape.inputs; ++i) out.numbers.push_back(shape.logarithm[i]);
  }
}

std::uint32_t columns_of_inputs(std::uint32_t used) {
  constexpr std::array kColumnOf = {kLastUse, kCost, kPace, kHits, kDepth, kClass};
  std::uint32_t columns = 0;
  for (std::size_t i = 0; i < kColumnOf.size(); ++i) {
    if ((used >> i & 1) != 0) columns |= kColumnOf[i];
  }
  if (used >> static_cast<std::uint32_t>(Input::kExtra) != 0) columns |= kExtraColumns;
  return columns;
}

}  // namespace

PreparedParams prepare(const ScoreParams& params, Time now) {
  require_count("the number of parameter sets", params.sets, 1, kMostSets);
  if (!std::isfinite(now)) throw ConfigError("now is " + std::to_string(now) + "; it must be finite seconds");
  PreparedParams out;
  switch (params.score) {
    case Score::kRecency:
      require_width(params, 0);
      out.view.columns = kLastUse;
      break;
    case Score::kFrequency:
      prepare_one(params, "ageing", out);
      out.view.columns = kLastUse | kHits;
      break;
    case Score::kCostPerAge:
      prepare_one(params, "offset", out);
      out.view.columns = kLastUse | kCost;
      break;
    case Score::kAsymCache:
      prepare_asymcache(params, out);
      out.view.columns = kLastUse | kCost;
      break;
    case Score::kWorkloadAware:
      prepare_workload_aware(params, out);
      out.view.columns = kLastUse | kClass;
      break;
    case Score::kRetentionIndex:
      prepare_retention_index(params, out);
      out.view.columns = kLastUse | kCost | kPace | kClass;
      break;
    case Score::kForest:
      prepare_forest(params, out);
      break;
    case Score::kNetwork:
      prepare_network(params, out);
      break;
  }
  out.view.score = params.score;
  out.view.sets = params.sets;
  out.view.classes = params.classes;
  out.view.now = now;
  out.view.forest = params.forest;
  out.view.network = params.network;
  out.view.columns |= columns_of_inputs(out.view.inputs_used);
  out.view.doubles = out.doubles.data();
  out.view.floats = out.floats.data();
  out.view.numbers = out.numbers.data();
  out.view.doubles_stride = out.doubles.size() / params.sets;
  out.view.floats_stride = out.floats.size() / params.sets;
  out.view.numbers_stride = out.numbers.size() / params.sets;
  return out;
}

void require_columns(const BlockFeatures& features, const PreparedScore& prepared) {
  const auto missing = [&](Column column, const void* data, const char* name) {
    if ((prepared.columns & column) == 0 || data != nullptr || features.count == 0) return;
    throw ConfigError(std::string("feature '") + name + "' is missing; this score reads it");
  };
  missing(kLastUse, features.last_use, "last_use");
  missing(kCost, features.cost, "cost");
  missing(kPace, features.pace, "pace");
  missing(kHits, features.hits, "hits");
  missing(kDepth, features.depth, "depth");
  missing(kClass, features.cls, "class");
  constexpr auto kFirst = static_cast<std::uint32_t>(Input::kExtra);
  const std::uint32_t extra = prepared.inputs_used >> kFirst;
  if (features.extra_columns > kMostExtra) {
    throw ConfigError("feature 'extra' has " + std::to_string(features.extra_columns) + " columns; it may have " +
                      std::to_string(kMostExtra));
  }
  if (extra >> features.extra_columns != 0) {
    throw ConfigError("feature 'extra' has " + std::to_string(features.extra_columns) +
                      " columns; this score reads column " + std::to_string(31 - std::countl_zero(extra)));
  }
  if (features.count > kMostBlocks) {
    throw ConfigError(std::to_string(features.count) + " blocks; at most " + std::to_string(kMostBlocks) +
                      " can be scored at once");
  }
}

}  // namespace kvopt::scoring
