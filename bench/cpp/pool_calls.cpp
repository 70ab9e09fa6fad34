// What single calls of the pool cost without Python: through C++ and through the C interface, on the load that
// bench/bench_native.py puts through the Python binding too. Prints JSON, nanoseconds a call.
//
//   pool_calls CAPACITY REQUEST_BLOCKS ROUNDS
//
// The load: sessions of one prompt each, served in two turns; the pool is filled twice over. Then in each round one of
// the prompts in the younger half of what is cached is hit, one that nobody has had evicts another, as many blocks are
// evicted by themselves, and a further prompt takes their place.
#include <kvopt/kvopt.h>
#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <iostream>
#include <kvopt/block_pool.hpp>
#include <map>
#include <string>
#include <vector>

namespace {

using Prompt = std::vector<std::uint64_t>;

std::uint64_t split_mix(std::uint64_t x) {
  std::uint64_t z = x + 0x9E3779B97F4A7C15U;
  z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9U;
  z = (z ^ (z >> 27)) * 0x94D049BB133111EBU;
  return z ^ (z >> 31);
}

Prompt prompt_of(std::uint64_t session, std::size_t blocks) {
  Prompt keys(blocks);
  for (std::size_t i = 0; i < blocks; ++i) keys[i] = split_mix(session << 32 | i);
  return keys;
}

void require(bool condition, const char* what) {
  if (condition) return;
  std::cerr << what << "\n";
  std::exit(1);
}

class CorePool {
 public:
  explicit CorePool(std::uint32_t capacity)
      : pool_({.capacity = capacity}, kvopt::make_policy(kvopt::parse_policy("lru"))) {}

  std::size_t match(const std::uint64_t* keys, std::size_t n) { return pool_.match({.hashes = keys, .count = n}); }
  std::size_t acquire(const std::uint64_t* keys, std::size_t n, double now) {
    pool_.acquire(held_, {.hashes = keys, .count = n}, n, {.now = now});
    return held_.hit();
  }
  void commit(const std::uint64_t* keys, std::size_t n, double now) {
    pool_.commit(held_, {.hashes = keys, .count = n}, {.now = now});
  }
  void release(double now) { pool_.release(held_, {.now = now}); }
  void evict(std::size_t n, double now) { pool_.evict(n, now); }
  std::uint64_t evicted() const { return pool_.stats().dropped[0]; }

 private:
  kvopt::BlockPool pool_;
  kvopt::Allocation held_;
};

class CPool {
 public:
  explicit CPool(std::uint32_t capacity) : victims_(capacity) {
    kvopt_pool_options options;
    check(kvopt_pool_options_init(&options, sizeof options));
    check(kvopt_request_info_init(&info_, sizeof info_));
    options.capacity = capacity;
    check(kvopt_pool_create(KVOPT_API_VERSION, &options, &pool_));
  }
  CPool(const CPool&) = delete;
  CPool& operator=(const CPool&) = delete;
  ~CPool() { kvopt_pool_destroy(pool_); }

  std::size_t match(const std::uint64_t* keys, std::size_t n) {
    std::size_t hit = 0;
    check(kvopt_pool_match(pool_, keys, n, &hit));
    return hit;
  }
  std::size_t acquire(const std::uint64_t* keys, std::size_t n, double now) {
    std::size_t hit = 0;
    info_.now = now;
    check(kvopt_pool_acquire(pool_, keys, n, n, SIZE_MAX, 0, &info_, &held_, &hit));
    return hit;
  }
  void commit(const std::uint64_t* keys, std::size_t n, double now) {
    info_.now = now;
    check(kvopt_pool_commit(pool_, held_, keys, n, &info_));
  }
  void release(double now) {
    info_.now = now;
    check(kvopt_pool_release(pool_, held_, &info_));
  }
  void evict(std::size_t n, double now) { check(kvopt_pool_evict(pool_, n, now, victims_.data())); }
  std::uint64_t evicted() const {
    kvopt_pool_stats stats;
    stats.size = sizeof stats;
    check(kvopt_pool_get_stats(pool_, &stats));
    return stats.evicted_blocks;
  }

 private:
  static void check(kvopt_status status) { require(status == KVOPT_OK, kvopt_last_error()); }

  kvopt_pool pool_ = {};
  kvopt_allocation held_ = {};
  kvopt_request_info info_ = {};
  std::vector<std::uint32_t> victims_;
};

using Times = std::map<std::string, std::vector<double>>;

// The load on one pool, each call timed.
template <class Pool>
class Load {
 public:
  Load(std::uint32_t capacity, std::size_t blocks) : pool_(capacity), blocks_(blocks), cached_(capacity / blocks) {
    for (std::size_t stored = 0; stored < 2 * std::size_t{capacity}; stored += blocks) serve_new();
  }

  Times run(std::size_t rounds) {
    for (std::uint64_t round = 0; round < rounds; ++round) {
      hit_once(prompt_of(next_ - 1 - split_mix(round) % std::max<std::size_t>(1, cached_ / 2), blocks_));
      miss_once(prompt_of(next_++, blocks_));
      timed("evict", [&] { pool_.evict(blocks_, now_); });
      serve_new();
    }
    return std::move(times_);
  }

  std::uint64_t evicted() const { return pool_.evicted(); }

 private:
  template <class Call>
  void timed(const char* name, Call call) {
    const auto begin = std::chrono::steady_clock::now();
    call();
    const std::chrono::duration<double, std::nano> taken = std::chrono::steady_clock::now() - begin;
    times_[name].push_back(taken.count());
  }

  void serve_new() {
    const Prompt prompt = prompt_of(next_++, blocks_);
    for (const std::size_t n : {blocks_ / 2, blocks_}) {
      now_ += 1;
      const std::size_t hit = pool_.acquire(prompt.data(), n, now_);
      pool_.commit(prompt.data() + hit, n - hit, now_);
      pool_.release(now_);
    }
  }

  void hit_once(const Prompt& prompt) {
    std::size_t found = 0;
    timed("match nothing", [&] { found = pool_.match(prompt.data(), 0); });
    timed("match", [&] { found = pool_.match(prompt.data(), blocks_); });
    require(found == blocks_, "a prompt that should be cached is not");
    now_ += 1;
    timed("acquire, all hit", [&] { found = pool_.acquire(prompt.data(), blocks_, now_); });
    require(found == blocks_, "a prompt that matched was not hit");
    timed("release after hit", [&] { pool_.release(now_); });
  }

  void miss_once(const Prompt& prompt) {
    std::size_t found = 0;
    now_ += 1;
    timed("acquire, all evicted", [&] { found = pool_.acquire(prompt.data(), blocks_, now_); });
    require(found == 0, "a prompt that nobody had was hit");
    timed("commit", [&] { pool_.commit(prompt.data(), blocks_, now_); });
    timed("release after miss", [&] { pool_.release(now_); });
  }

  Pool pool_;
  std::size_t blocks_;
  std::size_t cached_;
  std::uint64_t next_ = 0;
  double now_ = 0;
  Times times_;
};

template <class Pool>
void print(const char* name, std::uint32_t capacity, std::size_t blocks, std::size_t rounds) {
  Load<Pool> load(capacity, blocks);
  Times times = load.run(rounds);
  std::cout << "\"" << name << "\": {\"evicted\": " << load.evicted() << ", \"calls\": {";
  const char* comma = "";
  for (auto& [call, all] : times) {
    std::ranges::sort(all);
    std::cout << comma << "\"" << call << "\": {\"p50\": " << all[all.size() / 2]
              << ", \"p99\": " << all[all.size() * 99 / 100] << "}";
    comma = ", ";
  }
  std::cout << "}}";
}

}  // namespace

int main(int count, char** arguments) {
  require(count == 4, "usage: pool_calls CAPACITY REQUEST_BLOCKS ROUNDS");
  const auto capacity = static_cast<std::uint32_t>(std::strtoul(arguments[1], nullptr, 10));
  const std::size_t blocks = std::strtoul(arguments[2], nullptr, 10);
  const std::size_t rounds = std::strtoul(arguments[3], nullptr, 10);
  require(blocks >= 2 && blocks <= capacity / 4 && rounds > 0, "a pool must have room for four requests of two blocks");
  std::cout << "{";
  print<CorePool>("C++", capacity, blocks, rounds);
  std::cout << ", ";
  print<CPool>("C", capacity, blocks, rounds);
  std::cout << "}\n";
}
