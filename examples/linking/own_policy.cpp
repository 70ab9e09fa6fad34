// A block pool with a policy of our own, in C++: what was hit least often goes first, of equals what is oldest.
//
// A policy sees runs, stretches of consecutive blocks that were stored and used together, in a table that the pool
// keeps up to date. This one has no state but the table: it looks through it for each victim, which is fine for some
// thousand blocks. A real one keeps an order of its own, as examples/policy/outside_lru.cpp does.
#include <cstdint>
#include <iostream>
#include <kvopt/block_pool.hpp>
#include <kvopt/error.hpp>
#include <memory>
#include <tuple>
#include <vector>

namespace {

using kvopt::RunId;

class FewestHits final : public kvopt::Policy {
 public:
  void attach(const kvopt::PolicyContext& context) override { runs_ = &context.runs; }
  void on_referenced(std::span<const RunId> /*runs*/) override {}
  void on_evictable(std::span<const RunId> /*runs*/, const kvopt::RequestInfo& /*info*/) override {}
  void on_dropped(std::span<const RunId> /*runs*/) override {}

  // A run is a victim when nobody holds it and nothing is cached behind it.
  RunId choose(std::uint32_t /*wanted*/, kvopt::Time /*now*/) override {
    const auto rank = [this](RunId r) { return std::tuple(runs_->hits[r], runs_->last_use[r]); };
    RunId best = kvopt::kNoRun;
    for (RunId r = 0; r < runs_->used; ++r) {
      if (runs_->is_victim(r) && (best == kvopt::kNoRun || rank(r) < rank(best))) best = r;
    }
    return best;
  }

 private:
  const kvopt::RunTable* runs_ = nullptr;
};

// Serves one prompt, given as a key a block, and says how much of it was cached.
std::size_t serve(kvopt::BlockPool& pool, const std::vector<std::uint64_t>& prompt, double now) {
  kvopt::Allocation request;
  pool.acquire(request, {.hashes = prompt.data(), .count = prompt.size()}, prompt.size(), {.now = now});
  const std::size_t hit = request.hit();
  pool.commit(request, {.hashes = prompt.data() + hit, .count = prompt.size() - hit}, {.now = now});
  pool.release(request, {.now = now});
  return hit;
}

std::size_t hits_of(std::unique_ptr<kvopt::Policy> policy) {
  kvopt::BlockPool pool({.capacity = 8}, std::move(policy));
  const std::vector<std::uint64_t> often = {11, 12, 13, 14};
  std::size_t hit = 0;
  double now = 0;
  serve(pool, often, now);
  for (std::uint64_t once = 100; once < 200; once += 10) {
    hit += serve(pool, often, ++now);
    serve(pool, {once, once + 1, once + 2, once + 3}, ++now);  // two prompts that nobody asks again
    serve(pool, {once + 4, once + 5, once + 6, once + 7}, ++now);
  }
  for (const std::string& broken : pool.verify()) std::cerr << broken << "\n";
  return hit;
}

}  // namespace

int main() {
  std::cout << "lru:         " << hits_of(kvopt::make_policy(kvopt::parse_policy("lru"))) << " of 40 blocks hit\n";
  std::cout << "fewest hits: " << hits_of(std::make_unique<FewestHits>()) << " of 40 blocks hit\n";
  try {
    kvopt::make_policy(kvopt::parse_policy("fewest-hits"));
  } catch (const kvopt::UnknownPolicyError& e) {  // errors cross the library's border as what they are
    std::cout << "as expected: " << std::string(e.what()).substr(0, 37) << "\n";
  }
}
