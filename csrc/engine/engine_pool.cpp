#include "kvopt/engine_pool.hpp"

#include <algorithm>
#include <utility>

#include "core/explain.hpp"
#include "core/shadow_comparison.hpp"
#include "engine/block_key.hpp"
#include "engine/engine_pool_storage.hpp"
#include "engine/lru_order.hpp"
#include "engine/policy_order.hpp"
#include "kvopt/error.hpp"

namespace kvopt {

namespace {

constexpr std::uint32_t kMostBlocks = std::uint32_t{1} << 30;

EngineOptions checked(const EngineOptions& options) {
  EnginePool::check(options);
  return options;
}

}  // namespace

void EnginePool::check(const EngineOptions& options) {
  if (options.blocks < 1 || options.blocks > kMostBlocks) {
    throw ConfigError("blocks is " + std::to_string(options.blocks) + "; it must be 1 to " +
                      std::to_string(kMostBlocks));
  }
  if (options.block_tokens < 1) throw ConfigError("block_tokens is 0; it must be at least 1");
  if (!(options.p_star >= kLeastPStar)) {
    throw ConfigError("p_star is " + std::to_string(options.p_star) + " tokens; it must be 0.001 or more");
  }
}

EnginePool::EnginePool(const EngineOptions& options, std::unique_ptr<Policy> policy)
    : options_(checked(options)),
      references_(options.blocks),
      tokens_(options.blocks),
      storage_(std::make_unique<Storage>(options.blocks)) {
  if (policy == nullptr) {
    storage_->order = std::make_unique<LruOrder>(options.blocks);
  } else {
    storage_->order = std::make_unique<PolicyOrder>(options_, std::move(policy), references_);
  }
}

EnginePool::~EnginePool() = default;

void EnginePool::check_block(BlockId block) const {
  if (block >= options_.blocks) {
    throw StaleBlockError("block " + std::to_string(block) + "; the pool has " + std::to_string(options_.blocks));
  }
}

void EnginePool::check_key(BlockKey key) const {
  if (key.size() <= kGroupBytes) throw ConfigError("a key of " + std::to_string(key.size()) + " bytes has no hash");
  check_hash_bytes(key.size() - kGroupBytes);
}

std::uint32_t EnginePool::free_blocks() const { return storage_->order->size(); }

void EnginePool::take(std::span<BlockId> out, const RequestInfo& info) {
  if (out.size() > free_blocks()) {
    throw NotEnoughBlocksError(std::to_string(out.size()) + " blocks are needed; " + std::to_string(free_blocks()) +
                               " are free");
  }
  storage_->order->take(out, info);
  for (const BlockId b : out) {
    evictions_ += drop_keys(b) > 0 ? 1 : 0;
    references_[b] = 1;
  }
}

void EnginePool::hold(std::span<const BlockId> blocks, bool hit, const RequestInfo& info) {
  for (const BlockId b : blocks) check_block(b);
  changed_.clear();
  for (const BlockId b : blocks) {
    if (b == kNullBlock) continue;
    ++references_[b];
    changed_.push_back(b);
  }
  if (hit) hits_ += changed_.size();
  storage_->order->on_held(changed_, hit, info);
}

// Takes the references off, or nothing at all.
void EnginePool::let_go(std::span<const BlockId> blocks) {
  changed_.clear();
  freed_.clear();
  for (const BlockId b : blocks) {
    if (b == kNullBlock) continue;
    if (b < options_.blocks && references_[b] > 0) {
      if (--references_[b] == 0) freed_.push_back(b);
      changed_.push_back(b);
      continue;
    }
    for (const BlockId done : changed_) ++references_[done];
    check_block(b);
    throw ReferenceCountError("block " + std::to_string(b) + " is released, but nobody holds it");
  }
}

void EnginePool::release(std::span<const BlockId> blocks, const RequestInfo& info) {
  let_go(blocks);
  storage_->empty.clear();
  storage_->cached.clear();
  for (const BlockId b : freed_) {
    if (storage_->order->contains(b)) continue;  // the engine counts beside the pool
    (storage_->index.has_key(b) ? storage_->cached : storage_->empty).push_back(b);
  }
  storage_->order->on_released(changed_, storage_->empty, storage_->cached, info);
}

void EnginePool::release_last(std::span<const BlockId> blocks, const RequestInfo& info) {
  let_go(blocks);
  std::erase_if(freed_, [this](BlockId b) { return storage_->order->contains(b); });
  storage_->order->on_released_last(freed_, info);
}

void EnginePool::set_references(BlockId block, std::int32_t references) {
  check_block(block);
  references_[block] = references;
  storage_->order->on_recounted(block);
}

void EnginePool::set_flat_group(std::uint32_t group) { storage_->order->set_flat_group(group); }
void EnginePool::miss(BlockKey key, const RequestInfo& info) { storage_->order->on_miss(digest(key), info); }
bool EnginePool::honours_priority() const { return storage_->order->honours_priority(); }

void EnginePool::set_priority(BlockId block, std::uint8_t priority) {
  check_block(block);
  if (priority > kMaxPriority) throw ConfigError("priority " + std::to_string(priority) + "; it must be 0 to 100");
  if (!honours_priority()) throw ConfigError("the pool's order does not look at priorities");
  storage_->order->set_priority(block, priority);
}

bool EnginePool::learns() const {
  const Policy* policy = storage_->order->policy();
  return policy != nullptr && policy->learns();
}

Policy& EnginePool::learner() const {
  Policy* policy = storage_->order->policy();
  if (policy == nullptr) {
    throw PolicyStateError(failure().empty() ? "vLLM's own order learns nothing that can be saved or loaded"
                                             : "the policy has failed: " + failure());
  }
  return *policy;
}

std::string EnginePool::save_state() const { return learner().save_state(); }
void EnginePool::load_state(std::string_view state) { learner().load_state(state); }

std::optional<ShadowComparison> EnginePool::compare_with_lru() const {
  const auto* policy = dynamic_cast<const ComparesWithLru*>(storage_->order->policy());
  if (policy == nullptr) return std::nullopt;
  return policy->compare_with_lru();
}

std::vector<BlockValue> EnginePool::explain(Time now) const {
  const Policy* policy = storage_->order->policy();
  if (policy == nullptr) throw ConfigError("vLLM's own order has no values to explain");
  return explain_runs(*runs(), *policy, now);
}

const std::string& EnginePool::failure() const { return storage_->order->failure(); }
std::vector<BlockId> EnginePool::free_order() const { return storage_->order->listing(); }
const RunTable* EnginePool::runs() const { return storage_->order->runs(); }

std::size_t EnginePool::bytes() const {
  return options_.blocks * (sizeof(std::int32_t) + sizeof(std::uint32_t)) + storage_->index.bytes() +
         storage_->order->bytes();
}

std::vector<std::string> EnginePool::verify() const {
  std::vector<std::string> broken;
  const auto note = [&](std::string what) {
    if (!what.empty()) broken.push_back(std::move(what));
  };
  note(storage_->index.verify());
  note(storage_->order->verify());
  std::uint32_t free = 0;
  for (BlockId b = 1; b < options_.blocks; ++b) {
    const bool listed = storage_->order->contains(b);
    free += listed ? 1 : 0;
    if (listed != (references_[b] <= 0)) {
      note("block " + std::to_string(b) + " has " + std::to_string(references_[b]) + " references and is " +
           (listed ? "free" : "not free"));
    }
  }
  if (free != free_blocks()) note("free blocks are miscounted");
  if (storage_->order->contains(kNullBlock) || cached(kNullBlock)) note("the null block is in use");
  return broken;
}

}  // namespace kvopt
