// Scores into memory: every block under every parameter set, one grid row a set.
#include "kernels.cuh"
#include "launch.cuh"
#include "runtime.cuh"
#include "sources.cuh"

namespace kvopt::cuda {

namespace {

template <class Source>
__global__ void __launch_bounds__(kThreads)
    score_blocks(const __grid_constant__ Source source, std::size_t count, float* out, bool aligned) {
  const auto bound = source.bind(blockIdx.y);
  float* scores = out + std::size_t{blockIdx.y} * count;
  for_each_four(
      count,
      [&](std::size_t i) {
        float s[4];
        bound.four(i, s);
        if (aligned) {
          __stcs(reinterpret_cast<float4*>(scores + i), make_float4(s[0], s[1], s[2], s[3]));
        } else {
          for (std::size_t j = 0; j < 4; ++j) scores[i + j] = s[j];
        }
      },
      [&](std::size_t i) { scores[i] = bound.one(i); });
}

}  // namespace

void launch_score(const BlockFeatures& features, const PreparedScore& prepared, float* out, const Launch& launch) {
  const bool aligned = is_aligned(out) && (prepared.sets == 1 || features.count % 4 == 0);
  const dim3 grid(grid_for(features.count, launch.processors), prepared.sets);
  with_source(features, prepared, [&](const auto& source) {
    score_blocks<<<grid, kThreads, 0, launch.stream>>>(source, features.count, out, aligned);
    check_launch("score_blocks");
  });
}

}  // namespace kvopt::cuda
