// The C interface with its structures set up, for tests in C++.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "check.hpp"
#include "kvopt/kvopt.h"

// A call that must succeed; where it does not, the message says why.
#define CHECK_OK(call)                                                                                              \
  do {                                                                                                              \
    const kvopt_status status_value = (call);                                                                       \
    if (status_value == KVOPT_OK) break;                                                                            \
    kvopt::test::fail(__FILE__, __LINE__, #call " is " + std::to_string(status_value) + ": " + kvopt_last_error()); \
  } while (false)

// A call that must answer with this status, and a message that has this text.
#define CHECK_REFUSED(status, call, text)                                            \
  do {                                                                               \
    CHECK_EQUAL(call, status);                                                       \
    const std::string message_value = kvopt_last_error();                            \
    if (message_value.find(text) != std::string::npos) break;                        \
    kvopt::test::fail(__FILE__, __LINE__, "the message is '" + message_value + "'"); \
  } while (false)

namespace kvopt::test {

inline kvopt_pool_options c_options(std::uint32_t capacity, const char* policy = "lru") {
  kvopt_pool_options options;
  CHECK_OK(kvopt_pool_options_init(&options, sizeof options));
  options.capacity = capacity;
  options.policy = policy;
  return options;
}

inline kvopt_request_info c_info(double now) {
  kvopt_request_info info;
  CHECK_OK(kvopt_request_info_init(&info, sizeof info));
  info.now = now;
  return info;
}

// A pool that is destroyed at the end of its scope.
struct CPool {
  explicit CPool(const kvopt_pool_options& options) { CHECK_OK(kvopt_pool_create(KVOPT_API_VERSION, &options, &pool)); }
  explicit CPool(std::uint32_t capacity) : CPool(c_options(capacity)) {}
  CPool(const CPool&) = delete;
  CPool& operator=(const CPool&) = delete;
  ~CPool() { kvopt_pool_destroy(pool); }

  kvopt_allocation acquire(const std::vector<std::uint64_t>& keys) const {
    kvopt_allocation allocation;
    const kvopt_request_info info = c_info(now);
    CHECK_OK(kvopt_pool_acquire(pool, keys.data(), keys.size(), keys.size(), SIZE_MAX, 0, &info, &allocation, nullptr));
    return allocation;
  }
  kvopt_status commit(kvopt_allocation allocation, const std::vector<std::uint64_t>& keys) const {
    const kvopt_request_info info = c_info(now);
    return kvopt_pool_commit(pool, allocation, keys.data(), keys.size(), &info);
  }
  kvopt_status release(kvopt_allocation allocation) const {
    const kvopt_request_info info = c_info(now);
    return kvopt_pool_release(pool, allocation, &info);
  }
  void serve(const std::vector<std::uint64_t>& keys) {
    now += 1;
    const kvopt_allocation allocation = acquire(keys);
    std::size_t hit = 0;
    CHECK_OK(kvopt_pool_allocation(pool, allocation, &hit, nullptr, nullptr));
    CHECK_OK(commit(allocation, {keys.begin() + static_cast<std::ptrdiff_t>(hit), keys.end()}));
    CHECK_OK(release(allocation));
  }
  std::size_t match(const std::vector<std::uint64_t>& keys) const {
    std::size_t hit = 0;
    CHECK_OK(kvopt_pool_match(pool, keys.data(), keys.size(), &hit));
    return hit;
  }
  kvopt_pool_stats stats() const {
    kvopt_pool_stats stats;
    stats.size = sizeof stats;
    CHECK_OK(kvopt_pool_get_stats(pool, &stats));
    return stats;
  }

  kvopt_pool pool = {};
  double now = 0;
};

}  // namespace kvopt::test
