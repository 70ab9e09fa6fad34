// What the pool promises, case by case, on pools small enough to follow by hand.
#include <algorithm>
#include <type_traits>
#include <utility>

#include "check.hpp"
#include "kvopt/error.hpp"
#include "server.hpp"

namespace {

using namespace kvopt;
using namespace kvopt::test;

void a_prefix_is_hit_up_to_the_fork() {
  Server s({.capacity = 10});
  s.serve({1, 2, 3, 4});
  CHECK_EQUAL(s.match({1, 2, 3, 4, 5}), 4U);
  CHECK_EQUAL(s.match({1, 2, 9}), 2U);
  CHECK_EQUAL(s.match({2, 3}), 0U);
  s.serve({1, 2, 9});
  CHECK_EQUAL(s.match({1, 2, 9}), 3U);
  CHECK_EQUAL(s.match({1, 2, 3, 4}), 4U);
  CHECK_EQUAL(s.pool.stats().runs, 3U);  // 1 2, then 3 4 and 9
  CHECK_EQUAL(s.pool.counts().evictable, 5U);
}

// Least recently used first, and of one request the deepest block first, also within one call.
void victims_come_deepest_first() {
  Server s({.capacity = 4});
  Allocation a = s.hold({1, 2, 3, 4});
  std::vector<BlockId> ids = s.blocks(a);
  s.release(a);
  std::vector<BlockId> victims = s.pool.evict(1, s.now);
  for (const BlockId id : s.pool.evict(3, s.now)) victims.push_back(id);
  std::ranges::reverse(ids);
  CHECK_EQUAL(victims, ids);
  CHECK_EQUAL(s.dropped(DropReason::kExplicit), 4U);
}

// Two requests that did not know of each other store the same blocks; what only one of them has behind is still hit.
void duplicates_are_hit_wherever_they_go_on() {
  Server s({.capacity = 12});
  Allocation a = s.acquire({1, 2, 3});
  Allocation b = s.acquire({1, 2, 9});
  s.commit(a, {1, 2, 3});
  s.commit(b, {1, 2, 9});
  CHECK_EQUAL(s.match({1, 2, 9}), 3U);
  CHECK_EQUAL(s.match({1, 2, 3}), 3U);
  s.release(a);
  s.release(b);
  CHECK_EQUAL(s.match({1, 2, 9}), 3U);
  Allocation c = s.acquire({1, 2, 9, 10});
  CHECK_EQUAL(c.hit(), 3U);
}

// A key is compared in full: equal digests are not equal keys.
void digests_may_collide() {
  Server s({.capacity = 8, .key_bytes = 16});
  const Numbers digests = {7, 7, 7};
  std::vector<std::uint8_t> bytes(48);
  for (std::size_t i = 0; i < 3; ++i) bytes[i * 16] = static_cast<std::uint8_t>(i + 1);
  const Keys keys{.hashes = digests.data(), .bytes = bytes.data(), .count = 3};
  Allocation a;
  s.pool.acquire(a, keys, 3, {});
  s.pool.commit(a, keys, {});
  s.release(a);
  CHECK_EQUAL(s.pool.match(keys), 3U);
  bytes[16] = 9;
  CHECK_EQUAL(s.pool.match(keys), 1U);
  bytes[0] = 9;
  CHECK_EQUAL(s.pool.match(keys), 0U);
}

// Not enough room: nothing is hit, nothing evicted, nothing held.
void a_refused_request_changes_nothing() {
  Server s({.capacity = 6});
  Allocation held = s.hold({1, 2, 3});
  s.serve({7, 8});
  const PoolStats before = s.pool.stats();
  Allocation refused;
  const Numbers wanted = {7, 8, 9, 10};
  CHECK_THROWS(NotEnoughBlocksError, s.pool.acquire(refused, Server::keys(wanted), 4, {}));
  CHECK_THROWS(NotEnoughBlocksError, s.pool.extend(held, 4, {}));
  CHECK_THROWS(NotEnoughBlocksError, s.pool.evict(3, 0));
  CHECK(!refused.live());
  CHECK_EQUAL(s.pool.stats().counts.evictable, before.counts.evictable);
  CHECK_EQUAL(s.pool.stats().requests, before.requests);
  CHECK_EQUAL(s.match({7, 8}), 2U);
  s.pool.extend(held, 3, {});  // one empty, both evictable
  CHECK_EQUAL(s.match({7, 8}), 0U);
}

// A probe tells what is cached and how much of it a request would take from the evictable blocks; an eviction, how long
// what it took had been idle.
void probes_and_evictions_tell_what_they_took() {
  for (const Rule rule : {Rule::kPrefix, Rule::kFlat}) {
    Server s({.capacity = 6, .rule = rule});
    s.now = 2.0;
    s.serve({1, 2, 3, 4});
    Allocation held = s.hold({1, 2, 9});
    const Numbers wanted = {1, 2, 3, 4, 5};
    const BlockPool::Probe probe = s.pool.probe(Server::keys(wanted));
    CHECK_EQUAL(probe.hit, 4U);
    CHECK_EQUAL(probe.idle, 2U);
    s.pool.extend(held, 3, {.now = 10.0});  // one empty, both of the others
    CHECK_EQUAL(s.pool.evicted().blocks, 2U);
    CHECK_EQUAL(s.pool.evicted().idle_s, 16.0);
    CHECK_EQUAL(s.pool.evicted().hits, 0U);
    s.pool.release(held, {.now = 12.0});
    s.pool.evict(1, 13.0);
    CHECK_EQUAL(s.pool.evicted().blocks, 1U);
    CHECK_EQUAL(s.pool.evicted().idle_s, 1.0);
  }
}

// Blocks without a key are empty as soon as they are released, and used before anything is evicted.
void blocks_without_a_key_go_first() {
  Server s({.capacity = 4});
  s.serve({1, 2});
  Allocation a = s.acquire({8, 9});
  s.release(a);
  CHECK_EQUAL(s.pool.counts().empty, 2U);
  a = s.acquire({8, 9});
  CHECK_EQUAL(s.match({1, 2}), 2U);
  CHECK_EQUAL(s.dropped(DropReason::kCapacity), 0U);
}

// Forgotten: all that stands behind goes with it; who holds it keeps it; nothing stored behind it later is hit either.
void forgotten_content_is_never_hit() {
  for (const PolicyInfo& policy : policies()) {
    if (policy.offline) continue;
    Server s({.capacity = 12}, policy.name);
    s.serve({1, 2, 3, 4});
    s.serve({1, 2, 9});
    Allocation held = s.hold({1, 2, 3, 4, 5});
    const std::vector<BlockId> ids = s.blocks(held);
    s.pool.forget(std::vector{ids[2]});
    CHECK_EQUAL(s.match({1, 2, 3, 4, 5}), 2U);
    CHECK_EQUAL(s.match({1, 2, 9}), 3U);
    CHECK_EQUAL(s.blocks(held), ids);
    CHECK_THROWS(StaleBlockError, s.pool.forget(std::vector{ids[3]}));
    s.pool.extend(held, 1, {});
    s.commit(held, {6});
    CHECK_EQUAL(s.match({1, 2, 3, 4, 5, 6}), 2U);
    s.serve({1, 2, 3});  // stored anew, beside what is forgotten
    CHECK_EQUAL(s.match({1, 2, 3, 4}), 3U);
    s.release(held);
    CHECK_EQUAL(s.pool.counts().empty, 12U - 4U);
    CHECK_EQUAL(s.dropped(DropReason::kForgotten), 3U);
  }
}

// Forgotten while it is held: it counts in no queue of a policy from that moment on, which verify() asks.
void what_is_forgotten_counts_nowhere() {
  for (const PolicyInfo& policy : policies()) {
    if (policy.offline) continue;
    Server s({.capacity = 64, .lease_budget = 8}, policy.name);
    for (std::uint64_t key = 100; key < 160; key += 4) s.serve({key, key + 1, key + 2});
    Allocation held = s.hold({1, 2, 3, 4, 5});
    s.release(held);
    held = s.hold({1, 2, 3, 4, 5, 6});  // a hit, by which it may have gone to another queue
    s.pool.lease(held, 4, 10, s.now);
    s.pool.forget(std::vector{s.blocks(held)[1]});
    CHECK_EQUAL(s.pool.verify(), std::vector<std::string>{});
    s.serve({7, 8, 9});
    CHECK_EQUAL(s.pool.verify(), std::vector<std::string>{});
    s.release(held);
    s.pool.expire(s.now = 10);
    CHECK_EQUAL(s.pool.verify(), std::vector<std::string>{});
    CHECK_EQUAL(s.match({1, 2}), 1U);
    for (std::uint64_t key = 200; key < 400; key += 4) s.serve({key, key + 1, key + 2, key + 3});
    CHECK_EQUAL(s.pool.verify(), std::vector<std::string>{});
  }
}

// Cutting several runs at once, where ids of runs that are given up are used again at once.
void forgetting_leaves_every_order_whole() {
  for (const PolicyInfo& policy : policies()) {
    if (policy.offline) continue;
    Server s({.capacity = 12}, policy.name);
    s.serve({1, 2, 3, 4, 5});
    Allocation a = s.hold({1, 2, 3, 4, 5});
    const std::vector<BlockId> ids = s.blocks(a);
    s.release(a);
    s.serve({1, 2, 3, 8});
    s.pool.forget(std::vector{ids[1], ids[4]});
    CHECK_EQUAL(s.pool.verify(), std::vector<std::string>{});
    CHECK_EQUAL(s.match({1, 2, 3}), 1U);
    CHECK_EQUAL(s.pool.evict(1, s.now).size(), 1U);
  }
}

// Flat rule: blocks are hit as far as each is there, wherever they stood before; no block covers another.
void flat_blocks_stand_alone() {
  Server s({.capacity = 4, .rule = Rule::kFlat});
  s.serve({1, 2, 3});
  CHECK_EQUAL(s.match({3, 1, 2, 4}), 3U);
  CHECK_EQUAL(s.match({4, 1}), 0U);
  Allocation a = s.acquire({2, 2, 2});  // one block, three times
  CHECK_EQUAL(a.hit(), 3U);
  CHECK_EQUAL(s.pool.counts().referenced, 1U);
  Allocation b;
  const Numbers wanted = {2, 3, 2, 5};
  s.pool.acquire(b, Server::keys(wanted), 4, {});
  CHECK_EQUAL(b.hit(), 3U);
  s.release(a);
  CHECK_EQUAL(s.pool.counts().referenced, 3U);
}

// A key that is named twice speaks for one evictable block, not two.
void flat_repeats_are_counted_once() {
  Server s({.capacity = 5, .rule = Rule::kFlat});
  s.serve({5});
  Allocation held = s.acquire({1, 2, 3, 4});
  Allocation a;
  const Numbers wanted = {5, 5, 5, 6, 7};
  CHECK_THROWS(NotEnoughBlocksError, s.pool.acquire(a, Server::keys(wanted), 5, {}));
  CHECK_EQUAL(s.pool.counts().evictable, 1U);
}

// What a request holds cannot be copied, so it is let go of once; what was moved from holds nothing.
static_assert(!std::is_copy_constructible_v<Allocation> && !std::is_copy_assignable_v<Allocation>);

void an_allocation_is_released_once() {
  Server s({.capacity = 4});
  Allocation a = s.hold({1, 2});
  Allocation b = std::move(a);
  CHECK_THROWS(StaleBlockError, s.pool.release(a, {}));  // NOLINT(bugprone-use-after-move): what is tested
  CHECK_EQUAL(b.size(), 2U);
  s.release(b);
  CHECK_THROWS(StaleBlockError, s.pool.release(b, {}));
  CHECK_EQUAL(s.pool.counts().evictable, 2U);
}

// As many may hold a prefix as can be counted, and nobody more; leases count too.
void holders_are_counted_to_a_limit() {
  for (const Rule rule : {Rule::kPrefix, Rule::kFlat}) {
    const Numbers prompt = {1, 2};
    std::vector<Allocation> holders(kMostReferences);
    BlockPool pool({.capacity = 8, .rule = rule, .lease_budget = 4}, make_policy(parse_policy("lru")));
    for (Allocation& holder : holders) {
      pool.acquire(holder, Server::keys(prompt), 2, {});
      pool.commit(holder, {.hashes = prompt.data() + holder.hit(), .count = 2 - holder.hit()}, {});
    }
    Allocation refused;
    CHECK_THROWS(ReferenceCountError, pool.acquire(refused, Server::keys(prompt), 2, {}));
    CHECK_THROWS(ReferenceCountError, pool.lease(holders[0], 1, 1, 0));
    CHECK(!refused.live());
    CHECK_EQUAL(pool.verify(), std::vector<std::string>{});
    pool.release(holders.back(), {});
    pool.lease(holders[0], 2, 1, 0);
    CHECK_THROWS(ReferenceCountError, pool.acquire(refused, Server::keys(prompt), 2, {}));
    pool.release(holders[1], {});
    pool.acquire(refused, Server::keys(prompt), 2, {});
    CHECK_EQUAL(pool.counts().referenced, 2U);
  }
}

// An allocation that another pool made, or that was released, is refused everywhere.
void handles_go_stale() {
  Server s({.capacity = 4});
  Server other({.capacity = 4});
  Allocation a = s.hold({1, 2});
  CHECK_THROWS(StaleBlockError, other.pool.release(a, {}));
  CHECK_THROWS(StaleBlockError, other.blocks(a));
  s.release(a);
  CHECK_THROWS(StaleBlockError, s.pool.release(a, {}));
  CHECK_THROWS(StaleBlockError, s.pool.lease(a, 1, 1, 0));
  std::vector<BlockId> small(1);
  a = s.acquire({1, 2});
  CHECK_THROWS(PoolError, s.pool.blocks_of(a, small));
}

void options_are_checked() {
  const auto make = [](const PoolOptions& options) { const Server s(options); };
  CHECK_THROWS(ConfigError, make({.capacity = 0}));
  CHECK_THROWS(ConfigError, make({.capacity = UINT32_MAX}));
  CHECK_THROWS(ConfigError, make({.capacity = 4, .key_bytes = 65}));
  CHECK_THROWS(ConfigError, make({.capacity = 4, .lease_budget = 4}));
  CHECK_THROWS(ConfigError, BlockPool({.capacity = 4}, nullptr));
  CHECK_THROWS(UnknownPolicyError, parse_policy("lruu"));
  CHECK_THROWS(ConfigError, parse_policy("lru:size=1"));
  CHECK_THROWS(ConfigError, make_policy(parse_policy("min")));
}

}  // namespace

int main() {
  return run_all({{"a prefix is hit up to the fork", a_prefix_is_hit_up_to_the_fork},
                  {"victims come deepest first", victims_come_deepest_first},
                  {"duplicates are hit wherever they go on", duplicates_are_hit_wherever_they_go_on},
                  {"digests may collide", digests_may_collide},
                  {"a refused request changes nothing", a_refused_request_changes_nothing},
                  {"probes and evictions tell what they took", probes_and_evictions_tell_what_they_took},
                  {"blocks without a key go first", blocks_without_a_key_go_first},
                  {"forgotten content is never hit", forgotten_content_is_never_hit},
                  {"what is forgotten counts nowhere", what_is_forgotten_counts_nowhere},
                  {"forgetting leaves every order whole", forgetting_leaves_every_order_whole},
                  {"flat blocks stand alone", flat_blocks_stand_alone},
                  {"flat repeats are counted once", flat_repeats_are_counted_once},
                  {"an allocation is released once", an_allocation_is_released_once},
                  {"holders are counted to a limit", holders_are_counted_to_a_limit},
                  {"handles go stale", handles_go_stale},
                  {"options are checked", options_are_checked}});
}
