// How long passes over many blocks take, beside a copy.
#include <algorithm>
#include <cmath>
#include <functional>

#include "gpu_cases.cuh"

namespace kvopt::gpu {

namespace {

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

}  // namespace

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

}  // namespace kvopt::gpu
