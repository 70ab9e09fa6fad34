// Prices for the retention problem: the best single one, then one a window of requests by subgradient steps.
//
// Reference: Held, Wolfe and Crowder, "Validation of subgradient optimization", Mathematical Programming 1974, for the
// steps; Kingma and Ba, "Adam", ICLR 2015, for their direction: the subgradient's moving average, each window's scaled
// by the root of its mean square, since few windows carry most of the price. The step shrinks whenever the bound has
// stopped moving, and the search ends when the step has become small beside the prices.
// Structure: retention_problem.hpp. Complexity: O(runs + requests) a step, usually 200 to 600 of them; 24 bytes a
// request, 40 a window.
#include "kvopt/upper_bound.hpp"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <string>
#include <utility>

#include "kvopt/error.hpp"
#include "offline/retention_problem.hpp"

namespace kvopt {

namespace {

constexpr double kFirstStep = 30;        // times the best single price: prices gather where places are short
constexpr double kLastStep = 1e-4;       // times the first
constexpr double kShrink = 0.7;          // of the step, when the bound has stopped moving:
constexpr std::uint32_t kPatience = 10;  // over this many steps
constexpr double kProgress = 1e-4;       // by less than this share
constexpr double kMeanDecay = 0.9;
constexpr double kSquareDecay = 0.95;
constexpr double kLeastSlope = 1e-4;  // of a window's places; below it a window counts as settled

class PriceSearch {
 public:
  PriceSearch(RetentionProblem& problem, std::uint32_t window)
      : problem_(problem),
        window_(window),
        price_(problem.requests()),
        spare_(problem.requests()),
        windows_((problem.requests() + window - 1) / window) {
    for (std::size_t q = 0; q < price_.size(); ++q) windows_[q / window_].places += problem_.places()[q];
  }

  void start(double price) {
    for (Window& w : windows_) w.price = price;
    least_ = evaluate();
    best_ = price_;
  }

  double least() const { return least_; }
  const std::vector<double>& best() const { return best_; }

  std::uint32_t improve(double scale, std::uint32_t max_steps) {
    double step = kFirstStep * scale;
    const double last = step * kLastStep;
    double mean_weight = 1;
    double square_weight = 1;
    double before = least_;
    std::uint32_t steps = 0;
    while (steps < max_steps && step > last && !settled()) {
      mean_weight *= kMeanDecay;
      square_weight *= kSquareDecay;
      for (Window& w : windows_) {
        const double slope = w.spare / w.places;
        w.mean = kMeanDecay * w.mean + (1 - kMeanDecay) * slope;
        w.square = kSquareDecay * w.square + (1 - kSquareDecay) * slope * slope;
        const double direction = w.mean / (1 - mean_weight) / (std::sqrt(w.square / (1 - square_weight)) + kLeastSlope);
        w.price = std::max(0.0, w.price - step * direction);
      }
      const double value = evaluate();
      if (value < least_) {
        least_ = value;
        best_ = price_;
      }
      if (++steps % kPatience == 0) {
        if (before - least_ < kProgress * before) step *= kShrink;
        before = least_;
      }
    }
    return steps;
  }

 private:
  struct Window {
    double price = 0;
    double places = 0;
    double spare = 0;
    double mean = 0;
    double square = 0;
  };

  double evaluate() {
    for (std::size_t q = 0; q < price_.size(); ++q) price_[q] = windows_[q / window_].price;
    const double value = problem_.dual(price_, spare_);
    for (Window& w : windows_) w.spare = 0;
    for (std::size_t q = 0; q < price_.size(); ++q) windows_[q / window_].spare += spare_[q];
    return value;
  }

  // No change of any price can lower the dual.
  bool settled() const {
    return std::ranges::all_of(windows_, [](const Window& w) { return w.price > 0 ? w.spare == 0 : w.spare >= 0; });
  }

  RetentionProblem& problem_;
  std::uint32_t window_;
  std::vector<double> price_;  // of each request
  std::vector<double> spare_;
  std::vector<Window> windows_;
  double least_ = 0;
  std::vector<double> best_;
};

UpperBound counts_of(const RetentionProblem& problem) {
  UpperBound bound;
  bound.total = problem.total();
  bound.skipped = static_cast<std::uint32_t>(std::ranges::count(problem.skipped(), 1));
  return bound;
}

double seconds_since(std::chrono::steady_clock::time_point start) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

}  // namespace

UpperBound upper_bound(const PrefixTrace& trace, const BoundOptions& options) {
  if (options.window < 1) throw ConfigError("window is 0 requests; it must be at least 1");
  const auto start = std::chrono::steady_clock::now();
  RetentionProblem problem(trace, options);
  UpperBound bound = counts_of(problem);
  PriceSearch search(problem, options.window);
  const double uniform = problem.best_uniform_price();
  search.start(uniform);
  bound.uniform = problem.certified(search.least());
  bound.steps = search.improve(uniform > 0 ? uniform : problem.mean_density(), options.max_steps);
  bound.value = problem.certified(search.least());
  auto price = search.best().begin();
  bound.prices.reserve(trace.requests());
  for (const std::uint8_t skipped : problem.skipped()) bound.prices.push_back(skipped != 0 ? 0 : *price++);
  bound.seconds = seconds_since(start);
  return bound;
}

UpperBound upper_bound_at(const PrefixTrace& trace, const BoundOptions& options, std::span<const double> prices) {
  if (prices.size() != trace.requests()) {
    throw ConfigError(std::to_string(prices.size()) + " prices for " + std::to_string(trace.requests()) +
                      " requests; there must be one each");
  }
  for (std::size_t r = 0; r < prices.size(); ++r) {
    if (!std::isfinite(prices[r]) || prices[r] < 0) {
      throw ConfigError("prices[" + std::to_string(r) + "] is " + std::to_string(prices[r]) +
                        "; it must be finite and at least 0");
    }
  }
  const auto start = std::chrono::steady_clock::now();
  RetentionProblem problem(trace, options);
  std::vector<double> of_kept;
  for (std::size_t r = 0; r < prices.size(); ++r) {
    if (problem.skipped()[r] == 0) of_kept.push_back(prices[r]);
  }
  std::vector<double> spare(of_kept.size());
  UpperBound bound = counts_of(problem);
  bound.value = problem.certified(problem.dual(of_kept, spare));
  bound.uniform = bound.value;
  bound.prices.assign(prices.begin(), prices.end());
  bound.seconds = seconds_since(start);
  return bound;
}

}  // namespace kvopt
