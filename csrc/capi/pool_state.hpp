// A block pool behind a handle of the C interface, with what its requests hold.
#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "capi/handle_table.hpp"
#include "capi/registry.hpp"
#include "capi/status.hpp"
#include "kvopt/block_pool.hpp"
#include "kvopt/kvopt.h"

namespace kvopt::capi {

struct PoolState {
  static constexpr const char* kKind = "block pool";

  PoolState(const PoolOptions& options, std::unique_ptr<Policy> policy) : pool(options, std::move(policy)) {}

  // Keys as the pool takes them; valid until the next call.
  Keys keys(const void* given, std::size_t count) {
    check_array(given, count, "keys");
    const std::size_t width = pool.options().key_bytes;
    if (width == 0) return {.hashes = static_cast<const std::uint64_t*>(given), .count = count};
    const auto* bytes = static_cast<const std::uint8_t*>(given);
    digests.resize(count);
    for (std::size_t i = 0; i < count; ++i) digests[i] = key_digest(bytes + i * width, width);
    return {.hashes = digests.data(), .bytes = bytes, .count = count};
  }

  // Throws Refusal when this pool has no such allocation.
  Allocation& allocation(kvopt_allocation handle) {
    Allocation* found = allocations.find(handle.id);
    if (found != nullptr) return *found;
    throw Refusal(KVOPT_INVALID_HANDLE, "handle " + std::to_string(handle.id) + " is no live allocation of this pool");
  }

  Turns turns;
  bool closed = false;
  BlockPool pool;
  HandleTable<Allocation> allocations;
  std::vector<std::uint64_t> digests;  // scratch
};

// call(PoolState&) under the pool's lock.
template <class Call>
kvopt_status on_pool(kvopt_pool pool, Call call) noexcept {
  return answer([&] { Registry<PoolState>::instance().call(pool.id, call); });
}

}  // namespace kvopt::capi
