// What a BlockPool keeps besides the run table.
#pragma once

#include <optional>

#include "core/lease_table.hpp"
#include "core/prefix_index.hpp"
#include "core/retention_table.hpp"
#include "core/slot_arena.hpp"
#include "kvopt/block_pool.hpp"

namespace kvopt {

struct BlockPool::Storage {
  struct FirstKey {
    const RunTable* runs;
    const SlotArena* arena;
    std::uint64_t operator()(RunId r) const { return *arena->keys(runs->first_slot[r]); }
  };

  Storage(const PoolOptions& options, const RunTable& runs)
      : arena(options.capacity, options.key_bytes), index(options.capacity, FirstKey{&runs, &arena}) {
    if (options.retention) retentions.emplace(runs);
  }

  SlotArena arena;
  PrefixIndex<FirstKey> index;
  LeaseTable leases;
  std::optional<RetentionTable> retentions;
};

}  // namespace kvopt
