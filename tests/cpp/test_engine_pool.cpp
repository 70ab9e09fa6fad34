// EnginePool under random requests: with LRU, block for block as a plain model of vLLM's pool; with every policy,
// sound.
//
//   test_engine_pool POLICY OPERATIONS     "lru" is vLLM's own order, the pool's default
#include <algorithm>
#include <cstdlib>
#include <iostream>
#include <random>
#include <string>
#include <vector>

#include "check.hpp"
#include "kvopt/engine_pool.hpp"
#include "kvopt/error.hpp"
#include "naive_engine_pool.hpp"

namespace {

using kvopt::BlockId;
using kvopt::BlockKey;
using kvopt::EnginePool;
using kvopt::kNoBlock;
using kvopt::RequestInfo;
using Ids = std::vector<BlockId>;

constexpr std::size_t kHashBytes = 20;
constexpr std::uint32_t kBlockTokens = 16;

// A hash that stands for a chain, and the key that it makes in a group.
std::string hash_of(std::uint64_t chain) {
  std::string hash(kHashBytes, '\0');
  for (std::size_t i = 0; i < hash.size(); ++i)
    hash[i] = static_cast<char>((chain * (2 * i + 1) >> (i % 8 * 8)) & 0xFF);
  return hash;
}
std::string key_of(const std::string& hash, std::uint32_t group) {
  return hash + std::string(3, '\0') + static_cast<char>(group);
}
BlockKey bytes(const std::string& key) { return {reinterpret_cast<const std::uint8_t*>(key.data()), key.size()}; }

struct Request {
  std::vector<std::uint64_t> chain;  // one number a block, which stands for it and all before it
  Ids table;
  std::size_t stored = 0;
  std::uint32_t group = 0;
};

class Episode {
 public:
  Episode(BlockId blocks, const std::string& policy, std::uint64_t seed)
      : random_(seed),
        model_(blocks),
        exact_(policy == "lru"),
        pool_({.blocks = blocks}, exact_ ? nullptr : kvopt::make_policy(kvopt::parse_policy(policy))) {}

  void step() {
    info_.now += static_cast<double>(random_() % 100) / 16;
    info_.session = static_cast<std::int32_t>(random_() % 5);
    const std::uint64_t choice = random_() % 100;
    if (choice < 30) {
      arrive();
    } else if (choice < 55) {
      proceed();
    } else if (choice < 90) {
      leave();
    } else if (choice < 93) {
      forget();
    } else if (choice < 95) {
      carry_more();
    } else if (choice < 97) {
      unpin();
    } else if (choice < 98) {
      refuse();
    } else {
      reset();
    }
    compare();
  }

  std::uint64_t evictions() const { return pool_.evictions(); }

 private:
  std::uint64_t below(std::uint64_t n) { return random_() % n; }

  // Children of a chain are few, so requests share heads and store equal content side by side.
  std::vector<std::uint64_t> make_chain() {
    std::vector<std::uint64_t> chain;
    std::uint64_t at = 1 + below(2);
    for (std::size_t n = 1 + below(pool_.size() / 2); n > 0; --n) {
      chain.push_back(at);
      at = at * 6364136223846793005U + 1 + below(12) / 11;
    }
    return chain;
  }

  std::vector<std::string> hashes(const Request& request, std::size_t first, std::size_t end) const {
    std::vector<std::string> out;
    for (std::size_t i = first; i < end; ++i) out.push_back(hash_of(request.chain[i]));
    return out;
  }

  static std::vector<const std::uint8_t*> pointers(const std::vector<std::string>& of) {
    std::vector<const std::uint8_t*> out;
    out.reserve(of.size());
    for (const std::string& hash : of) out.push_back(bytes(hash).data());
    return out;
  }

  void arrive() {
    Request request;
    request.chain = make_chain();
    request.group = static_cast<std::uint32_t>(below(2));
    const auto all = hashes(request, 0, request.chain.size());
    Ids hit(all.size());
    const std::size_t n = pool_.longest_hit(pointers(all), kHashBytes, {&request.group, 1}, hit.data());
    std::size_t expected = 0;
    for (; expected < all.size(); ++expected) {
      const BlockId found = model_.find(key_of(all[expected], request.group));
      if (found == kNoBlock) break;
      if (expected < n) CHECK_EQUAL(hit[expected], found);
    }
    CHECK_EQUAL(n, expected);
    hit.resize(n);
    const auto free_hits =
        static_cast<std::size_t>(std::ranges::count_if(hit, [&](BlockId b) { return pool_.references(b) == 0; }));
    if (all.size() - n + free_hits > pool_.free_blocks()) return;
    if (n < all.size()) pool_.miss(bytes(key_of(all[n], request.group)), info_);
    pool_.hold(hit, true, info_);
    model_.hold(hit);
    request.table = hit;
    request.stored = n;
    take(request, 1 + below(all.size() - n + 1));
    requests_.push_back(std::move(request));
  }

  void take(Request& request, std::size_t n) {
    Ids out(std::min({n, request.chain.size() - request.table.size(), std::size_t{pool_.free_blocks()}}));
    pool_.take(out, info_);
    if (exact_) {
      CHECK_EQUAL(out, model_.take(out.size()));
    } else {
      for (const BlockId b : out) {
        CHECK_EQUAL(model_.references[b], 0);
        model_.free.remove(b);
        model_.drop(b);
        model_.references[b] = 1;
      }
    }
    request.table.insert(request.table.end(), out.begin(), out.end());
  }

  void proceed() {
    if (requests_.empty()) return;
    Request& request = requests_[below(requests_.size())];
    const std::size_t end = request.stored + below(request.table.size() - request.stored + 1);
    store(request, end);
    take(request, below(4));
  }

  void store(Request& request, std::size_t end) {
    const auto names = hashes(request, request.stored, end);
    const auto at = pointers(names);
    std::vector<std::uint8_t> wanted(names.size(), 1);
    for (std::uint8_t& w : wanted) w = below(20) > 0 ? 1 : 0;
    for (std::size_t i = 0; i < names.size(); ++i) {
      const BlockId b = request.table[request.stored + i];
      const auto tokens = static_cast<std::uint32_t>((request.stored + i + 1) * kBlockTokens);
      if (!model_.keys[b].empty() && model_.tokens[b] >= tokens) wanted[i] = 0;
      if (wanted[i] == 0) continue;
      model_.drop(b);
      model_.insert(b, key_of(names[i], request.group), tokens);
    }
    pool_.store({.blocks = request.table.data() + request.stored,
                 .hashes = at.data(),
                 .wanted = wanted.data(),
                 .count = names.size(),
                 .hash_bytes = kHashBytes,
                 .first = static_cast<std::uint32_t>(request.stored),
                 .before = request.stored > 0 ? request.table[request.stored - 1] : kNoBlock,
                 .group = request.group,
                 .block_tokens = kBlockTokens},
                info_);
    request.stored = end;
  }

  Request pick() {
    const auto at = requests_.begin() + static_cast<std::ptrdiff_t>(below(requests_.size()));
    Request request = std::move(*at);
    requests_.erase(at);
    return request;
  }

  void leave() {
    if (requests_.empty()) return;
    Ids table = pick().table;
    if (below(10) > 0) std::ranges::reverse(table);
    pool_.release(table, info_);
    model_.release(table);
  }

  void unpin() {
    if (requests_.empty()) return;
    const Ids table = pick().table;
    pool_.release_last(table, info_);
    model_.release_last(table);
  }

  void forget() {
    const auto b = static_cast<BlockId>(1 + below(pool_.size() - 1));
    CHECK_EQUAL(pool_.remove_keys(b), model_.keys[b].size());
    model_.drop(b);
  }

  // A block that can be reached from inside, too; and one that takes the keys of another over.
  void carry_more() {
    if (requests_.empty()) return;
    const Request& request = requests_[below(requests_.size())];
    if (request.table.empty()) return;
    const BlockId b = request.table[below(request.table.size())];
    const std::string key = key_of(hash_of(below(1000)), 1);
    pool_.insert_key(b, bytes(key), kBlockTokens, info_);
    model_.insert(b, key, kBlockTokens);
    const BlockId to = request.table[below(request.table.size())];
    if (to == b || !model_.keys[to].empty()) return;
    const auto keys = model_.keys[b];
    const std::uint32_t tokens = model_.tokens[b];
    pool_.move_keys(b, to, info_);
    model_.drop(b);
    for (const std::string& moved : keys) model_.insert(to, moved, tokens);
  }

  void refuse() {
    Ids many(pool_.free_blocks() + 1);
    CHECK_THROWS(kvopt::NotEnoughBlocksError, pool_.take(many, info_));
    const Ids free(1, model_.free.empty() ? pool_.size() : model_.free.front());
    if (free.front() == pool_.size()) {
      CHECK_THROWS(kvopt::StaleBlockError, pool_.release(free, info_));
    } else {
      CHECK_THROWS(kvopt::ReferenceCountError, pool_.release(free, info_));
    }
  }

  void reset() {
    const bool idle = requests_.empty();
    CHECK_EQUAL(pool_.reset(), idle);
    if (!idle) return;
    for (BlockId b = 0; b < pool_.size(); ++b) model_.drop(b);
  }

  void compare() const {
    CHECK_EQUAL(pool_.free_blocks(), model_.free.size());
    if (exact_) CHECK_EQUAL(pool_.free_order(), Ids(model_.free.begin(), model_.free.end()));
    CHECK_EQUAL(pool_.keys(), model_.carriers.size());
    for (BlockId b = 0; b < pool_.size(); ++b) {
      CHECK_EQUAL(pool_.references(b), model_.references[b]);
      CHECK_EQUAL(pool_.cached(b), !model_.keys[b].empty());
      if (!pool_.cached(b)) continue;
      const BlockKey first = pool_.key(b);
      CHECK_EQUAL(std::string(first.begin(), first.end()), model_.keys[b].front());
      CHECK_EQUAL(pool_.key_tokens(b), model_.tokens[b]);
      CHECK_EQUAL(pool_.more_keys(b).size() + 1, model_.keys[b].size());
      for (const std::string& key : model_.keys[b]) CHECK_EQUAL(pool_.find(bytes(key)), model_.find(key));
    }
    const auto broken = pool_.verify();
    if (!broken.empty()) throw kvopt::test::Failure(broken.front());
    CHECK_EQUAL(pool_.failure(), std::string());
  }

  std::mt19937_64 random_;
  kvopt::test::NaiveEnginePool model_;
  bool exact_;
  EnginePool pool_;
  RequestInfo info_;
  std::vector<Request> requests_;
};

}  // namespace

int main(int argc, char** argv) {
  const std::string policy = argc > 1 ? argv[1] : "lru";
  const long operations = argc > 2 ? std::strtol(argv[2], nullptr, 10) : 20'000;
  std::uint64_t evictions = 0;
  constexpr int kStepsAnEpisode = 400;
  for (long seed = 0; seed * kStepsAnEpisode < operations; ++seed) {
    Episode episode(static_cast<BlockId>(2 + seed * 13 % 50), policy, static_cast<std::uint64_t>(seed));
    for (int i = 0; i < kStepsAnEpisode; ++i) {
      try {
        episode.step();
      } catch (const std::exception& e) {
        std::cout << policy << ", seed " << seed << ", step " << i << ": " << e.what() << "\n";
        return 1;
      }
    }
    evictions += episode.evictions();
  }
  std::cout << policy << ": " << operations << " operations, " << evictions << " evictions\n";
  return evictions > 0 ? 0 : 1;
}
