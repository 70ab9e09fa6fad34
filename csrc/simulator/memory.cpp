#include "simulator/memory.hpp"

#include <algorithm>
#include <numeric>

#include "kvopt/error.hpp"

namespace kvopt::simulator {

Memory::Memory(BlockPool& pool, std::int64_t block_tokens, std::size_t named_blocks, bool whole_hits,
               Collector& collector)
    : pool_(pool),
      collector_(collector),
      block_tokens_(block_tokens),
      whole_hits_(whole_hits),
      computed_before_(named_blocks) {}

std::int64_t Memory::reach(const Request& request) const {
  const std::int64_t tokens = whole_hits_ ? request.tokens() : request.tokens() - 1;
  return std::min(tokens / block_tokens_, static_cast<std::int64_t>(request.keys.size()));
}

Memory::Probe Memory::probe(const Request& request) const {
  return pool_.probe(request.leading_keys(static_cast<std::size_t>(reach(request))));
}

bool Memory::fits(const Request& request, const Probe& probe) const {
  return blocks(request.tokens()) - probe.hit + probe.idle <= free();
}

bool Memory::admit(Request& request, std::int64_t hit, std::int64_t tokens, const RequestInfo& info) {
  const std::int64_t total = blocks(tokens);
  const Keys keys = request.leading_keys(static_cast<std::size_t>(total));
  const std::int64_t evictions = evictions_for(total - hit);
  try {
    pool_.acquire(request.allocation, keys, static_cast<std::size_t>(total), info, static_cast<std::size_t>(hit));
  } catch (const NotEnoughBlocksError&) {
    return false;
  }
  if (request.allocation.hit() != hit) {
    throw SimulationError("request " + std::to_string(request.id) + ": " + std::to_string(hit) +
                          " blocks matched, but " + std::to_string(request.allocation.hit()) + " were hit");
  }
  request.held_blocks = total;
  ++holders_;
  note_evictions(request, info.now, evictions);
  return true;
}

void Memory::extend(Request& request, std::int64_t blocks, Time now) {
  const std::int64_t evictions = evictions_for(blocks);
  pool_.extend(request.allocation, static_cast<std::size_t>(blocks), RequestInfo{.now = now});
  request.held_blocks += blocks;
  note_evictions(request, now, evictions);
}

void Memory::commit(Request& request, std::int64_t tokens, const RequestInfo& info) {
  const std::size_t have = request.allocation.committed();
  const std::size_t full = std::min(static_cast<std::size_t>(tokens / block_tokens_), request.keys.size());
  if (full <= have) return;
  pool_.commit(request.allocation, {.hashes = request.keys.data() + have, .count = full - have}, info);
  for (std::size_t place = have; place < std::min(full, request.prompt_keys); ++place) {
    computed_before_[request.keys[place]] = true;
  }
  ++version_;
}

void Memory::release(Request& request, const RequestInfo& info) {
  pool_.release(request.allocation, info);
  request.held_blocks = 0;
  --holders_;
  ++version_;
}

std::int64_t Memory::computed_before(const Request& request, std::int64_t hit) const {
  const std::int64_t end = std::min(reach(request), static_cast<std::int64_t>(request.prompt_keys));
  std::int64_t known = hit;
  for (std::int64_t place = hit; place < end; ++place) {
    known += computed_before_[request.keys[static_cast<std::size_t>(place)]] ? 1 : 0;
  }
  return known * block_tokens_;
}

double Memory::idle_block_seconds(Time now) const {
  const RunTable& runs = pool_.runs();
  double seconds = 0;
  for (RunId r = 0; r < runs.used; ++r) {
    if (runs.evictable(r)) seconds += runs.length[r] * (now - runs.last_use[r]);
  }
  return seconds;
}

std::vector<std::string> Memory::check() const {
  std::vector<std::string> wrong = pool_.verify();
  const PoolStats stats = pool_.stats();
  const PoolCounts& counts = stats.counts;
  if (counts.referenced > 0 || holders_ != 0) {
    wrong.push_back(std::to_string(counts.referenced) + " blocks are held by nobody's request");
  }
  if (counts.empty + counts.evictable != counts.capacity) {
    wrong.push_back(std::to_string(counts.empty) + " empty and " + std::to_string(counts.evictable) +
                    " cached blocks are not " + std::to_string(counts.capacity));
  }
  const std::uint64_t dropped = std::accumulate(stats.dropped.begin(), stats.dropped.end(), std::uint64_t{0});
  if (stats.stored_blocks - dropped != counts.evictable) {
    wrong.push_back(std::to_string(stats.stored_blocks) + " blocks stored, " + std::to_string(dropped) + " dropped, " +
                    std::to_string(counts.evictable) + " left");
  }
  const std::uint64_t evicted = stats.dropped[static_cast<std::size_t>(DropReason::kCapacity)];
  if (evicted != static_cast<std::uint64_t>(collector_.totals.evictions)) {
    wrong.push_back(std::to_string(evicted) + " evictions, " + std::to_string(collector_.totals.evictions) + " noted");
  }
  return wrong;
}

void Memory::note_evictions(const Request& request, Time now, std::int64_t evictions) {
  if (evictions <= 0) return;
  const BlockPool::Evicted& evicted = pool_.evicted();
  collector_.evicted(now, request.id, evicted.blocks, evicted.idle_s / evicted.blocks,
                     static_cast<std::int64_t>(evicted.hits));
  ++version_;
}

}  // namespace kvopt::simulator
