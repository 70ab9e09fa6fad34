// The replay rule, block by block, with every block looked at for every decision; and the best that any choice could
// do.
#pragma once

#include <algorithm>
#include <cstdint>
#include <map>
#include <set>
#include <utility>
#include <vector>

#include "random_trace.hpp"

namespace kvopt::test {

enum class NaiveRule { kLru, kFifo, kLfu, kMin, kMinBypass };

struct NaiveCounts {
  std::vector<std::uint32_t> hits;
  std::vector<std::uint8_t> skipped;
  std::uint64_t evictions = 0;
};

using Chains = std::vector<std::vector<std::uint32_t>>;  // block numbers of each request

inline Chains chains_of(const PrefixTrace& trace) {
  Chains chains;
  for (std::size_t r = 0; r < trace.requests(); ++r) chains.push_back(chain_of(trace, r));
  return chains;
}

// Evicts the leaf of least rank; among equals the deepest.
inline NaiveCounts naive_replay(const Chains& chains, std::size_t capacity, NaiveRule rule) {
  struct Cached {
    std::size_t depth, stored, last_use, hits, next_use;
    std::uint32_t before;
  };
  NaiveCounts counts;
  std::map<std::uint32_t, Cached> cache;
  const auto next_use = [&](std::uint32_t block, std::size_t after) {
    for (std::size_t r = after + 1; r < chains.size(); ++r) {
      if (chains[r].size() < capacity && std::ranges::count(chains[r], block) > 0) return r;
    }
    return chains.size();
  };
  const auto rank = [&](const Cached& c) -> std::vector<std::size_t> {
    if (rule == NaiveRule::kLru) return {c.last_use};
    if (rule == NaiveRule::kFifo) return {c.stored};
    if (rule == NaiveRule::kLfu) return {c.hits, c.last_use};
    return {chains.size() - c.next_use};
  };
  const auto evict_one = [&](const std::set<std::uint32_t>& kept) {
    auto victim = cache.end();
    for (auto it = cache.begin(); it != cache.end(); ++it) {
      const auto& [block, state] = *it;
      const bool leaf = std::ranges::none_of(
          cache, [&](const auto& other) { return other.second.depth > 0 && other.second.before == it->first; });
      if (!leaf || kept.contains(block)) continue;
      if (victim == cache.end() || rank(state) < rank(victim->second) ||
          (rank(state) == rank(victim->second) && state.depth > victim->second.depth)) {
        victim = it;
      }
    }
    cache.erase(victim);
    ++counts.evictions;
  };
  for (std::size_t r = 0; r < chains.size(); ++r) {
    const auto& chain = chains[r];
    counts.hits.push_back(0);
    counts.skipped.push_back(chain.size() >= capacity ? 1 : 0);
    if (chain.size() >= capacity) continue;
    std::size_t hit = 0;
    while (hit < chain.size() && cache.contains(chain[hit])) ++cache.at(chain[hit++]).hits;
    counts.hits.back() = static_cast<std::uint32_t>(hit);
    const std::set<std::uint32_t> own(chain.begin(), chain.end());
    if (rule != NaiveRule::kMinBypass) {
      while (cache.size() + chain.size() - hit > capacity) evict_one(own);
    }
    for (std::size_t i = 0; i < chain.size(); ++i) {
      if (i >= hit) cache[chain[i]] = {i, r, r, 0, 0, i == 0 ? 0 : chain[i - 1]};
      cache[chain[i]].last_use = r;
      cache[chain[i]].next_use = next_use(chain[i], r);
    }
    while (cache.size() > capacity) evict_one({});
  }
  return counts;
}

// The most block hits that any sequence of evictions can reach, by trying all of them. With bypass a request's own
// blocks may go at once, else they are all cached when it ends.
inline std::uint64_t most_hits(const Chains& chains, std::size_t capacity, bool bypass) {
  std::map<std::set<std::uint32_t>, std::uint64_t> best = {{{}, 0}};  // most hits so far, by what is cached
  for (const auto& chain : chains) {
    if (chain.size() >= capacity) continue;
    std::map<std::set<std::uint32_t>, std::uint64_t> next;
    for (const auto& [cached, hits] : best) {
      std::size_t hit = 0;
      while (hit < chain.size() && cached.contains(chain[hit])) ++hit;
      std::set<std::uint32_t> own(chain.begin(), chain.end());
      std::vector<std::uint32_t> may_go;
      for (const std::uint32_t b : cached) {
        if (!own.contains(b)) may_go.push_back(b);
      }
      if (bypass) {
        may_go.insert(may_go.end(), own.begin(), own.end());
        own.clear();
      }
      for (std::uint32_t kept = 0; kept < (std::uint32_t{1} << may_go.size()); ++kept) {
        std::set<std::uint32_t> then = own;
        for (std::size_t i = 0; i < may_go.size(); ++i) {
          if ((kept >> i & 1) != 0) then.insert(may_go[i]);
        }
        if (then.size() > capacity) continue;
        std::uint64_t& most = next[then];
        most = std::max(most, hits + hit);
      }
    }
    best = std::move(next);
  }
  std::uint64_t most = 0;
  for (const auto& [cached, hits] : best) most = std::max(most, hits);
  return most;
}

}  // namespace kvopt::test
