// Parameter sets of a score with the array that they point into.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "bindings/arrays.hpp"
#include "bindings/bindings.hpp"
#include "kvopt/error.hpp"
#include "kvopt/scoring.hpp"

namespace kvopt::bindings {

inline constexpr std::array<const char*, kScores> kScoreNames = {
    "recency", "frequency", "cost-per-age", "asymcache", "workload-aware", "retention-index", "forest", "network"};

inline Score to_score(const std::string& name) {
  const auto at = std::ranges::find(kScoreNames, name);
  if (at == kScoreNames.end()) throw ConfigError("score '" + name + "' is unknown");
  return static_cast<Score>(at - kScoreNames.begin());
}

// Parameters with the array that they point into.
class ScoreParamsHandle {
 public:
  ScoreParamsHandle(const std::string& score, Array<float> values, std::uint32_t classes,
                    std::pair<std::uint32_t, std::uint32_t> forest, std::uint32_t hidden,
                    const std::vector<std::uint8_t>& inputs, const std::vector<bool>& logarithm)
      : values_(std::move(values)) {
    if (values_.ndim() != 2) throw ConfigError("parameters have " + std::to_string(values_.ndim()) + " axes; 2 it is");
    if (inputs.size() > kMostInputs || logarithm.size() != inputs.size()) {
      throw ConfigError(std::to_string(inputs.size()) + " inputs and " + std::to_string(logarithm.size()) +
                        " marks of logarithms; they must be as many, at most " + std::to_string(kMostInputs));
    }
    view_.score = to_score(score);
    view_.sets = static_cast<std::uint32_t>(values_.shape(0));
    view_.width = static_cast<std::uint32_t>(values_.shape(1));
    view_.values = values_.data();
    view_.classes = classes;
    view_.forest = {forest.first, forest.second};
    view_.network.inputs = static_cast<std::uint32_t>(inputs.size());
    view_.network.hidden = hidden;
    std::ranges::copy(inputs, view_.network.input.begin());
    std::ranges::copy(logarithm, view_.network.logarithm.begin());
  }

  const ScoreParams& view() const { return view_; }

 private:
  Array<float> values_;
  ScoreParams view_;
};

}  // namespace kvopt::bindings
