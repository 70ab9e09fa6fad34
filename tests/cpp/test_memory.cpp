// A full pool works without allocating, and takes at most 64 bytes a block with its index.
#include <unistd.h>

#include <atomic>
#include <cstdlib>
#include <fstream>
#include <new>
#include <numeric>
#include <random>
#include <vector>

#include "check.hpp"
#include "kvopt/block_pool.hpp"

namespace {

std::atomic<std::uint64_t>& allocations() {
  static std::atomic<std::uint64_t> count{0};
  return count;
}

void* counted(std::size_t size) {
  ++allocations();
  if (void* p = std::malloc(size > 0 ? size : 1)) return p;
  throw std::bad_alloc();
}

}  // namespace

void* operator new(std::size_t size) { return counted(size); }
void* operator new[](std::size_t size) { return counted(size); }
void operator delete(void* p) noexcept { std::free(p); }
void operator delete[](void* p) noexcept { std::free(p); }
void operator delete(void* p, std::size_t) noexcept { std::free(p); }
void operator delete[](void* p, std::size_t) noexcept { std::free(p); }

namespace {

using namespace kvopt;
using namespace kvopt::test;

// Conversations of a server: each turn has the blocks of the turns before it and some more, and grows while it answers;
// a few open with one of two shared prompts.
class Conversations {
 public:
  Conversations(std::size_t sessions, std::size_t turns, std::size_t blocks_a_turn)
      : turns_(turns), blocks_(blocks_a_turn), turn_(sessions) {
    keys_.resize(kShared + turns * blocks_a_turn);
  }

  // One turn of one session, from acquire to release.
  void serve(BlockPool& pool, Allocation& allocation) {
    const std::size_t session = random_() % turn_.size();
    const std::size_t turn = turn_[session] % turns_;
    const std::uint64_t conversation = session * 1'000'003 + turn_[session] / turns_;
    ++turn_[session];
    const std::uint64_t first = conversation << 24U;
    const std::uint64_t shared = (session % 2 + 1) << 56U;
    for (std::size_t i = 0; i < keys_.size(); ++i) keys_[i] = (i < kShared ? shared : first) + i;
    const std::size_t prompt = kShared + turn * blocks_ + 1;
    const std::size_t all = kShared + (turn + 1) * blocks_;
    now_ += 0.01;
    const RequestInfo info{.now = now_};
    pool.acquire(allocation, {.hashes = keys_.data(), .count = prompt}, prompt, info);
    commit(pool, allocation, prompt, info);
    while (allocation.size() < all) {
      pool.extend(allocation, 1, info);
      commit(pool, allocation, allocation.size(), info);
    }
    pool.release(allocation, info);
  }

 private:
  static constexpr std::size_t kShared = 20;

  void commit(BlockPool& pool, Allocation& allocation, std::size_t end, const RequestInfo& info) {
    const std::size_t done = allocation.committed();
    pool.commit(allocation, {.hashes = keys_.data() + done, .count = end - done}, info);
  }

  std::size_t turns_;
  std::size_t blocks_;
  std::vector<std::uint64_t> turn_;
  std::vector<std::uint64_t> keys_;
  std::mt19937_64 random_{1};
  Time now_ = 0;
};

// Not one allocation in 20,000 requests (500,000 calls) on a pool that evicts for nearly every one.
void no_allocation_in_steady_state() {
  for (const PolicyInfo& policy : policies()) {
    if (policy.offline) continue;
    BlockPool pool({.capacity = 10'000}, make_policy(parse_policy(policy.name)));
    Conversations conversations(200, 20, 25);
    Allocation allocation;
    for (int i = 0; i < 40'000; ++i) conversations.serve(pool, allocation);
    const auto evicted = [&] { return pool.stats().dropped[static_cast<std::size_t>(DropReason::kCapacity)]; };
    const std::uint64_t evicted_before = evicted();
    const std::uint64_t before = allocations();
    for (int i = 0; i < 20'000; ++i) conversations.serve(pool, allocation);
    const std::uint64_t made = allocations() - before;
    CHECK_EQUAL(made, 0U);
    CHECK(evicted() - evicted_before > 100'000);
    CHECK_EQUAL(pool.verify(), std::vector<std::string>{});
  }
}

std::size_t resident_bytes() {
  std::ifstream statm("/proc/self/statm");
  std::size_t size = 0;
  std::size_t resident = 0;
  statm >> size >> resident;
  return resident * static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
}

constexpr std::uint32_t kBlocks = 1'000'000;

// The worst case: every block is a run of its own.
void at_most_64_bytes_a_block_where_each_is_a_run() {
  const std::size_t before = resident_bytes();
  BlockPool pool({.capacity = kBlocks}, make_policy(parse_policy("lru")));
  Allocation allocation;
  for (std::uint64_t key = 0; key < kBlocks; ++key) {
    pool.acquire(allocation, {.hashes = &key, .count = 1}, 1, {});
    pool.commit(allocation, {.hashes = &key, .count = 1}, {});
    pool.release(allocation, {});
  }
  const PoolStats stats = pool.stats();
  CHECK_EQUAL(stats.runs, kBlocks);
  CHECK(resident_bytes() - before <= std::size_t{64} * kBlocks);
  CHECK(stats.bytes <= std::size_t{64} * kBlocks);
}

void at_most_64_bytes_a_block() {
  Conversations conversations(3'000, 30, 30);
  const std::size_t before = resident_bytes();
  BlockPool pool({.capacity = kBlocks}, make_policy(parse_policy("lru")));
  Allocation allocation;
  while (pool.stats().dropped[static_cast<std::size_t>(DropReason::kCapacity)] < kBlocks) {
    for (int i = 0; i < 1'000; ++i) conversations.serve(pool, allocation);
  }
  const PoolStats stats = pool.stats();
  const double resident = static_cast<double>(resident_bytes() - before) / kBlocks;
  std::cout << "        " << stats.runs << " runs of " << kBlocks << " blocks: " << resident
            << " bytes a block resident; " << static_cast<double>(stats.bytes) / kBlocks
            << " if every block were a run of its own\n";
  CHECK(stats.counts.empty < kBlocks / 100);
  CHECK(resident <= 64);
}

}  // namespace

int main() {
  return run_all({{"no allocation in steady state", no_allocation_in_steady_state},
                  {"at most 64 bytes a block where each is a run", at_most_64_bytes_a_block_where_each_is_a_run},
                  {"at most 64 bytes a block", at_most_64_bytes_a_block}});
}
