// What `make test-gpu` runs on a machine with a GPU: scores and selections against the CPU, a captured graph, the
// mirror of a table, and how long passes over 10^8 blocks take beside a copy.
#include <cuda_runtime.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <numeric>
#include <random>
#include <string>
#include <vector>

#include "kvopt/scoring.hpp"
#include "runtime.cuh"
#include "scorer.hpp"
#include "scoring/target.hpp"
#include "table.hpp"

namespace {

using namespace kvopt;
using cuda::check;

int failures = 0;

void expect(bool holds, const std::string& what) {
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

std::vector<Case> cases(std::uint32_t sets) {
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

bool within_one_ulp(float a, float b) {
  if (std::isnan(a) || std::isnan(b)) return std::isnan(a) && std::isnan(b);
  const std::int64_t distance = std::int64_t{scoring::order_key(a)} - std::int64_t{scoring::order_key(b)};
  return std::llabs(distance) <= 1;
}

void check_scores(cuda::Scorer& scorer, std::size_t count, std::uint32_t sets, cuda::Stream stream) {
  const HostBlocks host(count, 1);
  const DeviceBlocks device(host);
  for (const Case& each : cases(sets)) {
    std::vector<float> wanted(count * sets);
    score(host.view(), each.params, 1000, wanted.data());
    const OnDevice<float> out(count * sets);
    scorer.score(device.view(), each.params, 1000, out.data, stream);
    check(cudaDeviceSynchronize(), "cudaDeviceSynchronize");
    const std::vector<float> got = out.host();
    std::size_t apart = 0;
    for (std::size_t i = 0; i < got.size(); ++i) apart += within_one_ulp(got[i], wanted[i]) ? 0 : 1;
    expect(apart == 0,
           each.name + ": " + std::to_string(apart) + " of " + std::to_string(got.size()) + " scores differ");

    // The choice among the device's own scores, so that a difference of one ulp does not count.
    const std::size_t k = std::max<std::size_t>(1, count / 50);
    std::vector<std::uint32_t> chosen(k);
    const OnDevice<std::int64_t> blocks(k * sets);
    scorer.score_select(device.view(), each.params, 1000, k, device.eligible.data, blocks.data, stream);
    check(cudaDeviceSynchronize(), "cudaDeviceSynchronize");
    const std::vector<std::int64_t> fused = blocks.host();
    for (std::uint32_t set = 0; set < sets; ++set) {
      select_k(got.data() + set * count, count, k, host.eligible.data(), chosen.data());
      expect(std::equal(chosen.begin(), chosen.end(), fused.begin() + static_cast<std::ptrdiff_t>(set * k)),
             each.name + ": score_select of set " + std::to_string(set) + " of " + std::to_string(count) + " blocks");
      scorer.select_k(out.data + set * count, count, k, device.eligible.data, blocks.data, stream);
      check(cudaDeviceSynchronize(), "cudaDeviceSynchronize");
      const std::vector<std::int64_t> stored = blocks.host();
      expect(std::equal(chosen.begin(), chosen.end(), stored.begin()), each.name + ": select_k");
    }
  }
}

void check_misleading_samples(cuda::Scorer& scorer, cuda::Stream stream) {
  std::vector<float> scores(1'000'000, 1.0F);
  for (std::size_t i = 0; i < scores.size(); ++i) scores[i] = i % 120 < 4 ? 2.0F : 1.0F;
  const OnDevice<float> device(scores);
  const std::size_t k = 1000;
  const OnDevice<std::int64_t> out(k);
  std::vector<std::uint32_t> wanted(k);
  select_k(scores.data(), scores.size(), k, nullptr, wanted.data());
  scorer.select_k(device.data, scores.size(), k, nullptr, out.data, stream);
  check(cudaDeviceSynchronize(), "cudaDeviceSynchronize");
  const std::vector<std::int64_t> got = out.host();
  expect(std::equal(wanted.begin(), wanted.end(), got.begin()), "select_k with a misleading sample");
}

void check_capture(cuda::Scorer& scorer) {
  const HostBlocks host(300'000, 2);
  const DeviceBlocks device(host);
  const Case each = cases(1)[2];
  const OnDevice<std::int64_t> out(1000);
  cudaStream_t stream = nullptr;
  check(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), "cudaStreamCreate");
  const auto address = reinterpret_cast<cuda::Stream>(stream);
  const auto call = [&] {
    scorer.score_select(device.view(), each.params, 1000, 1000, device.eligible.data, out.data, address);
  };
  bool refused = false;
  cudaGraph_t graph = nullptr;
  check(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal), "cudaStreamBeginCapture");
  try {
    call();
  } catch (const CudaError&) {
    refused = true;
  }
  check(cudaStreamEndCapture(stream, &graph), "cudaStreamEndCapture");
  cudaGraphDestroy(graph);
  expect(refused, "a capture that needs memory is refused");
  call();
  check(cudaStreamSynchronize(stream), "cudaStreamSynchronize");
  const std::vector<std::int64_t> wanted = out.host();
  check(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal), "cudaStreamBeginCapture");
  call();
  check(cudaStreamEndCapture(stream, &graph), "cudaStreamEndCapture");
  cudaGraphExec_t runnable = nullptr;
  check(cudaGraphInstantiate(&runnable, graph, 0), "cudaGraphInstantiate");
  check(cudaMemset(out.data, 0, out.count * sizeof(std::int64_t)), "cudaMemset");
  check(cudaGraphLaunch(runnable, stream), "cudaGraphLaunch");
  check(cudaStreamSynchronize(stream), "cudaStreamSynchronize");
  expect(out.host() == wanted, "a captured graph chooses the same blocks");
  cudaGraphExecDestroy(runnable);
  cudaGraphDestroy(graph);
  cudaStreamDestroy(stream);
}

void check_refusals(cuda::Scorer& scorer) {
  HostBlocks host(10'000, 3);
  host.cost[7777] = std::nanf("");
  const DeviceBlocks device(host);
  const Case each = cases(1)[2];
  const OnDevice<float> out(10'000);
  std::string message;
  try {
    scorer.score(device.view(), each.params, 1000, out.data, 0, {.checked = true});
  } catch (const ConfigError& e) {
    message = e.what();
  }
  expect(message == "feature 'cost' of block 7777 is NaN", "checked mode names the value: " + message);
}

void check_table() {
  cuda::Table table(0, 200'000, 0);
  std::mt19937 random(4);
  std::vector<float> wanted(200'000);
  for (int round = 0; round < 5; ++round) {
    std::vector<std::uint32_t> rows(100'000);
    std::vector<cuda::Row> values(rows.size());
    for (std::size_t i = 0; i < rows.size(); ++i) {
      rows[i] = random() % 200'000;
      values[i] = {static_cast<float>(i), 0, 0, 0, 0, 0};
      wanted[rows[i]] = static_cast<float>(i);
    }
    table.set(rows.data(), values.data(), rows.size());
    table.flush(0);
  }
  check(cudaDeviceSynchronize(), "cudaDeviceSynchronize");
  std::vector<float> got(wanted.size());
  check(cudaMemcpy(got.data(), table.features().last_use, got.size() * 4, cudaMemcpyDeviceToHost), "cudaMemcpy");
  expect(got == wanted, "the mirror equals the table");
}

// The best of some runs, in milliseconds.
double best_of(const std::function<void()>& run) {
  cudaEvent_t begin = nullptr;
  cudaEvent_t end = nullptr;
  check(cudaEventCreate(&begin), "cudaEventCreate");
  check(cudaEventCreate(&end), "cudaEventCreate");
  float best = INFINITY;
  for (int i = 0; i < 12; ++i) {
    check(cudaEventRecord(begin), "cudaEventRecord");
    run();
    check(cudaEventRecord(end), "cudaEventRecord");
    check(cudaEventSynchronize(end), "cudaEventSynchronize");
    float ms = 0;
    check(cudaEventElapsedTime(&ms, begin, end), "cudaEventElapsedTime");
    if (i >= 2) best = std::min(best, ms);
  }
  cudaEventDestroy(begin);
  cudaEventDestroy(end);
  return best;
}

__global__ void make_column(float* column, std::size_t count, float most) {
  for (std::size_t i = std::size_t{blockIdx.x} * blockDim.x + threadIdx.x; i < count;
       i += std::size_t{gridDim.x} * blockDim.x) {
    column[i] = static_cast<float>(i * 2654435761U % 16777213U) * (most / 16777213.0F);
  }
}

void time_passes(cuda::Scorer& scorer, std::size_t count) {
  const OnDevice<float> last_use(count), cost(count), pace(count), out(count);
  const OnDevice<std::uint32_t> hits(count), depth(count);
  const OnDevice<std::uint8_t> cls(count);
  for (const OnDevice<float>* column : {&last_use, &cost, &pace}) make_column<<<2048, 256>>>(column->data, count, 1000);
  check(cudaMemset(hits.data, 1, count * 4), "cudaMemset");
  check(cudaMemset(depth.data, 1, count * 4), "cudaMemset");
  check(cudaMemset(cls.data, 3, count), "cudaMemset");
  BlockFeatures features{count, last_use.data, cost.data, pace.data, hits.data, depth.data, cls.data, cost.data, 1};
  const double copy = best_of(
      [&] { check(cudaMemcpyAsync(out.data, cost.data, count * 4, cudaMemcpyDeviceToDevice), "cudaMemcpyAsync"); });
  const double bandwidth = 8.0 * static_cast<double>(count) / copy / 1e6;
  std::printf("%zu blocks; copy %.0f GB/s\n%-16s %9s %9s %10s %9s\n", count, bandwidth, "score", "ms", "GB/s",
              "of a copy", "select");
  const OnDevice<std::int64_t> chosen(100'000);
  for (const Case& each : cases(1)) {
    const double pass = best_of([&] { scorer.score(features, each.params, 1000, out.data, 0); });
    const double fused =
        best_of([&] { scorer.score_select(features, each.params, 1000, 100'000, nullptr, chosen.data, 0); });
    const double rate = static_cast<double>((each.bytes + 4) * count) / pass / 1e6;
    std::printf("%-16s %9.3f %9.0f %9.2fx %8.2fx\n", each.name.c_str(), pass, rate, rate / bandwidth, fused / pass);
  }
}

}  // namespace

int main(int argc, char** argv) {
  try {
    const std::string why = cuda::unavailable();
    if (!why.empty()) {
      std::printf("no GPU can be used: %s\n", why.c_str());
      return 2;
    }
    cuda::Scorer scorer(0);
    const bool quick = argc > 1 && std::strcmp(argv[1], "--quick") == 0;
    for (const std::size_t count : {std::size_t{1}, std::size_t{5}, std::size_t{1023}, std::size_t{300'001}}) {
      check_scores(scorer, count, 1, 0);
      check_scores(scorer, count, 3, 0);
    }
    check_misleading_samples(scorer, 0);
    check_capture(scorer);
    check_refusals(scorer);
    check_table();
    if (!quick) time_passes(scorer, 100'000'000);
  } catch (const std::exception& e) {
    std::printf("FAILED  %s\n", e.what());
    return 1;
  }
  std::printf(failures == 0 ? "all checks passed\n" : "%d checks failed\n", failures);
  return failures == 0 ? 0 : 1;
}
