// The operations of an episode: each is foretold by the naive model, done to the pool, and told to the model.
#include "random_operations.hpp"

#include <algorithm>
#include <array>
#include <limits>

#include "check.hpp"
#include "kvopt/error.hpp"

namespace kvopt::test {

namespace {

constexpr Time kNan = std::numeric_limits<Time>::quiet_NaN();

}  // namespace

void Episode::acquire() {
  if (requests_.size() >= 6) return;
  const std::size_t capacity = options_.capacity;
  const std::size_t most = chance(0.3) ? capacity : 1 + capacity / 3;
  Request request = new_request(1 + draw(most));
  const std::size_t total = std::min(capacity, request.keys.size() + (chance(0.3) ? draw(3) : 0));
  const std::size_t max_hit = chance(0.15) ? draw(request.keys.size() + 1) : SIZE_MAX;
  const bool reclaim = !faulty_ && chance(0.3);  // leases that ended to make room stay ended when the policy fails
  const KeyArrays keys = arrays(request.keys);
  later();
  naive_->expire(now_);
  const std::size_t hit = std::min(naive_->match(request.keys), max_hit);
  const Outcome outcome = naive_->acquire_outcome(request.keys, total, hit, reclaim);
  try {
    pool_->acquire(request.allocation, keys.keys(), total, {.now = now_}, max_hit, reclaim);
  } catch (const NotEnoughBlocksError&) {
    CHECK(outcome != Outcome::kSucceeds);
    ++tally_.refused;
    return;
  }
  CHECK(outcome != Outcome::kFails);
  CHECK_EQUAL(request.allocation.hit(), hit);
  CHECK_EQUAL(request.allocation.committed(), hit);
  CHECK_EQUAL(request.allocation.size(), total);
  naive_->acquire(next_request_, request.keys, blocks_of(request), hit, reclaim, now_);
  requests_.emplace(next_request_++, std::move(request));
}

void Episode::extend() {
  auto* one = any_request();
  if (one == nullptr) return;
  auto& [number, request] = *one;
  const std::size_t n = chance(0.1) ? draw(options_.capacity + 1) : draw(4);
  const bool reclaim = !faulty_ && chance(0.3);  // leases that ended to make room stay ended when the policy fails
  const std::size_t before = request.allocation.size();
  later();
  naive_->expire(now_);
  const bool fits = naive_->has_room(n, reclaim);
  try {
    pool_->extend(request.allocation, n, {.now = now_}, reclaim);
  } catch (const NotEnoughBlocksError&) {
    CHECK(!fits);
    return;
  }
  CHECK(fits);
  const std::vector<BlockId> blocks = blocks_of(request);
  CHECK_EQUAL(blocks.size(), before + n);
  naive_->extend(number, std::span(blocks).subspan(before), reclaim);
}

void Episode::commit() {
  auto* one = any_request();
  if (one == nullptr) return;
  auto& [number, request] = *one;
  const std::size_t done = request.allocation.committed();
  const std::size_t open = request.allocation.size() - done;
  if (open == 0 || (!growth_ && done > request.allocation.hit())) return;
  const std::size_t n = chance(0.5) ? open : 1 + draw(open);
  if (request.keys.size() < done + n) grow(request, done + n - request.keys.size());
  const auto next = std::span(request.keys).subspan(done, n);
  later();
  pool_->commit(request.allocation, arrays(next).keys(), {.now = now_});
  naive_->commit(number, next);
  CHECK_EQUAL(request.allocation.committed(), done + n);
}

void Episode::release() {
  auto* one = any_request();
  if (one == nullptr) return;
  auto& [number, request] = *one;
  later();
  pool_->release(request.allocation, {.now = now_});
  CHECK(!request.allocation.live());
  CHECK_EQUAL(request.allocation.size(), 0U);
  naive_->release(number, now_);
  CHECK_THROWS(StaleBlockError, pool_->release(request.allocation, {.now = now_}));
  requests_.erase(number);
}

void Episode::lease() {
  auto* one = any_request();
  if (one == nullptr) return;
  auto& [number, request] = *one;
  const std::size_t committed = request.allocation.committed();
  later();
  const Time deadline = now_ + 0.5 + static_cast<double>(random_() >> 11) * 0x1p-53 * 60;  // no two alike
  if (options_.lease_budget == 0 || committed == 0) {
    CHECK_THROWS(LeaseError, pool_->lease(request.allocation, 1, deadline, now_));
    return;
  }
  naive_->expire(now_);
  const std::size_t n = 1 + draw(committed);
  const bool fits = naive_->lease_fits(number, n);
  try {
    const LeaseId id = pool_->lease(request.allocation, n, deadline, now_);
    CHECK(fits);
    naive_->lease(number, n, id, deadline);
  } catch (const LeaseError&) {
    CHECK(!fits);
  }
}

void Episode::end_lease() {
  const std::vector<LeaseId> leases = naive_->leases();
  if (leases.empty()) return;
  const LeaseId id = leases[draw(leases.size())];
  later();
  pool_->end_lease(id, now_);
  naive_->end_lease(id);
  CHECK_THROWS(LeaseError, pool_->end_lease(id, now_));
}

void Episode::retain() {
  auto* one = any_request();
  if (one == nullptr) return;
  auto& [number, request] = *one;
  const std::size_t committed = request.allocation.committed();
  const std::size_t first = draw(committed + 1);
  const std::size_t n = draw(committed - first + 1);
  const auto priority = static_cast<std::uint8_t>(chance(0.2) ? kDefaultPriority : draw(kMaxPriority + 1));
  constexpr std::array<Time, 5> kDurations = {0, 2, 5, 20, kNever};
  const Time duration = kDurations[draw(std::size(kDurations))];
  const bool refresh = chance(0.5);
  const Lifetime lifetime = refresh ? Lifetime::kRefresh : Lifetime::kFixed;
  later();
  if (!options_.retention || !honours_priority_) {
    CHECK_THROWS(ConfigError, pool_->retain(request.allocation, first, n, priority, duration, lifetime, now_));
    return;
  }
  pool_->retain(request.allocation, first, n, priority, duration, lifetime, now_);
  naive_->retain(number, first, n, priority, duration, refresh, now_);
}

void Episode::expire() {
  later();
  const std::size_t leases = naive_->expire(now_);
  CHECK(pool_->expire(now_) >= leases);  // retentions are counted by runs
}

void Episode::evict() {
  later();
  naive_->expire(now_);
  const std::size_t most = naive_->counts().evictable;
  const std::size_t n = chance(0.1) ? most : draw(1 + std::min<std::size_t>(most, 4));
  const std::vector<BlockId> victims = pool_->evict(n, now_);
  CHECK_EQUAL(victims.size(), n);
  naive_->evict(victims);
}

void Episode::forget() {
  std::vector<BlockId> cached = naive_->blocks_in_cache();
  if (cached.empty()) return;
  std::ranges::shuffle(cached, random_);
  cached.resize(1 + draw(std::min<std::size_t>(3, cached.size())));
  pool_->forget(cached);
  naive_->forget(cached);
}

void Episode::clear() {
  if (naive_->counts().referenced > 0) {
    CHECK_THROWS(PoolError, pool_->clear());
    return;
  }
  pool_->clear();
  naive_->clear();
}

// Each of these must throw, and change nothing: compare() follows.
void Episode::call_wrongly() {
  Allocation none;
  const KeyArrays keys = arrays(KeyNumbers{1, 2});
  const RequestInfo info{.now = now_};
  switch (draw(8)) {
    case 0:
      CHECK_THROWS(NotEnoughBlocksError, pool_->acquire(none, keys.keys(), 0, info));
      CHECK_THROWS(NotEnoughBlocksError, pool_->acquire(none, keys.keys(), options_.capacity + 1, info));
      CHECK_THROWS(PoolError, pool_->acquire(none, keys.keys(), 1, info));
      break;
    case 1:
      CHECK_THROWS(PoolError, pool_->acquire(none, keys.keys(), 2, {.now = kNan}));
      CHECK_THROWS(PoolError, pool_->acquire(none, keys.keys(), 2, {.now = now_ - 1e6}));
      CHECK_THROWS(PoolError, pool_->evict(0, kNever));
      CHECK_THROWS(PoolError, pool_->expire(-kNever));
      break;
    case 2:
      CHECK_THROWS(StaleBlockError, pool_->release(none, info));
      CHECK_THROWS(StaleBlockError, pool_->extend(none, 1, info));
      CHECK_THROWS(StaleBlockError, pool_->commit(none, keys.keys(), info));
      break;
    case 3:
      naive_->expire(now_);
      CHECK_THROWS(NotEnoughBlocksError, pool_->evict(naive_->counts().evictable + 1, now_));
      break;
    case 4:
      CHECK_THROWS(StaleBlockError, pool_->forget(std::vector<BlockId>{options_.capacity}));
      CHECK_THROWS(LeaseError, pool_->end_lease(LeaseId{1} << 40, now_));
      break;
    default:
      if (auto* one = any_request(); one != nullptr) {
        Allocation& held = one->second.allocation;
        const KeyArrays many = arrays(KeyNumbers(held.size() - held.committed() + 1));
        CHECK_THROWS(PoolError, pool_->commit(held, many.keys(), info));
        CHECK_THROWS(StaleBlockError, pool_->acquire(held, keys.keys(), 2, info));
        CHECK_THROWS(StaleBlockError, other_pool_->release(held, info));
        CHECK_THROWS(StaleBlockError, other_pool_->extend(held, 1, info));
        CHECK_THROWS(LeaseError, pool_->lease(held, held.committed() + 1, now_ + 1, now_));
        CHECK_THROWS(LeaseError, pool_->lease(held, 1, now_, now_));
        CHECK_THROWS(PoolError, pool_->commit(held, {}, {.now = now_ - 1e6}));
        if (options_.retention && honours_priority_) {
          const std::size_t committed = held.committed();
          CHECK_THROWS(ConfigError, pool_->retain(held, 0, 0, 101, 1, Lifetime::kFixed, now_));
          CHECK_THROWS(ConfigError, pool_->retain(held, 0, 0, 1, -1, Lifetime::kFixed, now_));
          CHECK_THROWS(ConfigError, pool_->retain(held, 0, 0, 1, kNan, Lifetime::kFixed, now_));
          CHECK_THROWS(StaleBlockError, pool_->retain(held, 1, committed, 1, 1, Lifetime::kFixed, now_));
          CHECK_THROWS(StaleBlockError, pool_->retain(held, SIZE_MAX, 2, 1, 1, Lifetime::kFixed, now_));
        }
      }
  }
}

}  // namespace kvopt::test
