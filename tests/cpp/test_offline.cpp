// Replay, MIN and stack distances against a block-by-block cache and against trying everything.
#include <numeric>

#include "check.hpp"
#include "kvopt/error.hpp"
#include "kvopt/replay.hpp"
#include "naive_cache.hpp"

namespace {

using namespace kvopt;
using namespace kvopt::test;

std::vector<Time> seconds(std::size_t n) {
  std::vector<Time> times(n);
  std::iota(times.begin(), times.end(), 0.0);
  return times;
}

RequestColumns only_time(std::span<const Time> time) {
  RequestColumns columns;
  columns.time = time;
  return columns;
}

ReplayCounts replay_policy(const PrefixTrace& trace, const char* policy, std::uint32_t capacity,
                           Rule rule = Rule::kPrefix) {
  const std::vector<Time> times = seconds(trace.requests());
  return replay(trace, only_time(times), make_policy(parse_policy(policy)), {.capacity = capacity, .rule = rule});
}

std::uint64_t total(const std::vector<std::uint32_t>& hits) { return std::accumulate(hits.begin(), hits.end(), 0ULL); }

void check_counts(const ReplayCounts& actual, const NaiveCounts& expected) {
  CHECK_EQUAL(actual.hit_blocks, expected.hits);
  CHECK_EQUAL(actual.skipped, expected.skipped);
  CHECK_EQUAL(actual.evictions, expected.evictions);
}

// Hits of every request, what is skipped and all evictions, for each policy and both optima.
void replay_equals_block_by_block() {
  std::mt19937_64 random(1);
  for (int i = 0; i < 300; ++i) {
    const PrefixTrace trace = to_trace(random_chains(random, 1 + random() % 25, 2 + random() % 10, 1 + random() % 4));
    const Chains chains = chains_of(trace);
    for (std::uint32_t capacity = 1; capacity < 24; capacity += 1 + static_cast<std::uint32_t>(random() % 4)) {
      check_counts(replay_policy(trace, "lru", capacity), naive_replay(chains, capacity, NaiveRule::kLru));
      check_counts(replay_policy(trace, "fifo", capacity), naive_replay(chains, capacity, NaiveRule::kFifo));
      check_counts(replay_policy(trace, "lfu", capacity), naive_replay(chains, capacity, NaiveRule::kLfu));
      check_counts(replay_min(trace, capacity, false), naive_replay(chains, capacity, NaiveRule::kMin));
      check_counts(replay_min(trace, capacity, true), naive_replay(chains, capacity, NaiveRule::kMinBypass));
    }
  }
}

// No sequence of evictions whatever has more hits than MIN; with bypass, none that may leave own blocks out.
void min_is_the_most_that_can_be_hit() {
  std::mt19937_64 random(2);
  for (int i = 0; i < 150; ++i) {
    const PrefixTrace trace = to_trace(random_chains(random, 1 + random() % 7, 4, 2));
    for (std::uint32_t capacity = 2; capacity <= 5; ++capacity) {
      const Chains chains = chains_of(trace);
      CHECK_EQUAL(total(replay_min(trace, capacity, false).hit_blocks), most_hits(chains, capacity, false));
      CHECK_EQUAL(total(replay_min(trace, capacity, true).hit_blocks), most_hits(chains, capacity, true));
    }
  }
}

// One pass gives the hits of every request at every capacity above the longest request.
void stack_distances_equal_lru_at_all_capacities() {
  std::mt19937_64 random(3);
  for (int i = 0; i < 200; ++i) {
    const PrefixTrace trace = to_trace(random_chains(random, random() % 30, 8, 1 + random() % 4));
    const StackDistances distances(trace);
    CHECK_EQUAL(distances.block_references(), trace.block_references());
    std::vector<std::int64_t> capacities;
    std::vector<std::uint64_t> expected;
    for (std::uint32_t capacity = trace.longest_request() + 1; capacity < trace.unique_blocks() + 3; ++capacity) {
      const NaiveCounts naive = naive_replay(chains_of(trace), capacity, NaiveRule::kLru);
      CHECK_EQUAL(distances.request_hits_at(capacity), naive.hits);
      capacities.push_back(capacity);
      expected.push_back(total(naive.hits));
    }
    CHECK_EQUAL(distances.hits_at(capacities), expected);
  }
  const StackDistances distances(to_trace({{1}}));
  CHECK_THROWS(ConfigError, distances.hits_at(std::vector<std::int64_t>{1, 0}));
  CHECK_THROWS(ConfigError, distances.request_hits_at(-1));
}

// Flat rule: each reference is a request for one block without a prefix, in a cache that holds any block.
void flat_replay_equals_single_blocks() {
  std::mt19937_64 random(4);
  for (int i = 0; i < 200; ++i) {
    const PrefixTrace trace = to_trace(random_chains(random, 1 + random() % 15, 6, 1 + random() % 4));
    Chains single;
    for (const auto& chain : chains_of(trace)) {
      for (const std::uint32_t block : chain) single.push_back({block});
    }
    const auto check_flat = [&](const ReplayCounts& actual, const NaiveCounts& expected) {
      std::size_t at = 0;
      for (std::size_t r = 0; r < trace.requests(); ++r) {
        std::uint32_t hits = 0;
        for (std::uint32_t b = 0; b < trace.length(r); ++b) hits += expected.hits[at++];
        CHECK_EQUAL(actual.hit_blocks[r], hits);
      }
      CHECK_EQUAL(actual.evictions, expected.evictions);
    };
    for (std::uint32_t capacity = 2; capacity < 12; ++capacity) {  // naive_replay skips blocks in a cache of one
      for (const auto& [policy, rule] : {std::pair("lru", NaiveRule::kLru), std::pair("fifo", NaiveRule::kFifo)}) {
        check_flat(replay_policy(trace, policy, capacity, Rule::kFlat), naive_replay(single, capacity, rule));
      }
      // Several blocks that are never used again: which of them goes is open, so only hits and evictions are compared.
      const NaiveCounts min = naive_replay(single, capacity, NaiveRule::kMin);
      const ReplayCounts flat_min = replay_min(trace, capacity, false, Rule::kFlat);
      CHECK_EQUAL(total(flat_min.hit_blocks), total(min.hits));
      CHECK_EQUAL(flat_min.evictions, min.evictions);
      const NaiveCounts bypass = naive_replay(single, capacity, NaiveRule::kMinBypass);
      CHECK_EQUAL(total(replay_min(trace, capacity, true, Rule::kFlat).hit_blocks), total(bypass.hits));
    }
  }
}

void bad_arguments_are_refused() {
  const PrefixTrace trace = to_trace({{1, 2}, {1, 3}});
  const auto lru = [] { return make_policy(parse_policy("lru")); };
  const std::vector<Time> times = {0, 1};
  const std::vector<Time> back = {1, 0};
  const std::vector<std::int32_t> session = {1};
  RequestColumns with_session = only_time(times);
  with_session.session = session;
  CHECK_THROWS(ConfigError, replay_min(trace, 0, false));
  for (const Rule rule : {Rule::kPrefix, Rule::kFlat}) {
    const ReplayOptions options{.capacity = 8, .rule = rule};
    CHECK_THROWS(ConfigError, replay(trace, only_time(times), lru(), {.capacity = 0, .rule = rule}));
    CHECK_THROWS(TraceError, replay(trace, only_time(std::span(times).first(1)), lru(), options));
    CHECK_THROWS(TraceError, replay(trace, with_session, lru(), options));
    CHECK_THROWS(PoolError, replay(trace, only_time(back), lru(), options));
  }
}

// LRU, MIN and an infinite cache on a trace that can be followed by hand. Each letter is a block, each word a request.
//   ab  abc  de  ab  fgh  abc      capacity 5
// LRU: ab 0; abc hits ab, stores c (abc); de 0 (abcde, full); ab hits ab, order of last use is now c de ab; fgh needs
// 3:
//   c, e, d go; (abfgh); abc hits ab, c needs room: fgh is the oldest, its deepest is h. Hits 2 + 2 + 2 = 6,
//   evictions 4.
// MIN: at fgh the next uses are ab at 5, c at 5, de never: e and d go, then the deepest of those used at 5, which is c.
//   Last, abc hits ab, and of fgh, never used again, the deepest goes. Hits 6, evictions 4.
// With bypass: fgh comes to abcde: 3 must go, the deepest of those never used again: h, g or e, then what is left; abc
// stay.
//   So abc hits 3: hits 7, evictions 3. A cache of 100: ab, ab, ab + c: 2 + 2 + 3 = 7 hits, no evictions.
void golden_numbers() {
  const PrefixTrace trace =
      to_trace({{'a', 'b'}, {'a', 'b', 'c'}, {'d', 'e'}, {'a', 'b'}, {'f', 'g', 'h'}, {'a', 'b', 'c'}});
  const ReplayCounts lru = replay_policy(trace, "lru", 5);
  CHECK_EQUAL(lru.hit_blocks, (std::vector<std::uint32_t>{0, 2, 0, 2, 0, 2}));
  CHECK_EQUAL(lru.evictions, 4U);
  const ReplayCounts min = replay_min(trace, 5, false);
  CHECK_EQUAL(total(min.hit_blocks), 6U);
  CHECK_EQUAL(min.evictions, 4U);
  const ReplayCounts bypass = replay_min(trace, 5, true);
  CHECK_EQUAL(bypass.hit_blocks, (std::vector<std::uint32_t>{0, 2, 0, 2, 0, 3}));
  CHECK_EQUAL(bypass.evictions, 3U);
  const ReplayCounts infinite = replay_policy(trace, "lru", 100);
  CHECK_EQUAL(infinite.hit_blocks, (std::vector<std::uint32_t>{0, 2, 0, 2, 0, 3}));
  CHECK_EQUAL(infinite.evictions, 0U);
  CHECK_EQUAL(replay_policy(trace, "lru", 3).skipped, (std::vector<std::uint8_t>{0, 1, 0, 0, 1, 1}));
}

}  // namespace

int main() {
  return run_all({{"replay equals block by block", replay_equals_block_by_block},
                  {"MIN is the most that can be hit", min_is_the_most_that_can_be_hit},
                  {"stack distances equal LRU at all capacities", stack_distances_equal_lru_at_all_capacities},
                  {"flat replay equals single blocks", flat_replay_equals_single_blocks},
                  {"bad arguments are refused", bad_arguments_are_refused},
                  {"golden numbers", golden_numbers}});
}
