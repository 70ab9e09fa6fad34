// Where a kernel takes scores from: columns that are scored on the way, or scores that lie in memory.
//
// A source is copied to the kernel by value. bind(set) makes what a thread calls: one(i), and four(i, out) for four
// neighbours from a multiple of 4, with 16 bytes a load where the columns are aligned to that.
#pragma once

#include <cstddef>
#include <cstdint>

#include "scoring/kv_scores.hpp"
#include "scoring/learned_scores.hpp"
#include "scoring/prepared.hpp"
#include "scoring/simple_scores.hpp"

namespace kvopt::cuda {

using scoring::Block;
using scoring::PreparedScore;

// Read once: not worth a place in the caches.
template <class Four, class T>
__device__ inline Four load_four(const T* from) {
  static_assert(sizeof(Four) == 4 * sizeof(T));
  return __ldcs(reinterpret_cast<const Four*>(from));
}

template <std::uint32_t kColumns>
__device__ inline void load_four_blocks(const BlockFeatures& features, std::size_t i, Block (&block)[4]) {
  if constexpr ((kColumns & scoring::kLastUse) != 0) {
    const auto x = load_four<float4>(features.last_use + i);
    block[0].last_use = x.x, block[1].last_use = x.y, block[2].last_use = x.z, block[3].last_use = x.w;
  }
  if constexpr ((kColumns & scoring::kCost) != 0) {
    const auto x = load_four<float4>(features.cost + i);
    block[0].cost = x.x, block[1].cost = x.y, block[2].cost = x.z, block[3].cost = x.w;
  }
  if constexpr ((kColumns & scoring::kPace) != 0) {
    const auto x = load_four<float4>(features.pace + i);
    block[0].pace = x.x, block[1].pace = x.y, block[2].pace = x.z, block[3].pace = x.w;
  }
  if constexpr ((kColumns & scoring::kHits) != 0) {
    const auto x = load_four<uint4>(features.hits + i);
    block[0].hits = x.x, block[1].hits = x.y, block[2].hits = x.z, block[3].hits = x.w;
  }
  if constexpr ((kColumns & scoring::kDepth) != 0) {
    const auto x = load_four<uint4>(features.depth + i);
    block[0].depth = x.x, block[1].depth = x.y, block[2].depth = x.z, block[3].depth = x.w;
  }
  if constexpr ((kColumns & scoring::kClass) != 0) {
    const auto x = load_four<uchar4>(features.cls + i);
    block[0].cls = x.x, block[1].cls = x.y, block[2].cls = x.z, block[3].cls = x.w;
  }
}

// Scores that are functions of one block's own columns.
template <class S>
struct FunctorSource {
  BlockFeatures features;
  PreparedScore prepared;
  bool aligned;

  struct Bound {
    const BlockFeatures& features;
    S score;
    bool aligned;

    __device__ float one(std::size_t i) const {
      return static_cast<float>(score(scoring::load<S::kColumns>(features, i)));
    }
    __device__ void four(std::size_t i, float (&out)[4]) const {
      if (!aligned) {
        for (std::size_t j = 0; j < 4; ++j) out[j] = one(i + j);
        return;
      }
      Block block[4];
      load_four_blocks<S::kColumns>(features, i, block);
      for (std::size_t j = 0; j < 4; ++j) out[j] = static_cast<float>(score(block[j]));
    }
  };

  __device__ Bound bind(std::size_t set) const { return {features, S(prepared, set), aligned}; }
};

struct ForestSource {
  BlockFeatures features;
  PreparedScore prepared;

  struct Bound {
    const BlockFeatures& features;
    const PreparedScore& prepared;
    scoring::Forest forest;

    __device__ float one(std::size_t i) const {
      for (std::uint32_t which = 0; which < kMostInputs; ++which) {
        if ((prepared.inputs_used >> which & 1) == 0) continue;
        const float x = scoring::input_of(features, prepared.now, which, i);
        if (x != x) return x;
      }
      return static_cast<float>(
          forest([&](std::uint32_t which) { return scoring::input_of(features, prepared.now, which, i); }));
    }
    __device__ void four(std::size_t i, float (&out)[4]) const {
      for (std::size_t j = 0; j < 4; ++j) out[j] = one(i + j);
    }
  };

  __device__ Bound bind(std::size_t set) const { return {features, prepared, scoring::Forest(prepared, set)}; }
};

struct NetworkSource {
  BlockFeatures features;
  PreparedScore prepared;

  struct Bound {
    const BlockFeatures& features;
    const PreparedScore& prepared;
    scoring::Network network;

    __device__ float one(std::size_t i) const {
      double entries[kMostInputs];
      for (std::uint32_t e = 0; e < network.inputs; ++e) {
        const auto which = static_cast<std::uint32_t>(network.input[e]);
        entries[e] =
            scoring::Network::entry(scoring::input_of(features, prepared.now, which, i), network.logarithm[e] != 0);
      }
      return static_cast<float>(network([&](std::uint32_t e) { return entries[e]; }));
    }
    __device__ void four(std::size_t i, float (&out)[4]) const {
      for (std::size_t j = 0; j < 4; ++j) out[j] = one(i + j);
    }
  };

  __device__ Bound bind(std::size_t set) const { return {features, prepared, scoring::Network(prepared, set)}; }
};

// Scores in memory.
struct StoredSource {
  const float* scores;
  bool aligned;

  struct Bound {
    const float* scores;
    bool aligned;

    __device__ float one(std::size_t i) const { return scores[i]; }
    __device__ void four(std::size_t i, float (&out)[4]) const {
      if (!aligned) {
        for (std::size_t j = 0; j < 4; ++j) out[j] = scores[i + j];
        return;
      }
      const auto x = load_four<float4>(scores + i);
      out[0] = x.x, out[1] = x.y, out[2] = x.z, out[3] = x.w;
    }
  };

  __device__ Bound bind(std::size_t /*set*/) const { return {scores, aligned}; }
};

inline bool is_aligned(const void* memory, std::size_t bytes = 16) {
  return reinterpret_cast<std::uintptr_t>(memory) % bytes == 0;
}

// Calls use(source) with the source of this score.
template <class Use>
void with_source(const BlockFeatures& features, const PreparedScore& prepared, const Use& use) {
  const bool aligned = is_aligned(features.last_use) && is_aligned(features.cost) && is_aligned(features.pace) &&
                       is_aligned(features.hits) && is_aligned(features.depth) && is_aligned(features.cls, 4);
  switch (prepared.score) {
    case Score::kRecency:
      return use(FunctorSource<scoring::Recency>{features, prepared, aligned});
    case Score::kFrequency:
      return use(FunctorSource<scoring::Frequency>{features, prepared, aligned});
    case Score::kCostPerAge:
      return use(FunctorSource<scoring::CostPerAge>{features, prepared, aligned});
    case Score::kAsymCache:
      return use(FunctorSource<scoring::AsymCache>{features, prepared, aligned});
    case Score::kWorkloadAware:
      return use(FunctorSource<scoring::WorkloadAware>{features, prepared, aligned});
    case Score::kRetentionIndex:
      return use(FunctorSource<scoring::RetentionIndex>{features, prepared, aligned});
    case Score::kForest:
      return use(ForestSource{features, prepared});
    case Score::kNetwork:
      return use(NetworkSource{features, prepared});
  }
}

}  // namespace kvopt::cuda
