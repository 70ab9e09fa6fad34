// The C interface of kvopt::BlockPool: its life, what it holds, how it is.
#include "kvopt/block_pool.hpp"

#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include "capi/arguments.hpp"
#include "capi/pool_state.hpp"
#include "capi/structures.hpp"
#include "capi/text.hpp"
#include "kvopt/error.hpp"

using namespace kvopt;
using namespace kvopt::capi;

namespace {

kvopt_pool_options default_options() {
  const PoolOptions options;
  return {.size = sizeof(kvopt_pool_options),
          .policy = "lru",
          .functions = nullptr,
          .capacity = options.capacity,
          .rule = KVOPT_RULE_PREFIX,
          .key_bytes = options.key_bytes,
          .lease_budget = options.lease_budget,
          .retention = 0,
          .block_tokens = options.block_tokens,
          .p_star = options.p_star};
}

std::shared_ptr<PoolState> make_pool(const kvopt_pool_options& given) {
  if (given.rule > KVOPT_RULE_FLAT) {
    throw ConfigError("rule is " + std::to_string(given.rule) + "; it must be 0 (prefix) or 1 (flat)");
  }
  const PoolOptions options{.capacity = given.capacity,
                            .rule = given.rule == KVOPT_RULE_FLAT ? Rule::kFlat : Rule::kPrefix,
                            .key_bytes = given.key_bytes,
                            .lease_budget = given.lease_budget,
                            .retention = to_bool(given.retention, "retention"),
                            .block_tokens = given.block_tokens,
                            .p_star = given.p_star};
  check(options);
  if (given.functions == nullptr) check_not_null(given.policy, "options.policy");
  return std::make_shared<PoolState>(options, to_policy(given.policy, given.functions));
}

}  // namespace

kvopt_status kvopt_pool_options_init(kvopt_pool_options* options, size_t size) {
  return answer([&] { write(options, size, "options", default_options()); });
}

kvopt_status kvopt_pool_create(uint32_t api_version, const kvopt_pool_options* options, kvopt_pool* pool) {
  const kvopt_status version = kvopt_check_version(api_version);
  if (version != KVOPT_OK) return version;
  return answer([&] {
    check_not_null(pool, "pool");
    pool->id = Registry<PoolState>::instance().add(make_pool(read(options, "options", default_options())));
  });
}

kvopt_status kvopt_pool_destroy(kvopt_pool pool) {
  return answer([&] { Registry<PoolState>::instance().close(pool.id); });
}

kvopt_status kvopt_pool_expire(kvopt_pool pool, double now, size_t* ended) {
  return on_pool(pool, [&](PoolState& state) {
    const std::size_t due = state.pool.expire(now);
    if (ended != nullptr) *ended = due;
  });
}

kvopt_status kvopt_pool_evict(kvopt_pool pool, size_t n, double now, uint32_t* victims) {
  return on_pool(pool, [&](PoolState& state) {
    const std::vector<BlockId> evicted = state.pool.evict(n, now);
    if (victims != nullptr) std::ranges::copy(evicted, victims);
  });
}

kvopt_status kvopt_pool_forget(kvopt_pool pool, const uint32_t* blocks, size_t count) {
  return on_pool(pool, [&](PoolState& state) {
    check_array(blocks, count, "blocks");
    state.pool.forget({blocks, count});
  });
}

kvopt_status kvopt_pool_reset(kvopt_pool pool) {
  return on_pool(pool, [](PoolState& state) { state.pool.clear(); });
}

kvopt_status kvopt_pool_save_state(kvopt_pool pool, void* state, size_t capacity, size_t* length) {
  return on_pool(pool, [&](PoolState& p) {
    check_not_null(length, "length");
    const std::string saved = p.pool.policy().save_state();
    if (state != nullptr && saved.size() <= capacity) std::ranges::copy(saved, static_cast<char*>(state));
    *length = saved.size();
  });
}

kvopt_status kvopt_pool_load_state(kvopt_pool pool, const void* state, size_t length) {
  return on_pool(pool, [&](PoolState& p) {
    check_array(state, length, "state");
    p.pool.policy().load_state({static_cast<const char*>(state), length});
  });
}

kvopt_status kvopt_pool_get_stats(kvopt_pool pool, kvopt_pool_stats* stats) {
  return on_pool(pool, [&](PoolState& state) {
    check_not_null(stats, "stats");
    const PoolStats s = state.pool.stats();
    const auto dropped = [&](DropReason reason) { return s.dropped[static_cast<std::size_t>(reason)]; };
    const kvopt_pool_stats values = {.size = stats->size,
                                     .capacity = s.counts.capacity,
                                     .empty = s.counts.empty,
                                     .evictable = s.counts.evictable,
                                     .referenced = s.counts.referenced,
                                     .leased = s.counts.leased,
                                     .runs = s.runs,
                                     .requests = s.requests,
                                     .hit_blocks = s.hit_blocks,
                                     .new_blocks = s.new_blocks,
                                     .stored_blocks = s.stored_blocks,
                                     .evicted_blocks = dropped(DropReason::kCapacity),
                                     .explicit_blocks = dropped(DropReason::kExplicit),
                                     .cleared_blocks = dropped(DropReason::kCleared),
                                     .forgotten_blocks = dropped(DropReason::kForgotten),
                                     .leases_expired = s.leases_expired,
                                     .leases_reclaimed = s.leases_reclaimed,
                                     .retentions_expired = s.retentions_expired,
                                     .bytes = s.bytes};
    write(stats, stats->size, "stats", values);
  });
}

kvopt_status kvopt_pool_verify(kvopt_pool pool, size_t* violations, char* text, size_t capacity) {
  return on_pool(pool, [&](PoolState& state) {
    check_not_null(violations, "violations");
    const std::vector<std::string> broken = state.pool.verify();
    write_text(lines(broken), text, capacity);
    *violations = broken.size();
  });
}
