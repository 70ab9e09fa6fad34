// Samples of seconds: every value, or a sketch of fixed size. kvopt.metrics turns them into figures.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace kvopt::simulator {

class Sample {
 public:
  virtual ~Sample() = default;
  virtual void add(double value, std::int64_t weight) = 0;
};

class ExactSample final : public Sample {
 public:
  void add(double value, std::int64_t weight) override {
    values_.insert(values_.end(), static_cast<std::size_t>(weight), value);
  }
  const std::vector<double>& values() const { return values_; }

 private:
  std::vector<double> values_;
};

// Counts in bins whose edges grow by a constant factor; a first bin for what is not above the lowest value.
class QuantileSketch final : public Sample {
 public:
  QuantileSketch(double lowest, double log_growth, std::size_t bins)
      : lowest_(lowest), log_growth_(log_growth), counts_(bins) {}

  void add(double value, std::int64_t weight) override {
    std::size_t index = 0;
    if (value > lowest_) {
      const auto bin = static_cast<std::size_t>(std::ceil(std::log(value / lowest_) / log_growth_));
      index = std::min(bin, counts_.size() - 1);
    }
    counts_[index] += weight;
    count_ += weight;
    sum_ += value * static_cast<double>(weight);
    max_ = std::max(max_, value);
  }

  const std::vector<std::int64_t>& counts() const { return counts_; }
  std::int64_t count() const { return count_; }
  double sum() const { return sum_; }
  double max() const { return max_; }

 private:
  double lowest_;
  double log_growth_;
  std::vector<std::int64_t> counts_;
  std::int64_t count_ = 0;
  double sum_ = 0;
  double max_ = 0;
};

}  // namespace kvopt::simulator
