// A pool whose policy checks the pool, and whose requests are written as lists of keys.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "checked_policy.hpp"
#include "kvopt/block_pool.hpp"

namespace kvopt::test {

using Numbers = std::vector<std::uint64_t>;

struct Server {
  explicit Server(const PoolOptions& options, const std::string& policy = "lru")
      : pool(options, std::make_unique<CheckedPolicy>(make_policy(parse_policy(policy)), false, 0)) {}

  static Keys keys(const Numbers& numbers) { return {.hashes = numbers.data(), .count = numbers.size()}; }

  Allocation acquire(const Numbers& numbers, std::size_t max_hit = SIZE_MAX) {
    Allocation allocation;
    pool.acquire(allocation, keys(numbers), numbers.size(), {.now = now}, max_hit);
    return allocation;
  }
  void commit(Allocation& allocation, const Numbers& numbers) { pool.commit(allocation, keys(numbers), {.now = now}); }
  // From acquire to commit; `numbers` in full.
  Allocation hold(const Numbers& numbers) {
    Allocation allocation = acquire(numbers);
    commit(allocation, Numbers(numbers.begin() + allocation.hit(), numbers.end()));
    return allocation;
  }
  void release(Allocation& allocation) { pool.release(allocation, {.now = now}); }
  void serve(const Numbers& numbers) {
    Allocation allocation = hold(numbers);
    release(allocation);
  }
  std::size_t match(const Numbers& numbers) const { return pool.match(keys(numbers)); }
  std::vector<BlockId> blocks(const Allocation& allocation) const {
    std::vector<BlockId> ids(allocation.size());
    pool.blocks_of(allocation, ids);
    return ids;
  }
  std::uint64_t dropped(DropReason reason) const { return pool.stats().dropped[static_cast<std::size_t>(reason)]; }

  BlockPool pool;
  Time now = 0;
};

}  // namespace kvopt::test
