// The blocks of one KV cache: which hold what, who holds them, and which go when room is needed.
//
// A request's life: match (a look, no effect) → acquire (references the cached prefix, makes room for the rest) →
// commit (blocks that became full) → extend (decode) → release. Each call is transactional: it throws one of
// kvopt/error.hpp before it changes anything, or it succeeds whole. evictable + referenced + leased + empty = capacity,
// always.
//
// Prefix rule: a block is only of use behind all blocks before it, so a block with a cached child is never evicted.
// Flat rule: blocks are independent of each other; every block is a run of its own.
//
// Complexity: match compares a prompt with runs by sequential reads; acquire and release cost the runs on a request's
// path plus the blocks that are new or evicted, not the blocks that are hit. No allocation in steady state.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "kvopt/export.h"
#include "kvopt/policy.hpp"
#include "kvopt/run_table.hpp"
#include "kvopt/types.hpp"

namespace kvopt {

struct PoolOptions {
  std::uint32_t capacity = 0;  // blocks, 1 to 2^31
  Rule rule = Rule::kPrefix;
  std::uint32_t key_bytes = 0;     // 0: keys are 64-bit integers; else byte strings of this length, 1 to 64
  std::uint32_t lease_budget = 0;  // blocks that leases may pin at once; below capacity
  bool retention = false;          // allow retain()
  std::uint32_t block_tokens = 16;
  double p_star = 28'600;  // tokens: see PolicyContext
};

// Throws ConfigError when an option is out of range.
KVOPT_API void check(const PoolOptions& options);

// Keys of consecutive blocks of one prefix. A key identifies its block and everything before it.
struct Keys {
  const std::uint64_t* hashes = nullptr;  // integers, or key_digest() of `bytes`
  const std::uint8_t* bytes = nullptr;    // key_bytes each, or null
  std::size_t count = 0;
};

// A 64-bit digest of a byte-string key, for Keys::hashes. Keys are still compared in full.
KVOPT_API std::uint64_t key_digest(const std::uint8_t* key, std::size_t size);

// What one request holds. Owned by the caller, who releases it before it goes; reusable after release. It can be moved
// but not copied, so that nothing is let go of twice. Under the flat rule it holds each of its runs by itself, else the
// deepest run and everything in front of it.
class Allocation {
 public:
  Allocation() = default;
  Allocation(const Allocation&) = delete;
  Allocation& operator=(const Allocation&) = delete;
  Allocation(Allocation&& other) noexcept { swap(other); }
  Allocation& operator=(Allocation&& other) noexcept {
    swap(other);
    return *this;
  }
  ~Allocation() = default;

  std::uint32_t hit() const { return hit_; }              // leading blocks that were found cached
  std::uint32_t committed() const { return committed_; }  // leading blocks that carry a key
  std::uint32_t size() const { return committed_ + static_cast<std::uint32_t>(pending_.size() - next_pending_); }
  bool live() const { return owner_ != nullptr; }
  const class BlockPool* owner() const { return owner_; }

 private:
  friend class BlockPool;

  void swap(Allocation& other) noexcept {
    std::swap(owner_, other.owner_);
    std::swap(tail_, other.tail_);
    std::swap(own_tail_, other.own_tail_);
    std::swap(hit_, other.hit_);
    std::swap(committed_, other.committed_);
    flat_.swap(other.flat_);
    pending_.swap(other.pending_);
    std::swap(next_pending_, other.next_pending_);
  }

  const BlockPool* owner_ = nullptr;
  RunId tail_ = kNoRun;
  bool own_tail_ = false;  // the deepest run was stored by this allocation
  std::uint32_t hit_ = 0;
  std::uint32_t committed_ = 0;
  std::vector<RunId> flat_;       // flat rule: the runs, first to last
  std::vector<BlockId> pending_;  // blocks without a key, from next_pending_ on
  std::size_t next_pending_ = 0;
};

using LeaseId = std::uint64_t;

enum class Lifetime : std::uint8_t { kFixed, kRefresh };  // whether a hit renews a retention

struct PoolCounts {
  std::uint32_t capacity, empty, evictable, referenced, leased;
};

struct PoolStats {
  PoolCounts counts{};
  std::uint32_t runs = 0;
  std::uint64_t requests = 0;                         // acquire calls that succeeded
  std::uint64_t hit_blocks = 0;                       // blocks that they found cached
  std::uint64_t new_blocks = 0;                       // blocks that acquire and extend handed out
  std::uint64_t stored_blocks = 0;                    // blocks that got a key
  std::array<std::uint64_t, kDropReasons> dropped{};  // cached blocks that lost their content, by DropReason
  std::uint64_t leases_expired = 0;
  std::uint64_t leases_reclaimed = 0;  // ended early because a request needed the blocks
  std::uint64_t retentions_expired = 0;
  std::size_t bytes = 0;  // table, keys, index and policy, if every block were a run of its own
};

class BlockPool {
 public:
  // Throws ConfigError when an option is out of range.
  KVOPT_API BlockPool(const PoolOptions& options, std::unique_ptr<Policy> policy);
  KVOPT_API ~BlockPool();
  BlockPool(const BlockPool&) = delete;
  BlockPool& operator=(const BlockPool&) = delete;

  // How many leading keys are cached. No effect.
  KVOPT_API std::size_t match(Keys keys) const;

  struct Probe {
    std::uint32_t hit = 0;   // leading blocks that are cached
    std::uint32_t idle = 0;  // of these, those that nobody holds: evictable now, but not once a request holds them
  };
  // match(), and what a request would take from the evictable blocks with its hits.
  KVOPT_API Probe probe(Keys keys) const;

  // References the longest cached prefix (of at most max_hit blocks) and total - hit empty blocks into `allocation`,
  // evicting as needed; with reclaim_leases also ends leases, latest deadline first, rather than fail. Throws
  // NotEnoughBlocksError, or ReferenceCountError when as many hold the prefix already as can be counted (65,535).
  KVOPT_API void acquire(Allocation& allocation, Keys keys, std::size_t total, const RequestInfo& info,
                         std::size_t max_hit = SIZE_MAX, bool reclaim_leases = false);

  // Adds n empty blocks at the end. Throws NotEnoughBlocksError.
  KVOPT_API void extend(Allocation& allocation, std::size_t n, const RequestInfo& info, bool reclaim_leases = false);

  // Gives keys to the next keys.count blocks of the allocation after those already committed.
  KVOPT_API void commit(Allocation& allocation, Keys keys, const RequestInfo& info);

  // Lets go of all blocks; those without a key are empty at once, before any cached block is evicted for room.
  KVOPT_API void release(Allocation& allocation, const RequestInfo& info);

  // The ids of all blocks of a live allocation, first to last, into out[0, size).
  KVOPT_API void blocks_of(const Allocation& allocation, std::span<BlockId> out) const;

  // Pins the first n committed blocks of a live allocation until the deadline, whatever the policy wants. Blocks that
  // are leased already are charged once. Throws LeaseError when the budget would be exceeded or the deadline is not
  // after now.
  KVOPT_API LeaseId lease(const Allocation& allocation, std::size_t n, Time deadline, Time now);
  // Throws LeaseError when the lease is unknown or over.
  KVOPT_API void end_lease(LeaseId id, Time now);

  // Sets the retention priority of committed blocks [first, first + n) until now + duration (kNever: for good; 0: back
  // to the default at once), after which it is the default again. Probes never renew; kRefresh renews on a hit; an
  // expired one never revives. Throws ConfigError when the policy does not look at priorities.
  KVOPT_API void retain(const Allocation& allocation, std::size_t first, std::size_t n, std::uint8_t priority,
                        Time duration, Lifetime lifetime, Time now);
  // Whether retain() has an effect: the pool allows it, and the order depends on priorities.
  bool honours_priority() const { return options_.retention && policy_->honours_priority(); }

  // Ends leases and retentions whose deadline is not after now; returns how many runs and leases. Costs only what is
  // due. Acquire, extend, evict and lease do it first, also when they then refuse.
  KVOPT_API std::size_t expire(Time now);

  struct Evicted {
    std::uint32_t blocks = 0;
    double idle_s = 0;       // since their last use, added up
    std::uint64_t hits = 0;  // that they had had, added up
  };
  // What the last eviction, by whichever call, took away.
  const Evicted& evicted() const { return evicted_; }

  // Evicts exactly n blocks, returned in the order of eviction, or throws NotEnoughBlocksError.
  KVOPT_API std::vector<BlockId> evict(std::size_t n, Time now);

  // Takes the content of cached blocks away (a failed load, an invalidation), with everything behind them under the
  // prefix rule. Blocks that are held stay with their holders and can no longer be hit. Looks at every run.
  KVOPT_API void forget(std::span<const BlockId> blocks);

  // Drops all cached content and leases. Throws PoolError when requests still hold blocks.
  KVOPT_API void clear();

  // What the policy thinks of each run that nobody holds, in the order in which they would go: possible victims first,
  // then runs with something cached behind them. Throws ConfigError where it explains nothing, PoolError when `now` is
  // before the latest time that a call named.
  KVOPT_API std::vector<BlockValue> explain(Time now) const;
  // Of the run that this block is in. Throws StaleBlockError when it holds no cached content, PoolError when a request
  // or a lease holds it.
  KVOPT_API BlockValue explain(BlockId block, Time now) const;

  KVOPT_API PoolCounts counts() const;
  KVOPT_API PoolStats stats() const;
  const RunTable& runs() const { return runs_; }
  const PoolOptions& options() const { return options_; }
  Time now() const { return now_; }  // the latest time that a call named; -kNever before the first
  Policy& policy() { return *policy_; }
  const Policy& policy() const { return *policy_; }

  // Every invariant, in full. Empty when all hold; else one sentence a violation.
  KVOPT_API std::vector<std::string> verify() const;

 private:
  struct Storage;  // empty blocks, slots, index, leases, retentions
  struct Path {    // a match: blocks [0, hit), the last `in_tail` of them in `tail`
    RunId tail = kNoRun;
    std::uint32_t in_tail = 0;
    std::uint32_t hit = 0;
  };
  struct Victim {
    RunId run;
    std::uint32_t blocks;
  };

  void check_time(Time now) const;
  void check_live(const Allocation& allocation) const;
  void check_room(std::size_t need, std::size_t spoken_for, bool reclaim_leases) const;

  bool same_key(RunId r, const Keys& keys, std::size_t i) const;
  std::uint32_t common(RunId r, const Keys& keys, std::size_t i, std::size_t n) const;
  RunId run_with_key(RunId parent, const Keys& keys, std::size_t i) const;
  Path walk(const Keys& keys, std::size_t limit) const;
  std::size_t available_on(RunId tail, std::uint32_t in_tail, bool leased) const;

  std::size_t hold_flat(Allocation& allocation, const Keys& keys, std::size_t total, const RequestInfo& info,
                        std::size_t max_hit, bool reclaim_leases);
  void gather_path(RunId tail);
  void check_countable(std::span<const RunId> runs);
  void reference(std::span<const RunId> runs, bool hit, const RequestInfo& info);
  void dereference(std::span<const RunId> runs, const RequestInfo& info);
  void take_room(std::vector<BlockId>& out, std::size_t n, Time now, bool reclaim_leases);
  void choose_victims(std::size_t n, Time now);
  void restore(RunId r, Time now);
  [[noreturn]] void refuse_victim(RunId r) const;
  void remove_victims(std::vector<BlockId>& out, DropReason reason, Time now);

  RunId new_run(RunId parent, std::uint32_t depth);
  RunId split(RunId r, std::uint32_t at);
  RunId cut_at(RunId tail, std::uint32_t blocks);
  bool is_duplicate(RunId parent, const Keys& keys, std::size_t i, std::uint32_t depth) const;
  std::uint32_t extend_own_tail(Allocation& allocation, const Keys& keys, std::size_t i);
  std::uint32_t store_run(Allocation& allocation, const Keys& keys, std::size_t i);
  void free_run(RunId r);
  void give_up(RunId r);
  void end_lease_at(std::size_t slot, Time now);
  void tell_priority(RunId r);
  std::size_t end_due(Time now);
  void finish(Time now);

  PoolOptions options_;
  std::shared_ptr<RunTable> table_;
  RunTable& runs_;  // *table_
  std::unique_ptr<Storage> storage_;
  std::unique_ptr<Policy> policy_;
  RunId first_free_run_ = kNoRun;
  std::uint32_t evictable_ = 0;
  std::uint32_t leased_ = 0;
  std::uint32_t charged_ = 0;  // blocks under any lease
  Time now_ = -kNever;
  std::vector<RunId> path_;      // scratch: the runs of a request, deepest first
  std::vector<RunId> changed_;   // scratch: those of them that changed sides
  std::vector<Victim> victims_;  // scratch
  PoolStats stats_;
  Evicted evicted_;
};

}  // namespace kvopt
