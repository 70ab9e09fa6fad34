// What a BlockPool keeps besides the run table.
#pragma once

#include <optional>

#include "core/block_set.hpp"
#include "core/lease_table.hpp"
#include "core/prefix_index.hpp"
#include "core/retention_table.hpp"
#include "core/slot_arena.hpp"
#include "kvopt/block_pool.hpp"

namespace kvopt {

struct BlockPool::Storage {
  struct FirstKey {
    const RunTable* runs;
    std::uint64_t operator()(RunId r) const { return runs->first_key(r); }
  };

  Storage(const PoolOptions& options, const RunTable& runs)
      : empty(options.capacity), arena(options.capacity, options.key_bytes), index(options.capacity, FirstKey{&runs}) {
    if (options.retention) retentions.emplace(runs);
  }

  BlockSet empty;
  SlotArena arena;
  PrefixIndex<FirstKey> index;
  LeaseTable leases;
  std::optional<RetentionTable> retentions;
};

}  // namespace kvopt
