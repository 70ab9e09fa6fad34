// The C interface of kvopt::EnginePool.
#include "kvopt/engine_pool.hpp"

#include <cmath>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "capi/arguments.hpp"
#include "capi/registry.hpp"
#include "capi/status.hpp"
#include "capi/structures.hpp"
#include "capi/text.hpp"
#include "kvopt/error.hpp"
#include "kvopt/kvopt.h"

using namespace kvopt;
using namespace kvopt::capi;

namespace {

struct EngineState {
  static constexpr const char* kKind = "engine pool";

  EngineState(const EngineOptions& options, std::unique_ptr<Policy> policy) : pool(options, std::move(policy)) {}

  // Throws PoolError when time goes back.
  RequestInfo info(const kvopt_request_info* given) const {
    const RequestInfo known = to_info(given);
    if (std::isfinite(known.now) && known.now >= now) return known;
    throw PoolError("time " + std::to_string(known.now) + " s: the clock must be finite and not go back (last " +
                    std::to_string(now) + " s)");
  }

  // Pointers to hashes that lie side by side; valid until the next call.
  const std::vector<const std::uint8_t*>& each(const std::uint8_t* given, std::size_t count, std::size_t hash_bytes) {
    constexpr std::size_t kMost = kMostKeyBytes - kGroupBytes;
    if (hash_bytes < 1 || hash_bytes > kMost) {
      throw ConfigError("hash_bytes is " + std::to_string(hash_bytes) + "; it must be 1 to " + std::to_string(kMost));
    }
    check_array(given, count, "hashes");
    hashes.resize(count);
    for (std::size_t i = 0; i < count; ++i) hashes[i] = given + i * hash_bytes;
    return hashes;
  }

  Turns turns;
  bool closed = false;
  EnginePool pool;
  Time now = -kNever;
  std::vector<const std::uint8_t*> hashes;  // scratch
};

template <class Call>
kvopt_status on_engine(kvopt_engine_pool pool, Call call) noexcept {
  return answer([&] { Registry<EngineState>::instance().call(pool.id, call); });
}

kvopt_engine_options default_options() {
  const EngineOptions options;
  return {.size = sizeof(kvopt_engine_options),
          .policy = nullptr,
          .functions = nullptr,
          .blocks = options.blocks,
          .caching = 1,
          .block_tokens = options.block_tokens,
          .reserved = 0,
          .p_star = options.p_star};
}

kvopt_full_blocks no_full_blocks() {
  const FullBlocks full;
  return {.size = sizeof(kvopt_full_blocks),
          .blocks = nullptr,
          .hashes = nullptr,
          .count = 0,
          .hash_bytes = 0,
          .first = full.first,
          .before = full.before,
          .group = full.group,
          .block_tokens = full.block_tokens};
}

}  // namespace

kvopt_status kvopt_engine_options_init(kvopt_engine_options* options, size_t size) {
  return answer([&] { write(options, size, "options", default_options()); });
}

kvopt_status kvopt_full_blocks_init(kvopt_full_blocks* full, size_t size) {
  return answer([&] { write(full, size, "full", no_full_blocks()); });
}

kvopt_status kvopt_engine_create(uint32_t api_version, const kvopt_engine_options* options, kvopt_engine_pool* pool) {
  const kvopt_status version = kvopt_check_version(api_version);
  if (version != KVOPT_OK) return version;
  return answer([&] {
    check_not_null(pool, "pool");
    const kvopt_engine_options given = read(options, "options", default_options());
    const EngineOptions checked{.blocks = given.blocks,
                                .caching = to_bool(given.caching, "caching"),
                                .block_tokens = given.block_tokens,
                                .p_star = given.p_star};
    EnginePool::check(checked);
    auto state = std::make_shared<EngineState>(checked, to_policy(given.policy, given.functions));
    pool->id = Registry<EngineState>::instance().add(std::move(state));
  });
}

kvopt_status kvopt_engine_destroy(kvopt_engine_pool pool) {
  return answer([&] { Registry<EngineState>::instance().close(pool.id); });
}

kvopt_status kvopt_engine_take(kvopt_engine_pool pool, uint32_t* blocks, size_t n, const kvopt_request_info* info) {
  return on_engine(pool, [&](EngineState& state) {
    check_array(blocks, n, "blocks");
    const RequestInfo known = state.info(info);
    state.pool.take({blocks, n}, known);
    state.now = known.now;
  });
}

kvopt_status kvopt_engine_hold(kvopt_engine_pool pool, const uint32_t* blocks, size_t n, uint32_t hit,
                               const kvopt_request_info* info) {
  return on_engine(pool, [&](EngineState& state) {
    check_array(blocks, n, "blocks");
    const bool found = to_bool(hit, "hit");
    const RequestInfo known = state.info(info);
    state.pool.hold({blocks, n}, found, known);
    state.now = known.now;
  });
}

kvopt_status kvopt_engine_release(kvopt_engine_pool pool, const uint32_t* blocks, size_t n,
                                  const kvopt_request_info* info) {
  return on_engine(pool, [&](EngineState& state) {
    check_array(blocks, n, "blocks");
    const RequestInfo known = state.info(info);
    state.pool.release({blocks, n}, known);
    state.now = known.now;
  });
}

kvopt_status kvopt_engine_store(kvopt_engine_pool pool, const kvopt_full_blocks* full, const kvopt_request_info* info) {
  return on_engine(pool, [&](EngineState& state) {
    const kvopt_full_blocks given = read(full, "full", no_full_blocks());
    check_array(given.blocks, given.count, "full.blocks");
    const RequestInfo known = state.info(info);
    const auto& hashes = state.each(given.hashes, given.count, given.hash_bytes);
    state.pool.store({.blocks = given.blocks,
                      .hashes = hashes.data(),
                      .wanted = nullptr,
                      .count = given.count,
                      .hash_bytes = given.hash_bytes,
                      .first = given.first,
                      .before = given.before,
                      .group = given.group,
                      .block_tokens = given.block_tokens},
                     known);
    state.now = known.now;
  });
}

kvopt_status kvopt_engine_longest_hit(kvopt_engine_pool pool, const uint8_t* hashes, size_t count, size_t hash_bytes,
                                      const uint32_t* groups, size_t group_count, uint32_t* blocks, size_t* hit) {
  return on_engine(pool, [&](EngineState& state) {
    check_not_null(hit, "hit");
    check_array(groups, group_count, "groups");
    check_array(blocks, count, "blocks");
    if (group_count < 1) throw ConfigError("group_count is 0; it must be at least 1");
    *hit = state.pool.longest_hit(state.each(hashes, count, hash_bytes), hash_bytes, {groups, group_count}, blocks);
  });
}

kvopt_status kvopt_engine_forget(kvopt_engine_pool pool, uint32_t block) {
  return on_engine(pool, [&](EngineState& state) { state.pool.remove_keys(block); });
}

kvopt_status kvopt_engine_reset(kvopt_engine_pool pool) {
  return on_engine(pool, [](EngineState& state) {
    if (state.pool.reset()) return;
    const std::uint32_t held = state.pool.size() - 1 - state.pool.free_blocks();
    throw PoolError(std::to_string(held) + " blocks are held; they must be released before a reset");
  });
}

kvopt_status kvopt_engine_get_stats(kvopt_engine_pool pool, kvopt_engine_stats* stats) {
  return on_engine(pool, [&](EngineState& state) {
    check_not_null(stats, "stats");
    const kvopt_engine_stats values = {.size = stats->size,
                                       .blocks = state.pool.size(),
                                       .free_blocks = state.pool.free_blocks(),
                                       .keys = state.pool.keys(),
                                       .evictions = state.pool.evictions(),
                                       .bytes = state.pool.bytes(),
                                       .policy_failed = state.pool.failure().empty() ? 0U : 1U,
                                       .reserved = 0};
    write(stats, stats->size, "stats", values);
  });
}

kvopt_status kvopt_engine_verify(kvopt_engine_pool pool, size_t* violations, char* text, size_t capacity) {
  return on_engine(pool, [&](EngineState& state) {
    check_not_null(violations, "violations");
    std::vector<std::string> broken = state.pool.verify();
    if (!state.pool.failure().empty()) broken.push_back("the policy failed: " + state.pool.failure());
    write_text(lines(broken), text, capacity);
    *violations = broken.size();
  });
}
