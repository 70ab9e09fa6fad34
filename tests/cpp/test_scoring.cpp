// The retention index of the scores is the reuse model's own, and parameters are checked before anything is written.
#include "kvopt/scoring.hpp"

#include <cmath>
#include <cstdint>
#include <random>
#include <vector>

#include "check.hpp"
#include "core/reuse_model.hpp"
#include "kvopt/error.hpp"

namespace {

using kvopt::ReuseModel;

// Some returns at ages of all bins, so that the class has a curve of its own.
std::uint32_t learn(ReuseModel& model, std::mt19937& random) {
  const std::uint32_t cls = model.class_of({1, 2, 3, 4});
  std::lognormal_distribution<float> ages(1, 2);
  for (int i = 0; i < 5000; ++i) {
    const ReuseModel::Waiting event = model.open(cls, 1);
    model.close(event, ages(random), 1, random() % 3 != 0);
    model.end_request();
  }
  return cls;
}

void index_of_the_reuse_model() {
  static_assert(kvopt::kAgeBins == ReuseModel::kBins);
  std::mt19937 random(3);
  ReuseModel model({});
  const std::uint32_t cls = learn(model, random);
  constexpr std::size_t kBlocks = 5000;
  std::vector<float> last_use(kBlocks);
  std::vector<float> cost(kBlocks, 2);
  std::vector<float> pace(kBlocks, 0.5F);
  std::vector<std::uint8_t> classes(kBlocks, 0);
  const std::array<float, ReuseModel::kBins> indexes = model.indexes(cls);
  for (float& t : last_use) t = 8192 - std::exp2(std::uniform_real_distribution<float>(-6, 13)(random));
  std::vector<float> scores(kBlocks);
  kvopt::score(
      {.count = kBlocks, .last_use = last_use.data(), .cost = cost.data(), .pace = pace.data(), .cls = classes.data()},
      {.score = kvopt::Score::kRetentionIndex, .width = kvopt::kAgeBins, .values = indexes.data(), .classes = 1}, 8192,
      scores.data());
  bool rises = false;
  for (std::size_t i = 0; i < kBlocks; ++i) {
    const float age = static_cast<float>(8192 - static_cast<double>(last_use[i])) * 0.5F;
    const float expected = 2 * 0.5F * model.index(cls, age);
    CHECK(std::abs(scores[i] - expected) <= 1e-5F * expected);
    rises = rises || expected != model.index(cls, 0);
  }
  CHECK(rises);
}

void nothing_is_written_for_parameters_that_do_not_fit() {
  const std::vector<float> last_use(3, 1);
  std::vector<float> out(3, 7);
  const float bad = -1;
  const kvopt::BlockFeatures features{.count = 3, .last_use = last_use.data()};
  CHECK_THROWS(kvopt::ConfigError, kvopt::score(features, {.width = 1, .values = &bad}, 2, out.data()));
  CHECK_THROWS(kvopt::ConfigError,
               kvopt::score(features, {.score = kvopt::Score::kCostPerAge, .width = 1, .values = &bad}, 2, out.data()));
  CHECK_THROWS(kvopt::ConfigError, kvopt::score(features, {}, 2, out.data(), {.threads = 0}));
  CHECK_THROWS(kvopt::ConfigError, kvopt::score(features, {}, 2, out.data(), {.instructions = "mmx"}));
  CHECK_EQUAL(out, std::vector<float>(3, 7));
  std::vector<std::uint32_t> chosen(4);
  CHECK_THROWS(kvopt::ConfigError, kvopt::select_k(last_use.data(), 3, 4, nullptr, chosen.data()));
}

void every_set_of_instructions_gives_the_same() {
  std::vector<float> last_use(10'001);
  std::mt19937 random(1);
  for (float& t : last_use) t = static_cast<float>(random() % 100'000) / 64;
  const kvopt::BlockFeatures features{.count = last_use.size(), .last_use = last_use.data()};
  std::vector<std::uint32_t> first(500);
  kvopt::score_select(features, {}, 2000, first.size(), nullptr, first.data());
  for (const std::string_view name : kvopt::scoring_instructions()) {
    std::vector<std::uint32_t> chosen(first.size());
    kvopt::score_select(features, {}, 2000, chosen.size(), nullptr, chosen.data(),
                        {.threads = 2, .instructions = name});
    CHECK_EQUAL(chosen, first);
  }
}

}  // namespace

int main() {
  return kvopt::test::run_all(
      {{"index of the reuse model", index_of_the_reuse_model},
       {"nothing is written for parameters that do not fit", nothing_is_written_for_parameters_that_do_not_fit},
       {"every set of instructions gives the same", every_set_of_instructions_gives_the_same}});
}
