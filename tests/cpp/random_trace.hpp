// Small random prefix traces: requests that share prefixes, from few tokens.
#pragma once

#include <cstdint>
#include <random>
#include <vector>

#include "kvopt/prefix_trace.hpp"

namespace kvopt::test {

using TokenChains = std::vector<std::vector<std::uint64_t>>;

// `requests` chains of up to `longest` tokens out of `tokens`; the lower ones are the likelier.
inline TokenChains random_chains(std::mt19937_64& random, std::size_t requests, std::size_t longest,
                                 std::size_t tokens) {
  TokenChains chains(requests);
  for (auto& chain : chains) {
    chain.resize(random() % (longest + 1));
    for (auto& token : chain) token = random() % (1 + random() % tokens);
  }
  return chains;
}

inline PrefixTrace to_trace(const TokenChains& chains) {
  PrefixTraceBuilder builder;
  for (const auto& chain : chains) builder.append(chain);
  return std::move(builder).finish();
}

inline std::vector<std::uint32_t> chain_of(const PrefixTrace& trace, std::size_t r) {
  std::vector<std::uint32_t> blocks(trace.length(r));
  trace.chain(r, blocks);
  return blocks;
}

}  // namespace kvopt::test
