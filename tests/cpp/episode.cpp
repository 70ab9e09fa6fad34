// An episode: what is drawn, and what is compared after every operation.
#include "random_operations.hpp"

#include <algorithm>
#include <array>

#include "check.hpp"
#include "checked_policy.hpp"
#include "kvopt/error.hpp"

namespace kvopt::test {

namespace {

Ranking ranking_of(const std::string& policy, bool growth, Rule rule) {
  if (policy == "lru") return Ranking::kLetGo;
  if (policy == "lfu") return Ranking::kHits;
  if (policy == "priority:requeue=0") return Ranking::kPriority;
  // What a request stores later may join the run that it stored first.
  if (policy == "fifo") return growth && rule == Rule::kPrefix ? Ranking::kNone : Ranking::kStored;
  return Ranking::kNone;
}

}  // namespace

Episode::Episode(const std::string& policy, std::uint64_t seed)
    : random_(seed),
      options_(draw_options()),
      growth_(chance(0.7)),
      ties_(chance(0.3)),
      repeats_(options_.rule == Rule::kFlat && chance(0.3)),
      collide_(options_.key_bytes > 0 && chance(0.5)),
      faulty_(policy == "faulty") {
  auto tried = std::make_unique<CheckedPolicy>(make_policy(parse_policy(faulty_ ? "lru" : policy)), faulty_, seed);
  honours_priority_ = tried->honours_priority();
  pool_ = std::make_unique<BlockPool>(options_, std::move(tried));
  other_pool_ = std::make_unique<BlockPool>(options_, make_policy(parse_policy("lru")));
  naive_ = std::make_unique<NaivePool>(options_, ranking_of(policy, growth_, options_.rule));
  pool_->expire(now_);  // the clock starts: from here on it must not go back
}

Episode::~Episode() = default;

// ---- drawing ------------------------------------------------------------------------------------

PoolOptions Episode::draw_options() {
  constexpr std::array<std::uint32_t, 5> kKeyBytes = {0, 0, 16, 32, 36};
  PoolOptions options{.capacity = static_cast<std::uint32_t>(5 + draw(chance(0.5) ? 12 : 60))};
  options.rule = chance(0.25) ? Rule::kFlat : Rule::kPrefix;
  options.key_bytes = kKeyBytes[draw(kKeyBytes.size())];
  options.lease_budget = chance(0.5) ? static_cast<std::uint32_t>(draw(options.capacity)) : 0;
  options.retention = chance(0.8);
  return options;
}

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

// ---- comparing ----------------------------------------------------------------------------------

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
  static constexpr auto kChoices = std::to_array<Choice>({
      {"acquire", &Episode::acquire, 280},
      {"commit", &Episode::commit, 200},
      {"extend", &Episode::extend, 80},
      {"release", &Episode::release, 240},
      {"lease", &Episode::lease, 50},
      {"end_lease", &Episode::end_lease, 20},
      {"retain", &Episode::retain, 50},
      {"expire", &Episode::expire, 15},
      {"evict", &Episode::evict, 30},
      {"forget", &Episode::forget, 15},
      {"clear", &Episode::clear, 2},
      {"a wrong call", &Episode::call_wrongly, 18},
  });
  std::size_t n = draw(1000);
  const auto* choice = kChoices.data();
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
