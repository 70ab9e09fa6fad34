// What may be kept of a trace between uses, what that is worth, and the dual of choosing it.
//
// Structure: the blocks of a request's path that one earlier request used last form a run: all of them are kept over
// the same requests or not. A path has few runs, found by PathMarks. Deeper runs were used last no later, so what a
// prefix of the path costs to keep grows with depth, and keeping serves the prefix rule only from the root down: a
// request chooses how many of its runs to keep. Inside a run the marginal value never falls with depth, so that all of
// it or nothing is best. Complexity: O(runs + requests) an evaluation; 16 bytes a run, 25 a request, and 4 a block of
// the trace while it is built.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "kvopt/prefix_trace.hpp"
#include "kvopt/upper_bound.hpp"

namespace kvopt {

class RetentionProblem {
 public:
  RetentionProblem(const PrefixTrace& trace, const BoundOptions& options);

  // Requests that are not skipped; they alone are numbered below.
  std::size_t requests() const { return places_.size(); }
  std::span<const std::uint8_t> skipped() const { return skipped_; }
  double total() const { return total_; }

  // Places for kept blocks while each request runs.
  std::span<const double> places() const { return places_; }

  // The dual at prices of one place during each request. Writes into `spare` the places that stay free of the blocks
  // that these prices keep (negative: overbooked), which is a subgradient.
  double dual(std::span<const double> price, std::span<double> spare);

  // The single price at which the dual is least.
  double best_uniform_price() const;

  // Value over volume of everything that is used again: the scale of a price.
  double mean_density() const;

  // A dual value as a bound: it covers what rounding may have lost, and hits are whole.
  double certified(double dual) const;

 private:
  struct Run {
    std::uint32_t kept_from;  // over the requests from here up to the one that uses it
    std::uint32_t count;
    double value;
  };
  struct Segment {  // of a path, when one price holds for all requests
    double value;
    double volume;  // places times requests
  };

  template <class Each>
  void for_each_segment(Each each) const;

  BoundMetric metric_;
  std::vector<Run> runs_;
  std::vector<std::size_t> first_run_ = {0};  // of each request, and the end
  std::vector<double> places_;
  std::vector<std::uint8_t> skipped_;  // of each request of the trace
  double total_ = 0;
  std::vector<double> paid_;  // sum of the prices before each request
};

}  // namespace kvopt
