// The k lowest, of scores in memory or of scores that are computed tile by tile and forgotten.
//
// A sample gives a limit just above the k-th lowest score; one pass compares everything with it and keeps what is not
// above (lowest.hpp); what is left is sorted (order.hpp). When the sample misled, which is rare, the pass is made again
// without.
#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "kvopt/error.hpp"
#include "scoring/checks.hpp"
#include "scoring/kernels.hpp"
#include "scoring/lowest.hpp"
#include "scoring/order.hpp"
#include "scoring/parallel.hpp"

namespace kvopt {

namespace {

using scoring::Candidate;
using scoring::Kernels;
using scoring::kTile;
using scoring::Lowest;

constexpr std::size_t kStretch = 16;  // blocks side by side in the sample: a cache line of scores
constexpr std::size_t kStretches = 1024;
constexpr std::size_t kOneIn = 16;    // blocks of which one is in the sample, at least
constexpr std::size_t kSmall = 2048;  // blocks: below, a sample costs as much as it saves

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
    kernels.score(features, prepared, set, begin, end, scratch, false);
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

// A score that about as many lie below as are wanted and a few more; inf when the sample does not tell. How many more
// follows from how the lowest scores of the sample are spread over its stretches: blocks side by side often have
// scores alike.
template <class Scores>
float sampled_limit(const Request& request, const Scores& scores) {
  const std::size_t stretches = std::min(kStretches, request.count / (kOneIn * kStretch));
  std::vector<float> sample(stretches * kStretch);
  for (std::size_t s = 0; s < stretches; ++s) {
    const std::size_t begin = (request.count - kStretch) / (stretches - 1) * s;
    float* to = sample.data() + s * kStretch;
    const float* from = scores(begin, begin + kStretch, to);
    for (std::size_t i = 0; i < kStretch; ++i) {
      const bool counts = request.eligible == nullptr || request.eligible[begin + i] != 0;
      to[i] = counts && !std::isnan(from[i]) ? from[i] : std::numeric_limits<float>::infinity();
    }
  }
  const double wanted =
      static_cast<double>(request.k) * static_cast<double>(sample.size()) / static_cast<double>(request.count);
  std::vector<float> order = sample;
  const auto lowest = [&](double rank) {
    const auto at = static_cast<std::size_t>(rank);
    if (at >= order.size()) return std::numeric_limits<float>::infinity();
    std::ranges::nth_element(order, order.begin() + static_cast<std::ptrdiff_t>(at));
    return order[at];
  };
  const float middle = lowest(wanted);
  double sum = 0;
  double squares = 0;
  for (std::size_t s = 0; s < stretches; ++s) {
    const auto stretch = std::span(sample).subspan(s * kStretch, kStretch);
    const auto below = static_cast<double>(std::ranges::count_if(stretch, [&](float x) { return x <= middle; }));
    sum += below;
    squares += below * below;
  }
  const double variance = std::max(squares - sum * sum / static_cast<double>(stretches), wanted);
  return lowest(wanted + 3 * std::sqrt(variance) + 4);
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

// Memory for candidates that a thread keeps from call to call: to find a page anew takes as long as to sort what it
// holds.
class Room {
 public:
  std::span<Candidate> of(std::size_t count) {
    if (count > size_) {
      memory_ = std::make_unique_for_overwrite<Candidate[]>(count);  // NOLINT(*-avoid-c-arrays): not to be zeroed
      size_ = count;
    }
    return {memory_.get(), count};
  }
  // What few calls need is given back.
  void trim() {
    if (size_ <= kMostKept) return;
    memory_.reset();
    size_ = 0;
  }

 private:
  static constexpr std::size_t kMostKept = 1U << 19;  // candidates: 4 MiB

  std::unique_ptr<Candidate[]> memory_;  // NOLINT(*-avoid-c-arrays)
  std::size_t size_ = 0;
};

template <class Scores>
void select(const Request& request, const Scores& scores, std::uint32_t* out) {
  if (request.k == 0) return;
  thread_local Room collected;
  thread_local Room ordered;
  const std::size_t room = Lowest::room_for(request.k, request.count);
  const std::span<Candidate> rooms = collected.of(request.parts * room);
  std::vector<Lowest> lowest;
  lowest.reserve(request.parts);
  for (std::size_t part = 0; part < request.parts; ++part) {
    lowest.emplace_back(request.kernels, request.k, rooms.subspan(part * room, room));
  }
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
  auto end = rooms.begin();
  for (const Lowest& part : lowest) end = std::ranges::copy(part.candidates(), end).out;
  const std::span<Candidate> candidates(rooms.begin(), end);
  const auto order = scoring::order_candidates(candidates, ordered.of(candidates.size()));
  std::ranges::transform(order.first(request.k), out,
                         [](Candidate candidate) { return static_cast<std::uint32_t>(candidate); });
  collected.trim();
  ordered.trim();
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
