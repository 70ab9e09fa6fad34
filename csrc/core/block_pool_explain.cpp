// What the policy thinks of what is cached.
#include <algorithm>
#include <string>

#include "core/block_pool_storage.hpp"
#include "core/explain.hpp"
#include "kvopt/error.hpp"

namespace kvopt {

std::vector<BlockValue> BlockPool::explain(Time now) const {
  check_time(now);
  if (!policy_->explains()) policy_->explain(kNoRun, now);  // refuses
  return explain_runs(runs_, *policy_, now);
}

BlockValue BlockPool::explain(BlockId block, Time now) const {
  check_time(now);
  if (!policy_->explains()) policy_->explain(kNoRun, now);
  for (RunId r = 0; r < runs_.used; ++r) {
    if (!runs_.hittable(r)) continue;
    const BlockId* blocks = storage_->arena.blocks(runs_.first_slot[r]);
    if (std::find(blocks, blocks + runs_.length[r], block) == blocks + runs_.length[r]) continue;
    if (!runs_.evictable(r)) throw PoolError("block " + std::to_string(block) + " is held; nobody has to value it");
    return explain_run(runs_, *policy_, r, now);
  }
  throw StaleBlockError("block " + std::to_string(block) + " holds no cached content");
}

}  // namespace kvopt
