// Gauges (means over time) and counts in equal buckets from second 0; the bucket doubles when they run out, so memory
// is bounded by `points`.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

namespace kvopt::simulator {

class TimeSeries {
 public:
  TimeSeries(std::size_t gauges, std::size_t counts, std::size_t points)
      : gauges_(gauges), columns_(gauges + counts), points_(points), end_(static_cast<double>(points)) {}

  // The gauges had these values from `begin` to `end` (seconds); intervals may come in any order.
  void hold(double begin, double end, std::span<const double> values) {
    if (end <= begin) return;
    reach(end);
    const auto first = static_cast<std::size_t>(begin / width_);
    const auto last = static_cast<std::size_t>(end / width_);
    if (first == last) {
      put(first, end - begin, values);
      return;
    }
    put(first, static_cast<double>(first + 1) * width_ - begin, values);
    for (std::size_t index = first + 1; index < last; ++index) put(index, width_, values);
    put(last, end - static_cast<double>(last) * width_, values);
  }

  // Adds to the count of this number at a time in seconds.
  void count(double time, std::size_t number, double amount) {
    reach(time);
    const auto index = static_cast<std::size_t>(time / width_);
    grow(index);
    sums_[index * columns_ + gauges_ + number] += amount;
  }

  double width() const { return width_; }
  std::size_t columns() const { return columns_; }
  const std::vector<double>& sums() const { return sums_; }  // a row of all columns a bucket
  const std::vector<double>& covered() const { return covered_; }

 private:
  void put(std::size_t index, double seconds, std::span<const double> values) {
    if (seconds <= 0) return;
    grow(index);
    double* row = sums_.data() + index * columns_;
    for (std::size_t column = 0; column < values.size(); ++column) row[column] += values[column] * seconds;
    covered_[index] += seconds;
  }

  void grow(std::size_t index) {
    if (index < covered_.size()) return;
    covered_.resize(index + 1);
    sums_.resize((index + 1) * columns_);
  }

  void reach(double time) {
    while (time >= end_) {
      const std::size_t buckets = (covered_.size() + 1) / 2;
      covered_.resize(2 * buckets);
      sums_.resize(2 * buckets * columns_);
      for (std::size_t bucket = 0; bucket < buckets; ++bucket) {
        covered_[bucket] = covered_[2 * bucket] + covered_[2 * bucket + 1];
        for (std::size_t column = 0; column < columns_; ++column) {
          const double* pair = sums_.data() + 2 * bucket * columns_ + column;
          sums_[bucket * columns_ + column] = pair[0] + pair[columns_];
        }
      }
      covered_.resize(buckets);
      sums_.resize(buckets * columns_);
      width_ *= 2;
      end_ = static_cast<double>(points_) * width_;
    }
  }

  std::size_t gauges_;
  std::size_t columns_;
  std::size_t points_;
  double width_ = 1.0;
  double end_;
  std::vector<double> sums_;
  std::vector<double> covered_;  // seconds in which the gauges of a bucket had a value
};

}  // namespace kvopt::simulator
