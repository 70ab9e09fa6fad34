// The k lowest, of scores in memory or of scores that are computed tile by tile and forgotten.
//
// A sample gives a limit just above the k-th lowest score; one pass compares everything with it and keeps what is not
// above (lowest.hpp); what is left is sorted. When the sample misled, which is rare, the pass is made again without.
#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <memory>
#include <string>
#include <vector>

#include "kvopt/error.hpp"
#include "scoring/checks.hpp"
#include "scoring/kernels.hpp"
#include "scoring/lowest.hpp"
#include "scoring/parallel.hpp"

namespace kvopt {

namespace {

using scoring::Candidate;
using scoring::Kernels;
using scoring::kTile;
using scoring::Lowest;

constexpr std::size_t kStretch = 4;  // blocks side by side in the sample
constexpr std::size_t kStretches = 1024;
constexpr std::size_t kSmall = 16 * kStretch * kStretches;  // blocks: below, a sample costs as much as it saves

// Scores in memory.
struct StoredScores {
  const float* scores;

  const float* operator()(std::size_t begin, std::size_t /*end*/, float* /*scratch*/) const { return scores + begin; }
};

// Scores of one parameter set, computed into `scratch`.
struct ComputedScores {
  const Kernels& kernels;
  const BlockFeatures& features;
  const scoring::PreparedScore& prepared;
  std::size_t set;

  const float* operator()(std::size_t begin, std::size_t end, float* scratch) const {
    kernels.score(features, prepared, set, begin, end, scratch);
    return scratch;
  }
};

struct Request {
  const Kernels& kernels;
  std::size_t count;
  std::size_t k;
  const std::uint8_t* eligible;
  std::size_t parts;
};

// A score that about as many lie below as are wanted and a few more; inf when the sample does not tell.
template <class Scores>
float sampled_limit(const Request& request, const Scores& scores) {
  std::vector<float> sample;
  sample.reserve(kStretch * kStretches);
  std::array<float, kStretch> scratch{};
  for (std::size_t s = 0; s < kStretches; ++s) {
    const std::size_t begin = (request.count - kStretch) / (kStretches - 1) * s;
    const float* stretch = scores(begin, begin + kStretch, scratch.data());
    for (std::size_t i = 0; i < kStretch; ++i) {
      const bool counts = request.eligible == nullptr || request.eligible[begin + i] != 0;
      if (counts && !std::isnan(stretch[i])) sample.push_back(stretch[i]);
    }
  }
  const double share = static_cast<double>(kStretch * kStretches) / static_cast<double>(request.count);
  const double below = static_cast<double>(request.k) * share;
  const auto rank = static_cast<std::size_t>(below + 4 * std::sqrt(below) + 8);
  if (rank >= sample.size()) return std::numeric_limits<float>::infinity();
  const auto at = sample.begin() + static_cast<std::ptrdiff_t>(rank);
  std::ranges::nth_element(sample, at);
  return *at;
}

template <class Scores>
void offer_all(const Request& request, const Scores& scores, std::vector<Lowest>& lowest) {
  scoring::for_each_part(request.count, request.parts, [&](std::size_t part, std::size_t begin, std::size_t end) {
    alignas(64) std::array<float, kTile> scratch;  // NOLINT(*-member-init): written before it is read
    scoring::for_each_tile(begin, end, [&](std::size_t from, std::size_t to) {
      const std::uint8_t* eligible = request.eligible == nullptr ? nullptr : request.eligible + from;
      lowest[part].offer({scores(from, to, scratch.data()), to - from}, from, eligible);
    });
  });
}

template <class Scores>
void select(const Request& request, const Scores& scores, std::uint32_t* out) {
  if (request.k == 0) return;
  std::vector<Lowest> lowest;
  lowest.reserve(request.parts);
  for (std::size_t part = 0; part < request.parts; ++part) lowest.emplace_back(request.kernels, request.k);
  if (request.count >= kSmall) {
    const float limit = sampled_limit(request, scores);
    if (limit < std::numeric_limits<float>::infinity()) {
      for (Lowest& part : lowest) part.limit_to(limit);
    }
  }
  const auto found = [&] {
    std::size_t candidates = 0;
    for (const Lowest& part : lowest) candidates += part.candidates().size();
    return candidates;
  };
  offer_all(request, scores, lowest);
  if (found() < request.k) {
    for (Lowest& part : lowest) part.reset();
    offer_all(request, scores, lowest);
  }
  std::vector<Candidate> candidates;
  candidates.reserve(found());
  for (const Lowest& part : lowest)
    candidates.insert(candidates.end(), part.candidates().begin(), part.candidates().end());
  scoring::keep_lowest(candidates, request.k);
  std::ranges::sort(candidates);
  std::ranges::transform(candidates, out, scoring::index_of);
}

}  // namespace

void require_selectable(std::size_t count, std::size_t k, const std::uint8_t* eligible) {
  if (count > kMostBlocks) {
    throw ConfigError(std::to_string(count) + " scores; at most " + std::to_string(kMostBlocks) + " can be compared");
  }
  const auto can = eligible == nullptr
                       ? count
                       : count - static_cast<std::size_t>(std::count(eligible, eligible + count, std::uint8_t{0}));
  if (k > can) {
    throw ConfigError("k is " + std::to_string(k) + "; " + std::to_string(can) + " blocks are eligible");
  }
}

void select_k(const float* scores, std::size_t count, std::size_t k, const std::uint8_t* eligible, std::uint32_t* out,
              const ScoringOptions& options) {
  const Kernels& kernels = scoring::kernels_for(options.instructions);
  scoring::require_threads(options.threads);
  require_selectable(count, k, eligible);
  select({kernels, count, k, eligible, scoring::parts_of(count, options.threads)}, StoredScores{scores}, out);
}

void score_select(const BlockFeatures& features, const ScoreParams& params, Time now, std::size_t k,
                  const std::uint8_t* eligible, std::uint32_t* out, const ScoringOptions& options) {
  const Kernels& kernels = scoring::kernels_for(options.instructions);
  const scoring::PreparedParams prepared = scoring::prepare(params, now);
  scoring::require_threads(options.threads);
  require_columns(features, prepared.view);
  require_selectable(features.count, k, eligible);
  if (options.checked) require_values(features, prepared.view, kernels);
  const Request request{kernels, features.count, k, eligible, scoring::parts_of(features.count, options.threads)};
  for (std::size_t set = 0; set < params.sets; ++set) {
    select(request, ComputedScores{kernels, features, prepared.view, set}, out + set * k);
  }
}

}  // namespace kvopt
