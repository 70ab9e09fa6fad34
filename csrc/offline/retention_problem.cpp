#include "offline/retention_problem.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <string>

#include "kvopt/error.hpp"
#include "offline/path_marks.hpp"

namespace kvopt {

namespace {

// Far above what summing a trace in doubles loses.
constexpr double kRounding = 1e-9;

void check(const BoundOptions& options) {
  if (options.capacity < 1) throw ConfigError("capacity is 0 blocks; it must be at least 1");
  if (options.block_tokens < 1) throw ConfigError("block_tokens is 0; it must be at least 1");
  if (!std::isfinite(options.p_star) || options.p_star <= 0) {
    throw ConfigError("p_star is " + std::to_string(options.p_star) + " tokens; it must be finite and above 0");
  }
}

}  // namespace

RetentionProblem::RetentionProblem(const PrefixTrace& trace, const BoundOptions& options)
    : metric_(options.metric), skipped_(trace.requests()) {
  check(options);
  const auto worth = [&options](std::uint32_t blocks) {
    if (options.metric == BoundMetric::kBlockHit) return static_cast<double>(blocks);
    const double tokens = static_cast<double>(blocks) * options.block_tokens;
    return tokens + tokens * tokens / (2 * options.p_star);
  };
  std::vector<std::uint32_t> number(trace.requests());
  PathMarks marks(trace);
  for (std::size_t r = 0; r < trace.requests(); ++r) {
    const std::uint32_t length = trace.length(r);
    if (length >= options.capacity) {
      skipped_[r] = 1;
      continue;
    }
    number[r] = static_cast<std::uint32_t>(places_.size());
    std::uint32_t depth = 0;
    marks.visit(r, [&](std::uint32_t user, std::uint32_t count) {
      if (user != PathMarks::kUnmarked) {
        // With bypass a block takes a place from its use on, else the request that uses it pays for all its own.
        const std::uint32_t kept_from = number[user] + (options.bypass ? 0 : 1);
        runs_.push_back({kept_from, count, worth(depth + count) - worth(depth)});
      }
      depth += count;
    });
    total_ += worth(length);
    places_.push_back(options.bypass ? options.capacity : options.capacity - length);
    first_run_.push_back(runs_.size());
  }
  paid_.resize(places_.size() + 1);
}

double RetentionProblem::dual(std::span<const double> price, std::span<double> spare) {
  std::partial_sum(price.begin(), price.end(), paid_.begin() + 1);
  double value = std::transform_reduce(price.begin(), price.end(), places_.begin(), 0.0);
  std::ranges::fill(spare, 0.0);
  for (std::size_t q = 0; q < places_.size(); ++q) {
    double gain = 0;
    double best = 0;
    std::size_t end = first_run_[q];
    for (std::size_t i = first_run_[q]; i < first_run_[q + 1]; ++i) {
      const Run& run = runs_[i];
      gain += run.value - run.count * (paid_[q] - paid_[run.kept_from]);
      if (gain >= best) {
        best = gain;
        end = i + 1;
      }
    }
    value += best;
    for (std::size_t i = first_run_[q]; i < end; ++i) {
      spare[runs_[i].kept_from] += runs_[i].count;
      spare[q] -= runs_[i].count;
    }
  }
  double kept = 0;
  for (std::size_t q = 0; q < places_.size(); ++q) {
    kept += spare[q];
    spare[q] = places_[q] - kept;
  }
  return value;
}

// Pools adjacent runs of each path until value per volume falls with depth; a price then cuts every path at the first
// segment that is not worth it.
template <class Each>
void RetentionProblem::for_each_segment(Each each) const {
  std::vector<Segment> path;
  for (std::size_t q = 0; q < places_.size(); ++q) {
    path.clear();
    for (std::size_t i = first_run_[q]; i < first_run_[q + 1]; ++i) {
      Segment segment{runs_[i].value, static_cast<double>(q - runs_[i].kept_from) * runs_[i].count};
      while (!path.empty() && path.back().value * segment.volume <= segment.value * path.back().volume) {
        segment.value += path.back().value;
        segment.volume += path.back().volume;
        path.pop_back();
      }
      path.push_back(segment);
    }
    std::ranges::for_each(path, each);
  }
}

// A fractional knapsack: the price is the density of the segment that fills the last place.
double RetentionProblem::best_uniform_price() const {
  std::vector<Segment> segments;
  for_each_segment([&segments](const Segment& s) {
    if (s.volume > 0) segments.push_back(s);
  });
  std::ranges::sort(segments,
                    [](const Segment& a, const Segment& b) { return a.value * b.volume > b.value * a.volume; });
  double room = std::reduce(places_.begin(), places_.end());
  for (const Segment& s : segments) {
    room -= s.volume;
    if (room < 0) return s.value / s.volume;
  }
  return 0;
}

double RetentionProblem::mean_density() const {
  Segment sum{0, 0};
  for_each_segment([&sum](const Segment& s) {
    sum.value += s.value;
    sum.volume += s.volume;
  });
  return sum.volume > 0 ? sum.value / sum.volume : 0;
}

double RetentionProblem::certified(double dual) const {
  const double value = dual * (1 + kRounding);
  return metric_ == BoundMetric::kBlockHit ? std::floor(value) : value;
}

}  // namespace kvopt
