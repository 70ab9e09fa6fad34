// The C interface: what a caller may do wrong is answered, and what a pool does is what kvopt::BlockPool does.
#include <atomic>
#include <cmath>
#include <cstring>
#include <memory>
#include <random>
#include <thread>
#include <utility>
#include <vector>

#include "c_pool.hpp"
#include "check.hpp"
#include "kvopt/block_pool.hpp"
#include "kvopt/error.hpp"

namespace {

using namespace kvopt;
using namespace kvopt::test;

void handles_that_are_none_are_refused() {
  CPool one(8);
  CPool other(8);
  const kvopt_allocation held = one.acquire({1, 2});
  std::size_t hit = 0;
  CHECK_REFUSED(KVOPT_INVALID_HANDLE, kvopt_pool_match({}, nullptr, 0, &hit), "handle 0 is no live block pool");
  CHECK_REFUSED(KVOPT_INVALID_HANDLE, kvopt_pool_match({UINT64_MAX}, nullptr, 0, &hit), "no live block pool");
  CHECK_REFUSED(KVOPT_INVALID_HANDLE, kvopt_pool_match({held.id}, nullptr, 0, &hit), "no live block pool");
  CHECK_REFUSED(KVOPT_INVALID_HANDLE, kvopt_engine_destroy({one.pool.id}), "no live engine pool");
  CHECK_REFUSED(KVOPT_INVALID_HANDLE, other.release(held), "no live allocation of this pool");
  CHECK_REFUSED(KVOPT_INVALID_HANDLE, one.release({}), "handle 0");
  CHECK_REFUSED(KVOPT_INVALID_HANDLE, one.release({one.pool.id}), "no live allocation");
  CHECK_OK(one.release(held));
  CHECK_REFUSED(KVOPT_INVALID_HANDLE, one.release(held), "no live allocation");
  const kvopt_allocation next = one.acquire({1});  // in the same slot
  CHECK_REFUSED(KVOPT_INVALID_HANDLE, one.commit(held, {1}), "no live allocation");
  CHECK_OK(kvopt_pool_destroy(one.pool));
  CHECK_REFUSED(KVOPT_INVALID_HANDLE, one.release(next), "no live block pool");
  CHECK_REFUSED(KVOPT_INVALID_HANDLE, kvopt_pool_destroy(one.pool), "no live block pool");
}

void what_a_refused_call_names_does_not_change() {
  kvopt_pool_options options = c_options(4);
  options.lease_budget = 2;
  CPool p(options);
  const kvopt_allocation held = p.acquire({1, 2, 3});
  CHECK_OK(p.commit(held, {1, 2, 3}));
  const kvopt_pool_stats before = p.stats();
  kvopt_request_info info = c_info(p.now);
  kvopt_allocation second = {77};
  const std::uint64_t key = 9;
  std::uint64_t lease = 0;
  CHECK_REFUSED(KVOPT_NOT_ENOUGH, kvopt_pool_acquire(p.pool, &key, 1, 2, SIZE_MAX, 0, &info, &second, nullptr),
                "2 blocks");
  CHECK_REFUSED(KVOPT_POOL_ERROR, kvopt_pool_acquire(p.pool, &key, 1, 1, 1, 0, &(info = c_info(-1)), &second, nullptr),
                "go back");
  info = c_info(p.now);
  CHECK_REFUSED(KVOPT_CONFIG_ERROR, kvopt_pool_acquire(p.pool, &key, 1, 1, 1, 2, &info, &second, nullptr),
                "flags is 2");
  info.stop = 9;
  CHECK_REFUSED(KVOPT_CONFIG_ERROR, kvopt_pool_extend(p.pool, held, 1, 0, &info), "stop is 9");
  info = c_info(p.now);
  info.last_turn = 2;
  CHECK_REFUSED(KVOPT_CONFIG_ERROR, kvopt_pool_release(p.pool, held, &info), "last_turn is 2");
  CHECK_REFUSED(KVOPT_LEASE_ERROR, kvopt_pool_lease(p.pool, held, 3, 10, p.now, &lease), "budget of 2");
  CHECK_REFUSED(KVOPT_LEASE_ERROR, kvopt_pool_end_lease(p.pool, 12345, p.now), "12345");
  CHECK_REFUSED(KVOPT_CONFIG_ERROR, kvopt_pool_retain(p.pool, held, 0, 1, 101, 1, 0, p.now), "priority is 101");
  CHECK_REFUSED(KVOPT_CONFIG_ERROR, kvopt_pool_retain(p.pool, held, 0, 1, 50, 1, 2, p.now), "lifetime is 2");
  CHECK_REFUSED(KVOPT_POOL_ERROR, kvopt_pool_reset(p.pool), "hold");
  std::uint32_t block = 400;
  CHECK_REFUSED(KVOPT_STALE_BLOCK, kvopt_pool_forget(p.pool, &block, 1), "400");
  CHECK_REFUSED(KVOPT_POOL_ERROR, kvopt_pool_blocks(p.pool, held, &block, 1), "room for 1");
  CHECK_EQUAL(second.id, 77U);
  const kvopt_pool_stats after = p.stats();
  CHECK(std::memcmp(&before, &after, sizeof before) == 0);
}

void structures_of_other_sizes_are_checked() {
  struct {
    kvopt_pool_options known;
    std::uint64_t later;
  } longer = {c_options(4), 0};
  kvopt_pool pool;
  longer.known.size = sizeof longer;
  CHECK_OK(kvopt_pool_create(KVOPT_API_VERSION, &longer.known, &pool));
  CHECK_OK(kvopt_pool_destroy(pool));
  longer.later = 1;
  CHECK_REFUSED(KVOPT_VERSION_MISMATCH, kvopt_pool_create(KVOPT_API_VERSION, &longer.known, &pool), "does not know");
  CHECK_OK(kvopt_pool_options_init(&longer.known, sizeof longer));
  CHECK_EQUAL(longer.known.size, sizeof longer);
  CHECK_EQUAL(longer.later, 0U);
  for (const std::size_t size : {std::size_t{0}, sizeof longer.known - 1, std::size_t{5000}, SIZE_MAX}) {
    longer.known.size = size;
    CHECK_REFUSED(KVOPT_VERSION_MISMATCH, kvopt_pool_create(KVOPT_API_VERSION, &longer.known, &pool), "bytes");
    CHECK_REFUSED(KVOPT_VERSION_MISMATCH, kvopt_pool_options_init(&longer.known, size), "bytes");
  }
  CHECK_OK(kvopt_check_version(KVOPT_API_VERSION));
  const kvopt_pool_options options = c_options(4);
  CHECK_REFUSED(KVOPT_VERSION_MISMATCH, kvopt_pool_create(99, &options, &pool), "version 99");
}

// What a policy of functions is asked, and what it does.
struct Ranking {
  std::vector<double> ranks;  // by the first key of a run
  kvopt_pool pool = {};
  kvopt_status inside = KVOPT_OK;
  int destroyed = 0;

  static double rank(void* user, const kvopt_run* run, double /*now*/) {
    auto& self = *static_cast<Ranking*>(user);
    if (self.pool.id != 0) self.inside = kvopt_pool_reset(self.pool);
    return self.ranks[run->key];
  }
  static void end(void* user) { ++static_cast<Ranking*>(user)->destroyed; }

  kvopt_policy_functions functions() {
    kvopt_policy_functions f;
    CHECK_OK(kvopt_policy_functions_init(&f, sizeof f));
    f.user = this;
    f.rank = rank;
    f.destroyed = end;
    return f;
  }
};

void a_policy_of_functions_decides() {
  Ranking ranking{.ranks = {5, 4, 9, 7}};
  kvopt_policy_functions functions = ranking.functions();
  kvopt_pool_options options = c_options(4, nullptr);
  options.functions = &functions;
  options.block_tokens = 0;
  kvopt_pool none;
  CHECK_REFUSED(KVOPT_CONFIG_ERROR, kvopt_pool_create(KVOPT_API_VERSION, &options, &none), "block_tokens");
  CHECK_EQUAL(ranking.destroyed, 0);
  options.block_tokens = 16;
  {
    CPool p(options);
    for (std::uint64_t key = 0; key < 4; ++key) p.serve({key});
    std::vector<std::size_t> kept;
    for (int evicted = 0; evicted < 3; ++evicted) {
      CHECK_OK(kvopt_pool_evict(p.pool, 1, p.now, nullptr));
      for (std::uint64_t key = 0; key < 4; ++key) kept.push_back(p.match({key}));
    }
    CHECK_EQUAL(kept, (std::vector<std::size_t>{1, 0, 1, 1, 0, 0, 1, 1, 0, 0, 1, 0}));
    ranking.pool = p.pool;
    p.serve({2});
    CHECK_EQUAL(ranking.inside, KVOPT_BUSY);
    ranking.ranks[2] = NAN;
    p.serve({2});
    CHECK_REFUSED(KVOPT_POLICY_ERROR, kvopt_pool_evict(p.pool, 1, p.now, nullptr), "NaN");
    CHECK_EQUAL(p.match({2}), 1U);
  }
  CHECK_EQUAL(ranking.destroyed, 1);
  functions.rank = nullptr;
  CHECK_REFUSED(KVOPT_NULL_POINTER, kvopt_pool_create(KVOPT_API_VERSION, &options, &none), "functions.rank");
}

// Random requests, on a pool in C and one in C++: every answer is the same, refusals included.
void a_pool_does_what_its_core_does() {
  std::mt19937_64 random(7);
  const auto draw = [&](std::size_t below) { return random() % below; };
  for (const char* policy : {"lru", "cost-aware", "priority"}) {
    kvopt_pool_options options = c_options(24, policy);
    options.key_bytes = 12;
    CPool p(options);
    BlockPool core({.capacity = 24, .key_bytes = 12}, make_policy(parse_policy(policy)));
    std::vector<std::pair<kvopt_allocation, Allocation>> held;
    std::size_t refused = 0;
    for (int step = 0; step < 4000; ++step) {
      kvopt_request_info info = c_info(step);
      info.session = static_cast<std::int32_t>(draw(6));
      info.stop = static_cast<std::int32_t>(draw(5));
      const RequestInfo known{.now = info.now, .session = info.session, .stop = static_cast<StopReason>(info.stop)};
      std::vector<std::uint8_t> bytes(12 * (1 + draw(12)), static_cast<std::uint8_t>(draw(5)));
      std::vector<std::uint64_t> digests;
      for (std::size_t i = 0; i < bytes.size(); i += 12) {
        bytes[i] = static_cast<std::uint8_t>(i / 12);
        digests.push_back(key_digest(&bytes[i], 12));
      }
      const Keys keys{.hashes = digests.data(), .bytes = bytes.data(), .count = digests.size()};
      if (held.size() < 4 && draw(2) == 0) {
        auto& [handle, allocation] = held.emplace_back();
        std::size_t hit = 0;
        const kvopt_status status =
            kvopt_pool_acquire(p.pool, bytes.data(), keys.count, keys.count, SIZE_MAX, 0, &info, &handle, &hit);
        try {
          core.acquire(allocation, keys, keys.count, known);
          CHECK_EQUAL(status, KVOPT_OK);
          CHECK_EQUAL(hit, allocation.hit());
          const std::size_t left = (keys.count - hit) * draw(2);
          const Keys rest{.hashes = keys.hashes + hit, .bytes = keys.bytes + 12 * hit, .count = left};
          CHECK_OK(kvopt_pool_commit(p.pool, handle, rest.bytes, left, &info));
          core.commit(allocation, rest, known);
        } catch (const NotEnoughBlocksError& e) {
          CHECK_REFUSED(KVOPT_NOT_ENOUGH, status, e.what());
          held.pop_back();
          ++refused;
        }
      } else if (!held.empty()) {
        auto& [handle, allocation] = held[draw(held.size())];
        std::vector<BlockId> ours(allocation.size());
        std::vector<BlockId> theirs(ours.size());
        CHECK_OK(kvopt_pool_blocks(p.pool, handle, ours.data(), ours.size()));
        core.blocks_of(allocation, theirs);
        CHECK_EQUAL(ours, theirs);
        CHECK_OK(kvopt_pool_release(p.pool, handle, &info));
        core.release(allocation, known);
        std::erase_if(held, [](const auto& pair) { return !pair.second.live(); });
      }
      const PoolStats stats = core.stats();
      CHECK_EQUAL(p.stats().evicted_blocks, stats.dropped[0]);
    }
    CHECK(refused > 0);
    CHECK(p.stats().evicted_blocks > 500);
    std::size_t violations = 99;
    CHECK_OK(kvopt_pool_verify(p.pool, &violations, nullptr, 0));
    CHECK_EQUAL(violations, 0U);
    for (auto& [handle, allocation] : held) core.release(allocation, {.now = 4000});
  }
}

// Several threads serve one pool and end pools of their own; one destroys the shared pool under the others.
void threads_take_turns() {
  auto shared = std::make_unique<CPool>(64);
  std::vector<std::thread> threads;
  threads.reserve(3);
  std::atomic<std::uint64_t> served = 0;
  std::atomic<int> wrong = 0;
  for (std::uint64_t thread = 0; thread < 3; ++thread) {
    threads.emplace_back([&, thread] {
      const kvopt_pool pool = shared->pool;
      for (std::uint64_t i = 0;; ++i) {
        const CPool own(4);
        const std::vector<std::uint64_t> keys = {1, 2, 100 * thread + i % 7};
        kvopt_request_info info = c_info(0);
        kvopt_allocation allocation;
        std::size_t hit = 0;
        kvopt_status status =
            kvopt_pool_acquire(pool, keys.data(), keys.size(), keys.size(), SIZE_MAX, 0, &info, &allocation, &hit);
        if (status == KVOPT_OK) status = kvopt_pool_commit(pool, allocation, keys.data() + hit, 3 - hit, &info);
        if (status == KVOPT_OK) status = kvopt_pool_release(pool, allocation, &info);
        if (status == KVOPT_INVALID_HANDLE) return;
        if (status != KVOPT_OK || i > 10'000'000) {
          ++wrong;
          return;
        }
        ++served;
      }
    });
  }
  while (served < 3000 && wrong == 0) std::this_thread::yield();
  const kvopt_pool_stats stats = shared->stats();
  shared.reset();
  for (std::thread& thread : threads) thread.join();
  CHECK_EQUAL(wrong.load(), 0);
  CHECK(stats.requests >= 3000);
  CHECK_EQUAL(stats.capacity, stats.empty + stats.evictable + stats.referenced + stats.leased);
}

}  // namespace

int main() {
  return run_all({{"handles that are none are refused", handles_that_are_none_are_refused},
                  {"what a refused call names does not change", what_a_refused_call_names_does_not_change},
                  {"structures of other sizes are checked", structures_of_other_sizes_are_checked},
                  {"a policy of functions decides", a_policy_of_functions_decides},
                  {"a pool does what its core does", a_pool_does_what_its_core_does},
                  {"threads take turns", threads_take_turns}});
}
