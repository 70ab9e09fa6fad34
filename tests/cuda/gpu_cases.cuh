// What the checks on a GPU share: arrays there, blocks in both memories, and a case of each score.
#pragma once

#include <cuda_runtime.h>

#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "kvopt/scoring.hpp"
#include "runtime.cuh"
#include "scorer.hpp"
#include "scoring/target.hpp"

namespace kvopt::gpu {

using cuda::check;

inline int failures = 0;

inline void expect(bool holds, const std::string& what) {
  if (!holds) {
    ++failures;
    std::printf("FAILED  %s\n", what.c_str());
  }
}

template <class T>
class OnDevice {
 public:
  explicit OnDevice(const std::vector<T>& values) : OnDevice(values.size()) {
    check(cudaMemcpy(data, values.data(), values.size() * sizeof(T), cudaMemcpyHostToDevice), "cudaMemcpy");
  }
  explicit OnDevice(std::size_t count) : count(count) {
    check(cudaMalloc(&data, count * sizeof(T) + 16), "cudaMalloc");
  }
  ~OnDevice() { cudaFree(data); }
  OnDevice(const OnDevice&) = delete;
  OnDevice& operator=(const OnDevice&) = delete;

  std::vector<T> host() const {
    std::vector<T> values(count);
    check(cudaMemcpy(values.data(), data, count * sizeof(T), cudaMemcpyDeviceToHost), "cudaMemcpy");
    return values;
  }

  T* data = nullptr;
  std::size_t count;
};

struct HostBlocks {
  explicit HostBlocks(std::size_t count, unsigned seed) {
    std::mt19937 random(seed);
    std::uniform_real_distribution<float> seconds(0, 1000);
    for (std::size_t i = 0; i < count; ++i) {
      last_use.push_back(i % 97 == 0 ? 1e9F : seconds(random));
      cost.push_back(i % 89 == 0 ? 0 : i % 83 == 0 ? 1e-42F : seconds(random));
      pace.push_back(i % 71 == 0 ? 0 : seconds(random) / 500);
      hits.push_back(random() % 1000);
      depth.push_back(random() % 10'000);
      cls.push_back(static_cast<std::uint8_t>(random() % 8));
      eligible.push_back(static_cast<std::uint8_t>(random() % 5 != 0));
      extra.push_back(seconds(random));
    }
  }

  BlockFeatures view() const {
    return {last_use.size(), last_use.data(), cost.data(),
            pace.data(),     hits.data(),     depth.data(),
            cls.data(),      extra.data(),    1};
  }

  std::vector<float> last_use, cost, pace, extra;
  std::vector<std::uint32_t> hits, depth;
  std::vector<std::uint8_t> cls, eligible;
};

struct DeviceBlocks {
  explicit DeviceBlocks(const HostBlocks& host)
      : last_use(host.last_use),
        cost(host.cost),
        pace(host.pace),
        hits(host.hits),
        depth(host.depth),
        cls(host.cls),
        eligible(host.eligible),
        extra(host.extra) {}

  BlockFeatures view() const {
    return {last_use.count, last_use.data, cost.data, pace.data, hits.data, depth.data, cls.data, extra.data, 1};
  }

  OnDevice<float> last_use, cost, pace;
  OnDevice<std::uint32_t> hits, depth;
  OnDevice<std::uint8_t> cls, eligible;
  OnDevice<float> extra;
};

struct Case {
  std::string name;
  ScoreParams params;
  std::vector<float> values;
  std::size_t bytes;  // read a block
};

inline std::vector<Case> cases(std::uint32_t sets) {
  std::vector<Case> all;
  const auto add = [&](const std::string& name, Score score, std::size_t width, std::size_t bytes,
                       auto value_of) -> Case& {
    Case made{name, {}, {}, bytes};
    made.params.score = score;
    made.params.sets = sets;
    made.params.width = static_cast<std::uint32_t>(width);
    for (std::uint32_t set = 0; set < sets; ++set) {
      for (std::size_t i = 0; i < width; ++i) made.values.push_back(value_of(set, i));
    }
    all.push_back(std::move(made));
    return all.back();
  };
  const auto by_class = [](std::uint32_t set, std::size_t i) {
    return 0.001F * static_cast<float>(i + 1) * (set + 1.0F);
  };
  if (sets == 1) add("recency", Score::kRecency, 0, 4, by_class);
  add("frequency", Score::kFrequency, 1, 8, by_class);
  add("cost-per-age", Score::kCostPerAge, 1, 8, by_class);
  add("asymcache", Score::kAsymCache, 3, 8, [](std::uint32_t set, std::size_t i) {
    return i == 0 ? 100.0F + set : i == 1 ? 0.5F : 40.0F;
  });
  add("workload-aware", Score::kWorkloadAware, 9, 5, [&](std::uint32_t set, std::size_t i) {
    return i == 0 ? 60.0F : by_class(set, i);
  }).params.classes = 8;
  add("retention-index", Score::kRetentionIndex, 8 * kAgeBins, 13, by_class).params.classes = 8;
  const ForestShape forest{20, 4};
  add("forest", Score::kForest, 1 + forest.trees * (2 * 15 + 16), 25, [&](std::uint32_t set, std::size_t i) {
    const std::size_t in_tree = i == 0 ? 100 : (i - 1) % 46;
    return i > 0 && in_tree < 15 ? static_cast<float>(in_tree % 7) : 7.0F * static_cast<float>(i % 31) + set;
  }).params.forest = forest;
  Case& network = add("network", Score::kNetwork, 16 * 4 + 33, 20, [](std::uint32_t set, std::size_t i) {
    return 0.01F * static_cast<float>(static_cast<int>(i * 37 % 41) - 20) + 0.001F * static_cast<float>(set);
  });
  network.params.network.inputs = 4;
  network.params.network.hidden = 16;
  network.params.network.input = {0, 1, 3, 6};
  network.params.network.logarithm = {1, 1, 0, 1};
  for (Case& each : all) each.params.values = each.values.data();
  return all;
}

inline bool within_one_ulp(float a, float b) {
  if (std::isnan(a) || std::isnan(b)) return std::isnan(a) && std::isnan(b);
  const std::int64_t distance = std::int64_t{scoring::order_key(a)} - std::int64_t{scoring::order_key(b)};
  return std::llabs(distance) <= 1;
}

// check_streams.cu: captures, streams that work at the same time, columns at odd addresses.
void check_streams(cuda::Scorer& scorer);
// time_passes.cu: prints how long passes over `count` blocks take.
void time_passes(cuda::Scorer& scorer, std::size_t count);

}  // namespace kvopt::gpu
