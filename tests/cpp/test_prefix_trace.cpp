// PrefixTrace and its builder: two requests share exactly the blocks in front of the first difference.
#include <algorithm>
#include <map>
#include <numeric>

#include "check.hpp"
#include "kvopt/error.hpp"
#include "random_trace.hpp"

namespace {

using namespace kvopt;
using namespace kvopt::test;

// A block is a prefix: numbered densely by first appearance.
void blocks_are_prefixes() {
  std::mt19937_64 random(1);
  for (int i = 0; i < 300; ++i) {
    const TokenChains chains = random_chains(random, 1 + random() % 12, 12, 3);
    std::map<std::pair<std::uint32_t, std::vector<std::uint64_t>>, std::uint32_t> numbers;
    PrefixTraceBuilder builder;
    std::vector<std::vector<std::uint32_t>> expected;
    for (const auto& chain : chains) {
      const auto scope = static_cast<std::uint32_t>(random() % 2);
      std::vector<std::uint32_t> blocks;
      std::uint32_t known = 0;
      for (std::size_t n = 1; n <= chain.size(); ++n) {
        std::vector<std::uint64_t> prefix(chain.begin(), chain.begin() + static_cast<std::ptrdiff_t>(n));
        const auto [at, fresh] = numbers.emplace(std::pair(scope, prefix), static_cast<std::uint32_t>(numbers.size()));
        known += fresh ? 0 : 1;
        blocks.push_back(at->second);
      }
      CHECK_EQUAL(builder.append(chain, scope), known);
      expected.push_back(blocks);
    }
    CHECK_EQUAL(builder.requests(), chains.size());
    const PrefixTrace trace = std::move(builder).finish();
    CHECK_EQUAL(trace.unique_blocks(), numbers.size());
    std::uint64_t references = 0;
    std::size_t longest = 0;
    std::vector<BlockRange> ranges;
    for (std::size_t r = 0; r < chains.size(); ++r) {
      CHECK_EQUAL(chain_of(trace, r), expected[r]);
      references += chains[r].size();
      longest = std::max(longest, chains[r].size());
      std::vector<std::uint32_t> from_ranges;
      trace.ranges(r, ranges);
      for (const BlockRange& range : ranges) {
        for (std::uint32_t b = 0; b < range.count; ++b) from_ranges.push_back(range.first + b);
      }
      CHECK_EQUAL(from_ranges, expected[r]);
    }
    CHECK_EQUAL(trace.block_references(), references);
    CHECK_EQUAL(trace.longest_request(), longest);
  }
}

// Reordering is building anew in that order.
void reordered_equals_built_in_that_order() {
  std::mt19937_64 random(2);
  for (int i = 0; i < 200; ++i) {
    const TokenChains chains = random_chains(random, 1 + random() % 10, 9, 3);
    std::vector<std::int64_t> order(chains.size());
    std::iota(order.begin(), order.end(), 0);
    std::ranges::shuffle(order, random);
    TokenChains in_order;
    for (const std::int64_t r : order) in_order.push_back(chains[static_cast<std::size_t>(r)]);
    const PrefixTrace actual = to_trace(chains).reordered(order);
    const PrefixTrace expected = to_trace(in_order);
    CHECK_EQUAL(actual.unique_blocks(), expected.unique_blocks());
    for (std::size_t r = 0; r < chains.size(); ++r) CHECK_EQUAL(chain_of(actual, r), chain_of(expected, r));
  }
}

void bad_columns_are_refused() {
  CHECK_THROWS(TraceError, PrefixTrace({-1}, {0}, {1, 1}));
  CHECK_THROWS(TraceError, PrefixTrace({0}, {0}, {1}));  // its own parent
  CHECK_THROWS(TraceError, PrefixTrace({-1, 2}, {0, 0}, {1, 1}));
  CHECK_THROWS(TraceError, PrefixTrace({-2}, {0}, {1}));
  CHECK_THROWS(TraceError, PrefixTrace({-1}, {1}, {1}));  // shares without a parent
  CHECK_THROWS(TraceError, PrefixTrace({-1, 0}, {0, 3}, {2, 1}));
  CHECK_THROWS(TraceError, PrefixTrace({-1, -1}, {0, 0}, {UINT32_MAX - 1, 1}));
  const PrefixTrace trace = to_trace({{1, 2}, {1, 3}});
  CHECK_THROWS(TraceError, trace.reordered(std::vector<std::int64_t>{0}));
  CHECK_THROWS(TraceError, trace.reordered(std::vector<std::int64_t>{0, 0}));
  CHECK_THROWS(TraceError, trace.reordered(std::vector<std::int64_t>{0, 2}));
  CHECK_THROWS(TraceError, trace.reordered(std::vector<std::int64_t>{-1, 0}));
}

void empty_traces_are_traces() {
  const PrefixTrace trace = to_trace({});
  CHECK_EQUAL(trace.requests(), 0U);
  CHECK_EQUAL(trace.unique_blocks(), 0U);
  CHECK_EQUAL(to_trace({{}}).length(0), 0U);
}

}  // namespace

int main() {
  return run_all({{"blocks are prefixes", blocks_are_prefixes},
                  {"reordered equals built in that order", reordered_equals_built_in_that_order},
                  {"bad columns are refused", bad_columns_are_refused},
                  {"empty traces are traces", empty_traces_are_traces}});
}
