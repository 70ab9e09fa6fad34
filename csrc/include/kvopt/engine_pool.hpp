// The blocks of an engine that hands them out one by one and counts references itself, as vLLM's BlockPool does: which
// block carries which hash, who holds it, and which goes next. kvopt/block_pool.hpp is the pool for everything else; it
// keeps its state by runs and needs the whole prefix of a request, which such an engine does not tell.
//
// Semantics are vLLM's (v1/core/block_pool.py): block 0 is the null block, outside all counts; equal content may lie in
// several blocks, of which the first that was stored is found; a block may carry several keys; a block that loses its
// last holder is free, without a key before every cached one (the last let go of first), with a key by the order; a
// free block keeps its content until it is handed out. Without a policy the order is vLLM's own, block for block; with
// one, cached free blocks go in the policy's order, leaf first, each block as a run of length 1 behind the block that
// stood before it in the table of the request that held it last.
//
// A policy that fails is replaced by LRU, and said so by failure(): an engine cannot stop for it.
// Complexity: O(1) a block and hash, plus what the policy takes. No allocation in steady state.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "kvopt/export.h"
#include "kvopt/policy.hpp"
#include "kvopt/run_table.hpp"
#include "kvopt/types.hpp"

namespace kvopt {

struct EngineOptions {
  std::uint32_t blocks = 0;  // with the null block: 1 to 2^30
  bool caching = true;       // false: no block is ever cached
  std::uint32_t block_tokens = 16;
  double p_star = 28'600;  // tokens: see PolicyContext
};

// Identifies content: the hash of a block and everything before it, then the number of its group in 4 bytes.
using BlockKey = std::span<const std::uint8_t>;
inline constexpr std::size_t kGroupBytes = 4;
inline constexpr std::size_t kMostKeyBytes = 40;

// Consecutive blocks of a request's table that became full.
struct FullBlocks {
  const BlockId* blocks = nullptr;              // `count` of them
  const std::uint8_t* const* hashes = nullptr;  // one a block
  const std::uint8_t* wanted = nullptr;         // one a block, 0: leave it out; null: all
  std::size_t count = 0;
  std::size_t hash_bytes = 0;  // 1 to kMostKeyBytes - kGroupBytes
  std::uint32_t first = 0;     // position of blocks[0] in the table
  BlockId before = kNoBlock;   // the block at first - 1
  std::uint32_t group = 0;
  std::uint32_t block_tokens = 16;
};

class EnginePool {
 public:
  static constexpr BlockId kNullBlock = 0;

  // No policy: vLLM's free queue. Throws ConfigError.
  KVOPT_API explicit EnginePool(const EngineOptions& options, std::unique_ptr<Policy> policy = nullptr);
  KVOPT_API ~EnginePool();
  // Throws ConfigError when an option is out of range.
  KVOPT_API static void check(const EngineOptions& options);
  EnginePool(const EnginePool&) = delete;
  EnginePool& operator=(const EnginePool&) = delete;

  // ---- handing out and taking back

  // Blocks that nobody holds, without the null block.
  KVOPT_API std::uint32_t free_blocks() const;
  // Hands out out.size() free blocks, each with one reference and without content. Throws NotEnoughBlocksError.
  KVOPT_API void take(std::span<BlockId> out, const RequestInfo& info);
  // Adds a reference to each block, the first of a prefix first; `hit`: a request found them cached.
  KVOPT_API void hold(std::span<const BlockId> blocks, bool hit, const RequestInfo& info);
  // Takes a reference off each block; those that nobody holds any longer are free, to go in this order. Throws
  // ReferenceCountError when a block has no reference left.
  KVOPT_API void release(std::span<const BlockId> blocks, const RequestInfo& info);
  // Takes a reference off each block; those that nobody holds any longer go last of all, cached or not.
  KVOPT_API void release_last(std::span<const BlockId> blocks, const RequestInfo& info);

  std::int32_t references(BlockId block) const { return references_[block]; }
  // For engines that count beside the pool. Does not move the block in or out of the order.
  KVOPT_API void set_references(BlockId block, std::int32_t references);

  // ---- content

  // Gives keys to full blocks that a request holds. Throws StaleBlockError when one of them carries a key for as many
  // tokens or more.
  KVOPT_API void store(const FullBlocks& full, const RequestInfo& info);
  // One more key for a block; false when it carries it already. `tokens`: of the prefix that the key stands for.
  KVOPT_API bool insert_key(BlockId block, BlockKey key, std::uint32_t tokens, const RequestInfo& info);
  // Takes all keys off a block, held or free. Returns how many there were.
  KVOPT_API std::size_t remove_keys(BlockId block);
  // `to`, which has no key, carries the keys of `from` instead. Throws StaleBlockError when `to` has one.
  KVOPT_API void move_keys(BlockId from, BlockId to, const RequestInfo& info);
  // Drops all content. False, with nothing changed, while blocks are held.
  KVOPT_API bool reset();

  KVOPT_API bool cached(BlockId block) const;
  // The first key that the block got; empty when it has none.
  KVOPT_API BlockKey key(BlockId block) const;
  KVOPT_API std::vector<BlockKey> more_keys(BlockId block) const;  // the others
  std::uint32_t key_tokens(BlockId block) const { return tokens_[block]; }

  // The first block with this key, or kNoBlock.
  KVOPT_API BlockId find(BlockKey key) const;
  KVOPT_API bool carries(BlockId block, BlockKey key) const;
  KVOPT_API std::size_t keys() const;  // different ones
  // How many leading hashes are cached in all groups. out[i * groups.size() + g]: the block of hash i in groups[g].
  KVOPT_API std::size_t longest_hit(std::span<const std::uint8_t* const> hashes, std::size_t hash_bytes,
                                    std::span<const std::uint32_t> groups, BlockId* out) const;

  // ---- the policy

  // Groups whose blocks are of use without those before them (sliding windows, states): no leaf-first order there.
  KVOPT_API void set_flat_group(std::uint32_t group);
  // A request needs content that is not cached.
  KVOPT_API void miss(BlockKey key, const RequestInfo& info);
  // Sets the retention priority of a cached block. Throws ConfigError when the order does not look at priorities.
  KVOPT_API void set_priority(BlockId block, std::uint8_t priority);
  KVOPT_API bool honours_priority() const;
  // See Policy. Without a policy, and once it has failed, nothing is learned.
  KVOPT_API bool learns() const;
  KVOPT_API std::string save_state() const;
  KVOPT_API void load_state(std::string_view state);
  // What the policy thinks of each cached block that nobody holds (the run of a block is its id), in the order in which
  // they would go. Throws ConfigError where it explains nothing, there is none, or it has failed.
  KVOPT_API std::vector<BlockValue> explain(Time now) const;
  // What the policy saved beside what LRU would have, where it keeps a shadow of LRU and has not failed.
  KVOPT_API std::optional<ShadowComparison> compare_with_lru() const;
  // What went wrong in the policy; from then on the order is LRU. Empty: nothing did.
  KVOPT_API const std::string& failure() const;

  // ---- observation

  // Whether keys that go are noted for take_removed(): content that goes by take(), remove_keys() or store().
  void note_removed(bool on) { note_removed_ = on; }
  // The keys that went since the last call, in order.
  std::vector<std::vector<std::uint8_t>> take_removed() { return std::exchange(removed_, {}); }
  std::uint64_t evictions() const { return evictions_; }  // cached blocks that were handed out
  std::uint64_t hits() const { return hits_; }            // cached blocks that requests took
  std::uint64_t stored() const { return stored_; }        // blocks that got their first key

  // Free blocks in the order in which they go. With a policy: those without content, then cached ones by last use.
  KVOPT_API std::vector<BlockId> free_order() const;
  std::uint32_t size() const { return options_.blocks; }
  const EngineOptions& options() const { return options_; }
  KVOPT_API const RunTable* runs() const;  // null without a policy
  KVOPT_API std::size_t bytes() const;
  // Every invariant, in full. Empty when all hold; else one sentence a violation.
  KVOPT_API std::vector<std::string> verify() const;

 private:
  struct Storage;  // index and order

  Policy& learner() const;
  void check_block(BlockId block) const;
  void check_key(BlockKey key) const;
  std::size_t drop_keys(BlockId block);
  void let_go(std::span<const BlockId> blocks);
  bool add_key(BlockId block, BlockKey key, std::uint32_t tokens);

  EngineOptions options_;
  LazyArray<std::int32_t> references_;
  LazyArray<std::uint32_t> tokens_;  // that the first key stands for
  std::unique_ptr<Storage> storage_;
  bool note_removed_ = false;
  std::uint64_t evictions_ = 0;
  std::uint64_t hits_ = 0;
  std::uint64_t stored_ = 0;
  std::vector<std::vector<std::uint8_t>> removed_;
  std::vector<BlockId> changed_;  // scratch: the blocks of a call, without the null block
  std::vector<BlockId> freed_;    // scratch: those of them that lost the last reference
};

}  // namespace kvopt
