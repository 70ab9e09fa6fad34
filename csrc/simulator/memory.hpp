// The blocks of the simulated server: a pool, used as vLLM uses its own. kvopt/simulator/memory.py describes it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "kvopt/block_pool.hpp"
#include "simulator/collector.hpp"
#include "simulator/request.hpp"

namespace kvopt::simulator {

class Memory {
 public:
  // What of a waiting request is cached: `hit` leading blocks, of which nobody holds `idle`.
  using Probe = BlockPool::Probe;

  // `whole_hits`: a prompt may be hit whole; else the block of its last token is always computed. `named_blocks` are
  // the keys that a trace gives. Pool and collector outlive it.
  Memory(BlockPool& pool, std::int64_t block_tokens, std::size_t named_blocks, bool whole_hits, Collector& collector);

  std::int64_t usable() const { return pool_.options().capacity; }
  std::int64_t block_tokens() const { return block_tokens_; }
  // Blocks that can be had: empty or evictable.
  std::int64_t free() const {
    const PoolCounts counts = pool_.counts();
    return std::int64_t{counts.empty} + counts.evictable;
  }
  // Blocks with content that no request holds.
  std::int64_t cached() const {
    const PoolCounts counts = pool_.counts();
    return std::int64_t{counts.evictable} + counts.leased;
  }
  // Blocks that requests hold.
  std::int64_t held() const { return pool_.counts().referenced; }
  // Changes whenever what is cached may have changed.
  std::int64_t version() const { return version_; }
  // Blocks that hold so many tokens.
  std::int64_t blocks(std::int64_t tokens) const { return (tokens + block_tokens_ - 1) / block_tokens_; }

  // How many leading blocks a request may hit: all but the one with its last token.
  std::int64_t reach(const Request& request) const;
  Probe probe(const Request& request) const;
  // Whether all blocks that a request needs now could be had, were the probed ones taken from the cache.
  bool fits(const Request& request, const Probe& probe) const;
  // Holds the `hit` cached blocks and room for all tokens up to `tokens`; false when there is too little.
  bool admit(Request& request, std::int64_t hit, std::int64_t tokens, const RequestInfo& info);
  // Gives a request more empty blocks, which must be free.
  void extend(Request& request, std::int64_t blocks, Time now);
  // Lets others hit the blocks that `tokens` tokens of a request fill.
  void commit(Request& request, std::int64_t tokens, const RequestInfo& info);
  // Lets go of all blocks of a request, the deepest to be evicted first.
  void release(Request& request, const RequestInfo& info);
  // Tokens from the first on whose blocks anybody has computed before, as far as the request may hit them.
  std::int64_t computed_before(const Request& request, std::int64_t hit) const;
  // How long all blocks that nobody holds have been idle, added up.
  double idle_block_seconds(Time now) const;
  // What is wrong with the books once no request is left; empty when all is right.
  std::vector<std::string> check() const;

 private:
  // How many blocks will be evicted for so many more.
  std::int64_t evictions_for(std::int64_t blocks) const { return blocks - pool_.counts().empty; }
  void note_evictions(const Request& request, Time now, std::int64_t evictions);

  BlockPool& pool_;
  Collector& collector_;
  std::int64_t block_tokens_;
  bool whole_hits_;
  std::vector<bool> computed_before_;  // by key, of those that the trace names
  std::int64_t holders_ = 0;
  std::int64_t version_ = 0;
};

}  // namespace kvopt::simulator
