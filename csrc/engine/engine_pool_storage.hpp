// What an EnginePool keeps besides reference counts.
#pragma once

#include <memory>
#include <vector>

#include "engine/block_index.hpp"
#include "engine/victim_order.hpp"
#include "kvopt/engine_pool.hpp"

namespace kvopt {

struct EnginePool::Storage {
  explicit Storage(std::uint32_t blocks) : index(blocks) {}
  BlockIndex index;
  std::unique_ptr<VictimOrder> order;
  std::vector<StoredBlock> stored;  // scratch
  std::vector<BlockId> empty;       // scratch
  std::vector<BlockId> cached;      // scratch
};

}  // namespace kvopt
