// The C interface of kvopt::BlockPool: what a request does.
#include <string>

#include "capi/arguments.hpp"
#include "capi/pool_state.hpp"
#include "kvopt/block_pool.hpp"
#include "kvopt/error.hpp"

using namespace kvopt;
using namespace kvopt::capi;

namespace {

bool reclaims_leases(std::uint32_t flags) {
  if ((flags & ~static_cast<std::uint32_t>(KVOPT_RECLAIM_LEASES)) != 0) {
    throw ConfigError("flags is " + std::to_string(flags) + "; it must be 0 or KVOPT_RECLAIM_LEASES (" +
                      std::to_string(KVOPT_RECLAIM_LEASES) + ")");
  }
  return flags != 0;
}

}  // namespace

kvopt_status kvopt_pool_match(kvopt_pool pool, const void* keys, size_t count, size_t* hit) {
  return on_pool(pool, [&](PoolState& state) {
    check_not_null(hit, "hit");
    *hit = state.pool.match(state.keys(keys, count));
  });
}

kvopt_status kvopt_pool_acquire(kvopt_pool pool, const void* keys, size_t count, size_t total, size_t max_hit,
                                uint32_t flags, const kvopt_request_info* info, kvopt_allocation* allocation,
                                size_t* hit) {
  return on_pool(pool, [&](PoolState& state) {
    check_not_null(allocation, "allocation");
    const bool reclaim_leases = reclaims_leases(flags);
    const RequestInfo known = to_info(info);
    const Keys wanted = state.keys(keys, count);
    const std::uint64_t id = state.allocations.add();
    Allocation& held = *state.allocations.find(id);
    try {
      state.pool.acquire(held, wanted, total, known, max_hit, reclaim_leases);
    } catch (...) {
      state.allocations.remove(id);
      throw;
    }
    allocation->id = id;
    if (hit != nullptr) *hit = held.hit();
  });
}

kvopt_status kvopt_pool_extend(kvopt_pool pool, kvopt_allocation allocation, size_t n, uint32_t flags,
                               const kvopt_request_info* info) {
  return on_pool(pool, [&](PoolState& state) {
    Allocation& held = state.allocation(allocation);
    const bool reclaim_leases = reclaims_leases(flags);
    state.pool.extend(held, n, to_info(info), reclaim_leases);
  });
}

kvopt_status kvopt_pool_commit(kvopt_pool pool, kvopt_allocation allocation, const void* keys, size_t count,
                               const kvopt_request_info* info) {
  return on_pool(pool, [&](PoolState& state) {
    Allocation& held = state.allocation(allocation);
    state.pool.commit(held, state.keys(keys, count), to_info(info));
  });
}

kvopt_status kvopt_pool_release(kvopt_pool pool, kvopt_allocation allocation, const kvopt_request_info* info) {
  return on_pool(pool, [&](PoolState& state) {
    state.pool.release(state.allocation(allocation), to_info(info));
    state.allocations.remove(allocation.id);
  });
}

kvopt_status kvopt_pool_allocation(kvopt_pool pool, kvopt_allocation allocation, size_t* hit, size_t* committed,
                                   size_t* blocks) {
  return on_pool(pool, [&](PoolState& state) {
    const Allocation& held = state.allocation(allocation);
    if (hit != nullptr) *hit = held.hit();
    if (committed != nullptr) *committed = held.committed();
    if (blocks != nullptr) *blocks = held.size();
  });
}

kvopt_status kvopt_pool_blocks(kvopt_pool pool, kvopt_allocation allocation, uint32_t* blocks, size_t room) {
  return on_pool(pool, [&](PoolState& state) {
    const Allocation& held = state.allocation(allocation);
    check_not_null(blocks, "blocks");
    state.pool.blocks_of(held, {blocks, room});
  });
}

kvopt_status kvopt_pool_lease(kvopt_pool pool, kvopt_allocation allocation, size_t n, double deadline, double now,
                              uint64_t* lease) {
  return on_pool(pool, [&](PoolState& state) {
    const Allocation& held = state.allocation(allocation);
    check_not_null(lease, "lease");
    *lease = state.pool.lease(held, n, deadline, now);
  });
}

kvopt_status kvopt_pool_end_lease(kvopt_pool pool, uint64_t lease, double now) {
  return on_pool(pool, [&](PoolState& state) { state.pool.end_lease(lease, now); });
}

kvopt_status kvopt_pool_retain(kvopt_pool pool, kvopt_allocation allocation, size_t first, size_t n, uint32_t priority,
                               double duration, uint32_t lifetime, double now) {
  return on_pool(pool, [&](PoolState& state) {
    const Allocation& held = state.allocation(allocation);
    if (priority > kMaxPriority) {
      throw ConfigError("priority is " + std::to_string(priority) + "; it must be 0 to " +
                        std::to_string(kMaxPriority));
    }
    if (lifetime > KVOPT_LIFETIME_REFRESH) {
      throw ConfigError("lifetime is " + std::to_string(lifetime) + "; it must be 0 (fixed) or 1 (refresh)");
    }
    const auto kind = lifetime == KVOPT_LIFETIME_REFRESH ? Lifetime::kRefresh : Lifetime::kFixed;
    state.pool.retain(held, first, n, static_cast<std::uint8_t>(priority), duration, kind, now);
  });
}
