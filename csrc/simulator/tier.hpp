// A second tier for what the pool evicts: blocks in CPU memory, loaded back while others compute. See
// kvopt/simulator/tier.py.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "kvopt/block_pool.hpp"
#include "simulator/request.hpp"

namespace kvopt::simulator {

struct TierOptions {
  std::uint32_t blocks = 0;
  double block_ms = 0;    // to load a block
  double latency_ms = 0;  // before each load
};

class Tier {
 public:
  explicit Tier(const TierOptions& options)
      : options_(options), pool_({.capacity = options.blocks}, make_policy(parse_policy("lru"))) {}

  // How many of a request's first `limit` blocks the tier holds.
  std::int64_t match(const Request& request, std::int64_t limit) const {
    return static_cast<std::int64_t>(pool_.match(request.leading_keys(static_cast<std::size_t>(limit))));
  }

  // Keeps the first `blocks` blocks of a request, as many as there is room for, and counts them as just used.
  void store(const Request& request, std::int64_t blocks, Time now) {
    const Keys keys = request.leading_keys(std::min<std::size_t>(static_cast<std::size_t>(blocks), options_.blocks));
    if (keys.count == 0) return;
    pool_.acquire(stored_, keys, keys.count, {.now = now});
    const std::size_t hit = stored_.hit();
    pool_.commit(stored_, {.hashes = keys.hashes + hit, .count = keys.count - hit}, {.now = now});
    pool_.release(stored_, {.now = now});
  }

  // When a load of so many blocks will be complete; it begins when those before it are.
  Time load(std::int64_t blocks, Time now) {
    const Time begin = std::max(now, link_free_);
    link_free_ = begin + (options_.latency_ms + static_cast<double>(blocks) * options_.block_ms) / 1000.0;
    return link_free_;
  }

 private:
  TierOptions options_;
  BlockPool pool_;
  Allocation stored_;
  Time link_free_ = 0;
};

}  // namespace kvopt::simulator
