// A certified upper bound on what any policy, knowing the whole future, saves under the prefix rule.
//
// Between two uses a block may be kept or not; kept, it takes a place while each request in between runs. A request
// gains the longest prefix of its path that was kept. Kept blocks and the blocks of the running request together may
// not exceed the capacity.
//
// Put a price on a place while each request runs. For any prices that are not negative, what is gained by the choice
// that is best at these prices, less what it pays, plus what all places cost, is at least what any policy gains (weak
// duality). So every step of a search for good prices yields a bound. It is conditional on the schedule, the order of
// the requests: a server whose hits change that order is another problem.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "kvopt/export.h"
#include "kvopt/prefix_trace.hpp"

namespace kvopt {

enum class BoundMetric : std::uint8_t {
  kBlockHit,   // hit blocks
  kCostSaved,  // prefill cost of the hits, F(n) = n + n^2 / (2 p*) of n tokens
};

struct BoundOptions {
  std::uint32_t capacity = 0;  // blocks; a request with at least as many is skipped, as in a replay
  BoundMetric metric = BoundMetric::kBlockHit;
  // A request's own blocks need no place while it runs, as in `min-bypass`. Otherwise they do, as in a server and in
  // `min`; `min-bypass`, which keeps other blocks in their place, may then lie above the bound.
  bool bypass = false;
  std::uint32_t window = 1;        // requests that share a price; fewer give a lower bound
  std::uint32_t max_steps = 1000;  // of the search for prices; 0: one price for all requests
  std::uint32_t block_tokens = 16;
  double p_star = 28'600;
};

struct UpperBound {
  double value = 0;    // hit blocks, or cost saved: no policy reaches more
  double uniform = 0;  // the same at the best single price
  double total = 0;    // what hitting every block would give
  std::uint32_t skipped = 0;
  std::uint32_t steps = 0;  // that the search took
  double seconds = 0;
  std::vector<double> prices;  // of one place during each request; 0 for the skipped
};

// Throws ConfigError for a capacity, window or p* that is not positive.
KVOPT_API UpperBound upper_bound(const PrefixTrace& trace, const BoundOptions& options);

// The bound that given prices prove; `window` and `max_steps` are not used. Throws ConfigError when there is not one
// finite price, at least 0, for each request of the trace.
KVOPT_API UpperBound upper_bound_at(const PrefixTrace& trace, const BoundOptions& options,
                                    std::span<const double> prices);

}  // namespace kvopt
