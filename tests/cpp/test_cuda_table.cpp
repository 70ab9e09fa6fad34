// The bookkeeping of a table's mirror on a GPU, and the kernel that writes its batches, run on the host.
#include <map>
#include <random>
#include <vector>

// First: the words of CUDA.
#include "cuda_on_host.hpp"

#include "check.hpp"
#include "scatter.cuh"

namespace kvopt {

namespace {

using cuda::Change;
using cuda::Row;
using cuda::RowChanges;

void the_mirror_equals_the_table() {
  constexpr std::uint32_t kRows = 500;
  std::mt19937 random(1);
  RowChanges changes(kRows);
  std::map<std::uint32_t, float> unsent;
  std::vector<float> table(kRows);
  std::vector<float> mirror(kRows);
  std::vector<float> cost(kRows);
  std::vector<float> pace(kRows);
  std::vector<std::uint32_t> hits(kRows);
  std::vector<std::uint32_t> depth(kRows);
  std::vector<std::uint8_t> cls(kRows);
  for (int step = 0; step < 20'000; ++step) {
    const auto row = static_cast<std::uint32_t>(random() % kRows);
    const auto value = static_cast<float>(step);
    changes.set(row, {value, value + 1, value + 2, row, row + 1, row % 256});
    table[row] = value;
    unsent[row] = value;
    CHECK_EQUAL(changes.pending().size(), unsent.size());
    if (random() % 97 != 0) continue;
    // Some of them, in the order of their first change; at times all.
    const std::size_t count = random() % 3 == 0 ? unsent.size() : random() % (unsent.size() + 1);
    gridDim.x = 5;
    for (blockIdx.x = 0; blockIdx.x < gridDim.x; ++blockIdx.x) {
      cuda::scatter(changes.pending().data(), count,
                    {mirror.data(), cost.data(), pace.data(), hits.data(), depth.data(), cls.data()});
    }
    for (const Change& change : changes.pending().first(count)) unsent.erase(change.row);
    changes.sent(count);
    for (std::uint32_t r = 0; r < kRows; ++r) {
      if (unsent.contains(r)) continue;
      CHECK_EQUAL(mirror[r], table[r]);
      if (table[r] == 0) continue;
      CHECK_EQUAL(cost[r], table[r] + 1);
      CHECK_EQUAL(pace[r], table[r] + 2);
      CHECK_EQUAL(hits[r], r);
      CHECK_EQUAL(depth[r], r + 1);
      CHECK_EQUAL(static_cast<std::uint32_t>(cls[r]), r % 256);
    }
  }
}

void rows_that_are_not_there_are_refused() {
  const RowChanges changes(4);
  changes.require(3);
  CHECK_THROWS(ConfigError, changes.require(4));
  CHECK_THROWS(ConfigError, RowChanges(0));
}

}  // namespace

}  // namespace kvopt

int main() {
  using namespace kvopt;
  return test::run_all({{"the mirror equals the table", the_mirror_equals_the_table},
                        {"rows that are not there are refused", rows_that_are_not_there_are_refused}});
}
