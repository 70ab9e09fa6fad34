#include "random_operations.hpp"

#include <algorithm>
#include <limits>

#include "check.hpp"
#include "checked_policy.hpp"
#include "kvopt/error.hpp"

namespace kvopt::test {

namespace {

constexpr Time kNan = std::numeric_limits<Time>::quiet_NaN();

Ranking ranking_of(const std::string& policy, bool growth, Rule rule) {
  if (policy == "lru") return Ranking::kLetGo;
  if (policy == "lfu") return Ranking::kHits;
  if (policy == "priority:requeue=0") return Ranking::kPriority;
  // What a request stores later may join the run that it stored first.
  if (policy == "fifo") return growth && rule == Rule::kPrefix ? Ranking::kNone : Ranking::kStored;
  return Ranking::kNone;
}

}  // namespace

Episode::Episode(const std::string& policy, std::uint64_t seed) : random_(seed) {
  options_.capacity = static_cast<std::uint32_t>(5 + draw(chance(0.5) ? 12 : 60));
  options_.rule = chance(0.25) ? Rule::kFlat : Rule::kPrefix;
  constexpr std::uint32_t kKeyBytes[] = {0, 0, 16, 32, 36};
  options_.key_bytes = kKeyBytes[draw(std::size(kKeyBytes))];
  options_.lease_budget = chance(0.5) ? static_cast<std::uint32_t>(draw(options_.capacity)) : 0;
  options_.retention = chance(0.8);
  growth_ = chance(0.7);
  ties_ = chance(0.3);
  repeats_ = options_.rule == Rule::kFlat && chance(0.3);
  collide_ = options_.key_bytes > 0 && chance(0.5);
  faulty_ = policy == "faulty";
  auto tried = std::make_unique<CheckedPolicy>(make_policy(parse_policy(faulty_ ? "lru" : policy)), faulty_, seed);
  honours_priority_ = tried->honours_priority();
  pool_ = std::make_unique<BlockPool>(options_, std::move(tried));
  other_pool_ = std::make_unique<BlockPool>(options_, make_policy(parse_policy("lru")));
  naive_ = std::make_unique<NaivePool>(options_, ranking_of(policy, growth_, options_.rule));
  pool_->expire(now_);  // the clock starts: from here on it must not go back
}

Episode::~Episode() = default;

// ---- drawing ---------------------------------------------------------------------------------------------------------

std::size_t Episode::draw(std::size_t below) { return random_() % below; }
bool Episode::chance(double p) { return static_cast<double>(random_() >> 11) < p * 0x1p53; }

Time Episode::later() {
  if (!ties_ || chance(0.5)) now_ += 0.001 + static_cast<double>(draw(1000)) / 1000;
  return now_;
}

std::uint64_t Episode::key_of_prefix(const std::vector<std::uint8_t>& tokens) {
  return numbers_.emplace(tokens, numbers_.size()).first->second;
}

// Draws the keys of `blocks` more blocks. Under the prefix rule few different ones, so that prefixes are shared.
void Episode::grow(Request& request, std::size_t blocks) {
  for (std::size_t i = 0; i < blocks; ++i) {
    if (options_.rule == Rule::kPrefix) {
      request.tokens.push_back(static_cast<std::uint8_t>(chance(0.75) ? 0 : 1 + draw(2)));
      request.keys.push_back(key_of_prefix(request.tokens));
      continue;
    }
    const std::size_t universe = 2 * std::size_t{options_.capacity};
    std::uint64_t key = draw(universe);
    while (!repeats_ && std::ranges::find(request.keys, key) != request.keys.end()) key = draw(universe);
    request.keys.push_back(key);
  }
}

Episode::Request Episode::new_request(std::size_t blocks) {
  Request request;
  grow(request, blocks);
  return request;
}

Episode::KeyArrays Episode::arrays(std::span<const std::uint64_t> numbers) const {
  KeyArrays made;
  for (const std::uint64_t number : numbers) {
    made.hashes.push_back(number * 0x9E3779B97F4A7C15U);
    if (options_.key_bytes == 0) continue;
    std::vector<std::uint8_t> key(options_.key_bytes, 7);
    for (std::size_t i = 0; i < 8; ++i) key[key.size() - 1 - i] = static_cast<std::uint8_t>(number >> (8 * i));
    made.bytes.insert(made.bytes.end(), key.begin(), key.end());
    made.hashes.back() = collide_ ? number % 2 : key_digest(key.data(), key.size());
  }
  return made;
}

std::vector<BlockId> Episode::blocks_of(const Request& request) const {
  std::vector<BlockId> blocks(request.allocation.size());
  pool_->blocks_of(request.allocation, blocks);
  return blocks;
}

std::pair<const int, Episode::Request>* Episode::any_request() {
  if (requests_.empty()) return nullptr;
  auto it = requests_.begin();
  std::advance(it, draw(requests_.size()));
  return &*it;
}

// ---- operations ------------------------------------------------------------------------------------------------------

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
  constexpr Time kDurations[] = {0, 2, 5, 20, kNever};
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

// ---- comparing -------------------------------------------------------------------------------------------------------

void Episode::compare() {
  CHECK_EQUAL(pool_->verify(), std::vector<std::string>{});
  const PoolCounts actual = pool_->counts();
  const PoolCounts expected = naive_->counts();
  CHECK_EQUAL(actual.empty, expected.empty);
  CHECK_EQUAL(actual.evictable, expected.evictable);
  CHECK_EQUAL(actual.referenced, expected.referenced);
  CHECK_EQUAL(actual.leased, expected.leased);
  const auto& dropped = pool_->stats().dropped;
  for (std::size_t reason = 0; reason < kDropReasons; ++reason) {
    CHECK_EQUAL(dropped[reason], naive_->dropped(static_cast<DropReason>(reason)));
  }
  const Request probe = new_request(1 + draw(options_.capacity));
  CHECK_EQUAL(pool_->match(arrays(probe.keys).keys()), naive_->match(probe.keys));
}

void Episode::step() {
  struct Choice {
    const char* name;
    void (Episode::*operation)();
    std::size_t weight;
  };
  static constexpr Choice kChoices[] = {
      {"acquire", &Episode::acquire, 280},  {"commit", &Episode::commit, 200}, {"extend", &Episode::extend, 80},
      {"release", &Episode::release, 240},  {"lease", &Episode::lease, 50},    {"end_lease", &Episode::end_lease, 20},
      {"retain", &Episode::retain, 50},     {"expire", &Episode::expire, 15},  {"evict", &Episode::evict, 30},
      {"forget", &Episode::forget, 15},     {"clear", &Episode::clear, 2},     {"a wrong call", &Episode::call_wrongly, 18},
  };
  std::size_t n = draw(1000);
  const Choice* choice = kChoices;
  while (n >= choice->weight) n -= (choice++)->weight;
  operation_ = choice->name;
  (this->*choice->operation)();
}

std::string Episode::describe() const {
  return std::string(options_.rule == Rule::kFlat ? "flat" : "prefix") + " rule, " + text(options_.capacity) +
         " blocks, keys of " + text(options_.key_bytes) + " bytes" + (collide_ ? " that collide" : "") +
         (growth_ ? ", growth" : "") + (ties_ ? ", equal times" : "") + (repeats_ ? ", repeated keys" : "");
}

Tally Episode::run(std::size_t operations) {
  for (std::size_t i = 0; i < operations; ++i) {
    try {
      try {
        step();
      } catch (const PolicyError&) {
        if (!faulty_) throw;
        ++tally_.policy_errors;  // nothing was changed: the comparison says so
      }
      compare();
    } catch (const std::exception& e) {
      throw Failure(describe() + ", operation " + std::to_string(i) + ", " + operation_ + ": " + e.what());
    }
  }
  const PoolStats stats = pool_->stats();
  tally_.hits = stats.hit_blocks;
  tally_.evicted = naive_->dropped(DropReason::kCapacity) + naive_->dropped(DropReason::kExplicit);
  tally_.forgotten = naive_->dropped(DropReason::kForgotten);
  tally_.leases_ended = stats.leases_expired + stats.leases_reclaimed;
  tally_.retentions_ended = stats.retentions_expired;
  return tally_;
}

}  // namespace kvopt::test
