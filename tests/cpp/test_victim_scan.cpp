// VictimScan against a look at every leaf: which victims it must name, and how near the least the others must be.
#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <memory>
#include <random>
#include <utility>
#include <vector>

#include "check.hpp"
#include "core/victim_scan.hpp"

namespace {

using kvopt::HighestKey;
using kvopt::ReuseModel;
using kvopt::RunId;
using kvopt::RunTable;
using kvopt::Time;
using kvopt::VictimScan;

// Leaves of random classes, ages, scales and weights, and what is known of them.
class Leaves {
 public:
  Leaves(std::uint32_t most, std::uint64_t seed)
      : random_(seed), runs_(std::make_shared<RunTable>(most)), model_({}), known_(most), scan_(*runs_, model_) {
    for (std::size_t i = 0; i < 3000; ++i) learn();
    for (RunId r = 0; r < most; ++r) absent_.push_back(r);
  }

  VictimScan& scan() { return scan_; }
  std::size_t size() const { return present_.size(); }
  double draw() { return std::uniform_real_distribution<>()(random_); }
  std::size_t below(std::size_t n) { return random_() % n; }
  RunId any() { return present_[below(present_.size())]; }

  // A release of a random class comes back, or does not.
  void learn() {
    const std::uint32_t cls = any_class();
    const ReuseModel::Waiting event = model_.open(cls, 1);
    model_.close(event, static_cast<float>(std::exp(6 * draw()) - 1), 1, draw() < 0.2 + 0.1 * (cls % 7));
    model_.end_request();
  }

  void add(Time released) {
    const std::size_t i = below(absent_.size());
    const RunId r = std::exchange(absent_[i], absent_.back());
    absent_.pop_back();
    const auto pace = static_cast<float>(std::exp(4 * draw() - 4));
    known_[r] = {released,
                 pace,
                 pace * static_cast<float>(1 + 9 * draw()),
                 1,
                 any_class(),
                 r,
                 static_cast<std::uint32_t>(static_cast<std::int64_t>(released * 1000))};
    scan_.add(known_[r]);
    present_.push_back(r);
  }

  void remove(RunId r) {
    scan_.remove(r);
    std::erase(present_, r);
    absent_.push_back(r);
  }

  void change(RunId r) {
    known_[r].cls = any_class();
    scan_.set_class(r, known_[r].cls);
    known_[r].weight *= static_cast<float>(0.5 + draw());
    scan_.set_weight(r, known_[r].weight, 1);
  }

  double value(RunId r, Time now) const { return scan_.value(known_[r], now); }
  Time released(RunId r) const { return known_[r].released; }

  // The share of leaves that are worth less.
  double rank(RunId r, Time now) const {
    const double mine = value(r, now);
    const auto less = std::ranges::count_if(present_, [&](RunId other) { return value(other, now) < mine; });
    return static_cast<double>(less) / static_cast<double>(present_.size());
  }
  double least(Time now) const {
    double found = value(present_.front(), now);
    for (const RunId r : present_) found = std::min(found, value(r, now));
    return found;
  }

 private:
  std::uint32_t any_class() {
    std::array<std::uint8_t, ReuseModel::kLevels> features{};
    for (std::uint8_t& feature : features) feature = static_cast<std::uint8_t>(below(3));
    return model_.class_of(features);
  }

  std::mt19937_64 random_;
  std::shared_ptr<RunTable> runs_;
  ReuseModel model_;
  std::vector<VictimScan::Leaf> known_;
  VictimScan scan_;
  std::vector<RunId> present_;
  std::vector<RunId> absent_;
};

// However time and leaves change, few leaves are all looked at.
void the_least_of_few() {
  for (const std::uint64_t seed : {1, 2, 3}) {
    Leaves leaves(VictimScan::kScanAlways, seed);
    Time now = 1000;
    for (std::size_t i = 0; i < 3000; ++i) {
      now += leaves.draw();
      leaves.learn();
      if (leaves.size() < VictimScan::kScanAlways) leaves.add(now - (leaves.draw() < 0.5 ? 0 : 300 * leaves.draw()));
      if (leaves.draw() < 0.2) leaves.change(leaves.any());
      const RunId victim = leaves.scan().least(now);
      CHECK_EQUAL(leaves.value(victim, now), leaves.least(now));
      if (leaves.draw() < 0.4) leaves.remove(victim);
      if (leaves.size() > 0 && leaves.draw() < 0.2) leaves.remove(leaves.any());
    }
  }
}

// While time and what is learned stand still, so that all were looked at at one time, the victims come in the order of
// their values, of any number of leaves.
void the_least_of_many_at_one_time() {
  for (const std::uint64_t seed : {1, 2}) {
    Leaves leaves(10'000, seed);
    const Time now = 1000;
    while (leaves.size() < 10'000) leaves.add(now - 500 * leaves.draw());
    for (std::size_t i = 0; i < 10'000; ++i) leaves.scan().least(now);  // each has had its turn
    for (std::size_t i = 0; i < 3000; ++i) {
      if (i % 3 == 0) leaves.remove(leaves.any());
      if (i % 5 == 0) leaves.change(leaves.any());
      const RunId victim = leaves.scan().least(now);
      CHECK_EQUAL(leaves.value(victim, now), leaves.least(now));
      leaves.remove(victim);
    }
  }
}

// The oldest first, to a millisecond, at any time as soon as each has had its turn; also years after the clock's zero.
void the_oldest_of_many_by_time() {
  Leaves leaves(5000, 1);
  Time now = 1.7e9;
  while (leaves.size() < 5000) leaves.add(now - 500 * leaves.draw());
  leaves.scan().order_by_time(true);
  for (std::size_t i = 0; i < 5000; ++i) leaves.scan().least(now);
  Time before = 0;
  for (std::size_t i = 0; i < 4000; ++i) {
    now += 0.05;
    const RunId victim = leaves.scan().least(now);
    CHECK(leaves.released(victim) >= before - 1e-3);
    before = leaves.released(victim);
    leaves.remove(victim);
    leaves.add(now);
  }
}

// Many more leaves than one choice looks at, while time, leaves and what is learned change: a victim's value is among
// the lowest twentieth of all, on average among the lowest hundredth.
void near_the_least_of_many() {
  for (const std::uint64_t seed : {1, 2, 3}) {
    Leaves leaves(5000, seed);
    Time now = 1000;
    while (leaves.size() < 5000) leaves.add(now - 500 * leaves.draw());
    double sum = 0;
    std::size_t measured = 0;
    for (std::size_t i = 0; i < 20'000; ++i) {
      now += 0.2 * leaves.draw();
      leaves.learn();
      const RunId victim = leaves.scan().least(now);
      if (i % 20 == 0 && i > 2000) {
        const double rank = leaves.rank(victim, now);
        CHECK(rank <= 0.05);
        sum += rank;
        ++measured;
      }
      leaves.remove(victim);
      if (i % 4 == 0) leaves.remove(leaves.any());
      while (leaves.size() < 5000) leaves.add(leaves.draw() < 0.9 ? now : now - 100 * leaves.draw());
    }
    CHECK(sum / static_cast<double>(measured) <= 0.01);
  }
}

void the_highest_key() {
  std::mt19937_64 random(1);
  constexpr std::size_t kKeys = 1000;
  HighestKey keys(kKeys);
  std::vector<std::uint32_t> known(kKeys, 0);
  for (std::size_t i = 0; i < 20'000; ++i) {
    const std::size_t place = random() % kKeys;
    const auto key = static_cast<std::uint32_t>(random() % 500);
    if (random() % 3 == 0) {
      keys.raise(place, key);
      known[place] = std::max(known[place], key);
    } else {
      keys.set(place, key);
      known[place] = key;
    }
    const std::size_t found = keys.highest(kKeys, [](std::size_t a, std::size_t b) { return a > b; });
    CHECK_EQUAL(known[found], std::ranges::max(known));
    CHECK_EQUAL(keys[found], known[found]);
    const auto row_end = known.begin() + static_cast<std::ptrdiff_t>(std::min(kKeys, (found / 16 + 1) * 16));
    CHECK(std::find(known.begin() + static_cast<std::ptrdiff_t>(found) + 1, row_end, known[found]) == row_end);
  }
  keys.clear(kKeys);
  keys.raise(700, 1);
  CHECK_EQUAL(keys.highest(kKeys, [](std::size_t, std::size_t) { return false; }), std::size_t{700});
}

}  // namespace

int main() {
  return kvopt::test::run_all({{"the least of few", the_least_of_few},
                               {"the least of many at one time", the_least_of_many_at_one_time},
                               {"the oldest of many by time", the_oldest_of_many_by_time},
                               {"near the least of many", near_the_least_of_many},
                               {"the highest key", the_highest_key}});
}
