// BlockSet against std::set: the lowest go first.
#include <algorithm>
#include <cstdint>
#include <iterator>
#include <random>
#include <set>
#include <utility>
#include <vector>

#include "check.hpp"
#include "core/block_set.hpp"

namespace {

using kvopt::BlockId;
using kvopt::BlockSet;

void random_operations(std::uint32_t blocks) {
  std::mt19937_64 random(blocks);
  BlockSet set(blocks);
  std::set<BlockId> expected;
  for (BlockId b = 0; b < blocks; ++b) expected.insert(expected.end(), b);
  std::vector<BlockId> outside;
  for (int i = 0; i < 2000; ++i) {
    CHECK_EQUAL(set.size(), expected.size());
    if (random() % 2 == 0) {
      const std::size_t most = random() % 20 == 0 ? expected.size() : std::min<std::size_t>(expected.size(), 8);
      const std::size_t n = random() % (most + 1);
      std::vector<BlockId> taken;
      set.take(n, taken);
      const auto end = std::next(expected.begin(), static_cast<std::ptrdiff_t>(n));
      CHECK_EQUAL(taken, std::vector<BlockId>(expected.begin(), end));
      expected.erase(expected.begin(), end);
      for (const BlockId b : taken) CHECK(!set.contains(b));
      outside.insert(outside.end(), taken.begin(), taken.end());
    } else {
      for (std::size_t n = random() % 12; n > 0 && !outside.empty(); --n) {
        std::swap(outside[random() % outside.size()], outside.back());
        set.add(outside.back());
        CHECK(set.contains(outside.back()));
        expected.insert(outside.back());
        outside.pop_back();
      }
    }
    if (random() % 500 == 0) {
      set.fill();
      expected.insert(outside.begin(), outside.end());
      outside.clear();
    }
  }
}

void takes_the_lowest() {
  for (const std::uint32_t blocks : {1U, 63U, 64U, 65U, 4096U, 4097U, 300'000U}) random_operations(blocks);
}

void a_block_takes_little_more_than_a_bit() { CHECK(BlockSet(1'000'000).bytes() * 8 < 1'020'000); }

}  // namespace

int main() {
  return kvopt::test::run_all({{"takes the lowest", takes_the_lowest},
                               {"a block takes little more than a bit", a_block_takes_little_more_than_a_bit}});
}
