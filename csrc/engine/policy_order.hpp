// Free blocks in the order of a policy: those without content first, then what the policy chooses, leaf first.
//
// Each cached block is a run of length 1 whose id is the block's. Its parent is the block in front of it in the table
// of the request that stored or hit it last, so equal content in several blocks may change a run's parent. Links stand
// between held blocks only, or between free ones, or from a free block up to a held one: when a block is free while one
// behind it is held (by a request that has an equal copy in front), the link between them is cut. So what is behind an
// evictable run is evictable too, as policies are promised.
// A policy that fails is replaced by LRU for good: by last use, the deepest first.
#pragma once

#include <algorithm>
#include <memory>
#include <vector>

#include "engine/free_queue.hpp"
#include "engine/victim_order.hpp"

namespace kvopt {

struct EngineOptions;

class PolicyOrder final : public VictimOrder {
 public:
  PolicyOrder(const EngineOptions& options, std::unique_ptr<Policy> policy, const LazyArray<std::int32_t>& references);

  std::uint32_t size() const override { return empty_.size() + evictable_; }
  bool contains(BlockId block) const override;
  void take(std::span<BlockId> out, const RequestInfo& info) override;
  void on_held(std::span<const BlockId> blocks, bool hit, const RequestInfo& info) override;
  void on_released(std::span<const BlockId> blocks, std::span<const BlockId> empty, std::span<const BlockId> cached,
                   const RequestInfo& info) override;
  void on_released_last(std::span<const BlockId> blocks, const RequestInfo& info) override;
  void on_stored(std::span<const StoredBlock> stored, const RequestInfo& info) override;
  void on_forgotten(BlockId block) override;
  void on_recounted(BlockId block) override;
  void on_miss(std::uint64_t key, const RequestInfo& info) override;
  bool honours_priority() const override { return policy_->honours_priority(); }
  void set_priority(BlockId block, std::uint8_t priority) override;
  void set_flat_group(std::uint32_t group) override { flat_groups_.push_back(group); }

  Policy* policy() const override { return failed() ? nullptr : policy_.get(); }
  const RunTable* runs() const override { return &runs_; }
  const std::string& failure() const override { return failure_; }
  std::vector<BlockId> listing() const override;
  std::string verify() const override;
  std::size_t bytes() const override;

 private:
  bool live(BlockId b) const { return (runs_.flags[b] & run_flag::kLive) != 0; }
  bool failed() const { return !failure_.empty(); }
  std::uint16_t table_references(BlockId b, std::int32_t least) const {
    return static_cast<std::uint16_t>(std::clamp<std::int32_t>(references_[b], least, kMostReferences));
  }
  bool follows(BlockId front, BlockId b) const;
  void link(BlockId b, BlockId front);
  RunId detach(BlockId b);
  void cut(BlockId b);
  void cut_children(BlockId b, bool held_only);
  void retire(BlockId b);
  void choose(std::span<BlockId> out, Time now);
  void fail(const std::string& what);
  std::vector<BlockId> by_last_use() const;
  std::string verify_links() const;

  std::shared_ptr<RunTable> table_;
  RunTable& runs_;
  std::unique_ptr<Policy> policy_;
  const LazyArray<std::int32_t>& references_;
  FreeQueue empty_;
  FreeQueue lru_;  // of cached blocks, once the policy has failed
  std::uint32_t evictable_ = 0;
  LazyArray<std::uint64_t> keys_;
  LazyArray<BlockId> first_child_;       // plus one; 0: none
  LazyArray<BlockId> next_sibling_;      // plus one; 0: the last
  LazyArray<BlockId> previous_sibling_;  // plus one; 0: the first
  LazyArray<std::uint32_t> held_children_;
  LazyArray<std::uint32_t> group_;
  std::vector<std::uint32_t> flat_groups_;
  std::vector<BlockId> path_;     // scratch, deepest first
  std::vector<BlockId> changed_;  // scratch, deepest first
  std::string failure_;
};

}  // namespace kvopt
