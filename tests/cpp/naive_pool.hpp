// A block pool as the documentation describes it, block by block: no runs, no index, no heaps, every question answered
// by a look at every block. Where the documentation leaves a choice (which of several copies is hit, which of equal
// victims goes), the model is told what the pool did, and throws when that was not among what is allowed.
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "kvopt/block_pool.hpp"

namespace kvopt::test {

// Keys by number. Under the prefix rule a key stands for its block and all blocks before it.
using KeyNumbers = std::vector<std::uint64_t>;

// What a policy promises of its victims, beyond leaf first: nobody who could go is ranked strictly lower.
enum class Ranking { kLetGo, kStored, kHits, kPriority, kNone };

enum class Outcome { kSucceeds, kFails, kEither };

class NaivePool {
 public:
  NaivePool(const PoolOptions& options, Ranking ranking);

  PoolCounts counts() const;
  std::size_t match(std::span<const std::uint64_t> keys) const;
  std::size_t charged() const;  // blocks under any lease
  std::uint64_t dropped(DropReason reason) const { return dropped_[static_cast<std::size_t>(reason)]; }
  std::vector<BlockId> blocks_in_cache() const;  // that can be hit

  // Ends what is due. Every operation that takes room or leases does so first.
  std::size_t expire(Time now);

  // What acquire must do for a request that expects `hit` blocks. Either: it depends on the copy that is hit.
  Outcome acquire_outcome(std::span<const std::uint64_t> keys, std::size_t total, std::size_t hit, bool reclaim) const;
  // blocks: what the pool gave, the first `hit` of them found cached.
  void acquire(int request, std::span<const std::uint64_t> keys, std::span<const BlockId> blocks, std::size_t hit,
               bool reclaim, Time now);

  bool has_room(std::size_t n, bool reclaim) const;
  void extend(int request, std::span<const BlockId> added, bool reclaim);
  void commit(int request, std::span<const std::uint64_t> keys);
  void release(int request, Time now);

  bool lease_fits(int request, std::size_t n) const;
  void lease(int request, std::size_t n, LeaseId id, Time deadline);
  void end_lease(LeaseId id);
  std::vector<LeaseId> leases() const;

  void retain(int request, std::size_t first, std::size_t n, std::uint8_t priority, Time duration, bool refresh,
              Time now);

  void evict(std::span<const BlockId> victims);
  void forget(std::span<const BlockId> blocks);
  void clear();

 private:
  struct Block {
    bool pending = false;  // held by a request, without a key
    bool cached = false;   // carries a key
    bool forgotten = false;
    std::uint64_t key = 0;
    BlockId before = kNoBlock;  // the block in front of it
    std::size_t depth = 0;
    std::uint32_t requests = 0;
    std::uint32_t leases = 0;
    std::uint32_t hits = 0;
    std::uint64_t stored = 0;  // number of the commit
    std::uint64_t let_go = 0;  // when it became evictable, in a running count
    Time last_use = 0;
    std::uint8_t priority = kDefaultPriority;
    Time deadline = 0;  // of the priority; 0: none
    Time renewal = 0;
  };
  struct Request {
    std::vector<BlockId> blocks;
    std::size_t committed = 0;
  };
  struct Lease {
    std::vector<BlockId> blocks;
    Time deadline = 0;
  };

  bool prefix() const { return options_.rule == Rule::kPrefix; }
  static bool held(const Block& b) { return b.pending || b.requests > 0 || b.leases > 0; }
  static bool evictable(const Block& b) { return b.cached && !held(b); }
  static bool leased(const Block& b) { return b.requests == 0 && b.leases > 0; }
  static bool is_empty(const Block& b) { return !b.cached && !b.pending; }
  std::size_t count(bool (*what)(const Block&)) const;
  bool matches(const Block& b, std::uint64_t key, std::size_t depth) const;
  std::vector<double> rank(const Block& b) const;
  std::vector<bool> leaves() const;

  void take_room(std::span<const BlockId> got, bool reclaim);
  void drop_victim(BlockId victim, DropReason reason);
  void become_free(Block& b);
  void remove_lease(LeaseId id);

  PoolOptions options_;
  Ranking ranking_;
  std::vector<Block> blocks_;
  std::map<int, Request> requests_;
  std::map<LeaseId, Lease> leases_;
  std::uint64_t commits_ = 0;
  std::uint64_t let_go_ = 0;
  std::array<std::uint64_t, kDropReasons> dropped_{};
};

}  // namespace kvopt::test
