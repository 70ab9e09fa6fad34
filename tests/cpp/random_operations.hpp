// Random operations on a pool and on the naive model, compared after every step.
//
// One episode is one pool with its own options, drawn from its seed, and a few hundred operations: many requests in
// flight, shared prefixes, forks in the middle of runs, the same blocks stored twice at the same time, growth, limits
// on the hit, aborts, leases, retention, calls that must fail.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "kvopt/block_pool.hpp"
#include "naive_pool.hpp"

namespace kvopt::test {

// What the operations came to, to show that they reach what they are meant to reach.
struct Tally {
  std::uint64_t hits = 0;
  std::uint64_t evicted = 0;
  std::uint64_t forgotten = 0;
  std::uint64_t refused = 0;  // acquire, for lack of room
  std::uint64_t leases_ended = 0;
  std::uint64_t retentions_ended = 0;
  std::uint64_t policy_errors = 0;
};

class Episode {
 public:
  // policy: a built-in one, or "faulty" (LRU that now and then names a run that is no victim).
  Episode(const std::string& policy, std::uint64_t seed);
  ~Episode();
  Episode(const Episode&) = delete;
  Episode& operator=(const Episode&) = delete;

  // Throws Failure at the first difference.
  Tally run(std::size_t operations);

 private:
  struct Request {
    Allocation allocation;
    KeyNumbers keys;  // of its first blocks; drawn further as it grows
    std::vector<std::uint8_t> tokens;
  };
  struct KeyArrays {
    std::vector<std::uint64_t> hashes;
    std::vector<std::uint8_t> bytes;
    Keys keys() const { return {hashes.data(), bytes.empty() ? nullptr : bytes.data(), hashes.size()}; }
  };

  PoolOptions draw_options();
  std::size_t draw(std::size_t below);
  bool chance(double p);
  Time later();
  Request new_request(std::size_t blocks);
  void grow(Request& request, std::size_t blocks);
  std::uint64_t key_of_prefix(const std::vector<std::uint8_t>& tokens);
  KeyArrays arrays(std::span<const std::uint64_t> numbers) const;
  std::vector<BlockId> blocks_of(const Request& request) const;
  std::pair<const int, Request>* any_request();

  void step();
  void acquire();
  void extend();
  void commit();
  void release();
  void lease();
  void end_lease();
  void retain();
  void expire();
  void evict();
  void forget();
  void clear();
  void call_wrongly();
  void compare();
  std::string describe() const;

  std::mt19937_64 random_;
  PoolOptions options_;
  bool growth_;   // requests commit more than once
  bool ties_;     // several operations at one time
  bool repeats_;  // flat rule: a request may name a key twice
  bool collide_;  // byte strings: digests that are equal for different keys
  bool honours_priority_ = false;
  bool faulty_;
  std::unique_ptr<BlockPool> pool_;
  std::unique_ptr<BlockPool> other_pool_;
  std::unique_ptr<NaivePool> naive_;
  std::map<std::vector<std::uint8_t>, std::uint64_t> numbers_;
  std::map<int, Request> requests_;
  Tally tally_;
  const char* operation_ = "";  // under way
  int next_request_ = 0;
  Time now_ = 0;
};

}  // namespace kvopt::test
