// The GPU's selection and its sources of scores, run on the host: against a stable sort, with samples that serve and
// samples that mislead.
#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <random>
#include <vector>

// First: the words of CUDA.
#include "cuda_on_host.hpp"

#include "check.hpp"
#include "select_lowest.cuh"
#include "sources.cuh"

namespace kvopt {

namespace {

using cuda::Candidate;

std::vector<std::int64_t> expected(const std::vector<float>& scores, std::size_t k,
                                   const std::vector<std::uint8_t>& eligible) {
  std::vector<std::int64_t> order;
  for (std::size_t i = 0; i < scores.size(); ++i) {
    if (eligible.empty() || eligible[i] != 0) order.push_back(static_cast<std::int64_t>(i));
  }
  std::ranges::stable_sort(order, {},
                           [&](std::int64_t i) { return scoring::order_key(scores[static_cast<std::size_t>(i)]); });
  order.resize(k, -1);
  return order;
}

struct Selected {
  std::vector<std::int64_t> blocks;
  bool searched;
};

template <class Source>
Selected select(const Source& source, std::size_t count, std::size_t k, const std::vector<std::uint8_t>& eligible) {
  const std::size_t capacity = cuda::selection_capacity(count, k);
  std::vector<Candidate> candidates(capacity);
  std::vector<Candidate> sorted(capacity);
  cuda::Selection selection;
  std::vector<std::int64_t> out(k, -2);
  test::HostQueue queue;
  cuda::select_lowest(queue, source, 0, count, k, eligible.empty() ? nullptr : eligible.data(), out.data(),
                      {&selection, candidates.data(), sorted.data(), capacity});
  return {out, selection.searching != 0};
}

void check_selection(const std::vector<float>& scores, std::size_t k, const std::vector<std::uint8_t>& eligible,
                     bool searched) {
  const cuda::StoredSource source{scores.data(), cuda::is_aligned(scores.data())};
  const Selected selected = select(source, scores.size(), k, eligible);
  CHECK(selected.blocks == expected(scores, k, eligible));
  CHECK(selected.searched == searched);
}

std::vector<float> random_scores(std::size_t count, std::mt19937& random) {
  std::normal_distribution<float> normal(0, 10);
  std::vector<float> scores(count);
  for (float& score : scores) score = normal(random);
  return scores;
}

void samples_serve() {
  std::mt19937 random(1);
  const std::vector<float> scores = random_scores(300'001, random);
  for (const std::size_t k : {std::size_t{1}, std::size_t{17}, std::size_t{20'000}})
    check_selection(scores, k, {}, false);
}

void small_counts_need_no_sample() {
  std::mt19937 random(2);
  for (const std::size_t count : {std::size_t{1}, std::size_t{3}, std::size_t{4}, std::size_t{1000}}) {
    const std::vector<float> scores = random_scores(count, random);
    check_selection(scores, count, {}, false);
    check_selection(scores, (count + 1) / 2, {}, false);
  }
}

void samples_mislead() {
  // All equal: the index tells the candidates apart.
  std::vector<float> scores(400'000, 1.5F);
  check_selection(scores, 1000, {}, false);
  // The sample sees high scores only: more is let through than there is room for.
  std::ranges::fill(scores, 1.0F);
  for (std::size_t s = 0; s < cuda::kStretches; ++s)
    std::fill_n(scores.begin() + static_cast<std::ptrdiff_t>(s * 48), 4, 2.0F);
  check_selection(scores, 1000, {}, true);
  // All low scores between the places of the sample: too few are let through.
  std::mt19937 random(3);
  scores = random_scores(400'003, random);
  const std::size_t distance = (scores.size() / 4 - 1) / (cuda::kStretches - 1) * 4;
  for (std::size_t i = 0; i < scores.size(); ++i) {
    if (i % distance >= 4) scores[i] = i % 5 == 0 ? 1e30F : 1e20F;
  }
  check_selection(scores, 60'000, {}, true);
}

void special_scores_and_marks() {
  std::mt19937 random(4);
  std::vector<float> scores = random_scores(250'000, random);
  std::vector<std::uint8_t> eligible(scores.size());
  for (std::size_t i = 0; i < scores.size(); ++i) {
    if (i % 7 == 0) scores[i] = std::numeric_limits<float>::quiet_NaN();
    if (i % 11 == 0) scores[i] = i % 2 == 0 ? 0.0F : -0.0F;
    if (i % 13 == 0) scores[i] = -std::numeric_limits<float>::infinity();
    eligible[i] = static_cast<std::uint8_t>(i % 3 == 0 ? 0 : i % 200 + 1);
  }
  check_selection(scores, 30'000, eligible, false);
  // Fewer than k are eligible.
  std::ranges::fill(eligible, std::uint8_t{0});
  for (std::size_t i = 100; i < 200; ++i) eligible[i * 1000] = 1;
  check_selection(scores, 500, eligible, false);
}

void computed_scores_equal_the_cpu() {
  std::mt19937 random(5);
  const std::size_t count = 200'002;
  std::vector<float> last_use = random_scores(count, random);
  std::vector<float> cost = random_scores(count, random);
  for (float& c : cost) c = std::abs(c);
  BlockFeatures features;
  features.count = count;
  features.last_use = last_use.data();
  features.cost = cost.data();
  const float offset = 0.5F;
  ScoreParams params;
  params.score = Score::kCostPerAge;
  params.width = 1;
  params.values = &offset;
  std::vector<float> scores(count);
  score(features, params, 50, scores.data());
  const scoring::PreparedParams prepared = scoring::prepare(params, 50);
  for (const bool aligned : {true, false}) {
    const cuda::FunctorSource<scoring::CostPerAge> source{features, prepared.view, aligned};
    const Selected selected = select(source, count, 5000, {});
    CHECK(selected.blocks == expected(scores, 5000, {}));
  }
}

}  // namespace

}  // namespace kvopt

int main() {
  using namespace kvopt;
  return test::run_all({{"samples serve", samples_serve},
                        {"small counts need no sample", small_counts_need_no_sample},
                        {"samples mislead", samples_mislead},
                        {"special scores and marks", special_scores_and_marks},
                        {"computed scores equal the CPU's", computed_scores_equal_the_cpu}});
}
