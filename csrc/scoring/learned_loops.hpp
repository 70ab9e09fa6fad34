// The loops over blocks for forests and networks, several blocks side by side. Part of kernels.cpp, whose rules hold
// here.
#pragma once

#include "scoring/learned_scores.hpp"
#include "scoring/prepared.hpp"

namespace kvopt::scoring::inline KVOPT_SCORING_TARGET {

// NOLINTBEGIN(modernize-avoid-c-arrays): the members of std::array would be shared functions

inline constexpr std::size_t kLanes = 128;  // blocks that go through a forest or network side by side

// inputs[which][lane] of the inputs that are used.
using Inputs = float[kMostInputs][kLanes];

inline void load_inputs(const BlockFeatures& features, const PreparedScore& prepared, std::size_t begin,
                        std::size_t count, Inputs& inputs) {
  for (std::uint32_t which = 0; which < kMostInputs; ++which) {
    if ((prepared.inputs_used >> which & 1) == 0) continue;
    float* __restrict row = inputs[which];
    for (std::size_t i = 0; i < count; ++i) row[i] = input_of(features, prepared.now, which, begin + i);
    for (std::size_t i = count; i < kLanes; ++i) row[i] = 0;
  }
}

// Where the first levels of a tree lead, at most kTopLevels of them: by comparing every node at once instead of
// walking, which would be a gather a level. Each node whose comparison leads to the right rules out the leaves on its
// left; the lowest that is left is where the walk would end.
inline constexpr std::uint32_t kTopLevels = 5;

// Words and numbers of neighbouring lanes, for the compiler to keep in registers.
#if defined(__AVX512F__)
inline constexpr std::size_t kVectorBytes = 64;
#elif defined(__AVX2__)
inline constexpr std::size_t kVectorBytes = 32;
#else
inline constexpr std::size_t kVectorBytes = 16;
#endif
using Words = std::uint32_t __attribute__((vector_size(kVectorBytes)));
using Reals = float __attribute__((vector_size(kVectorBytes)));

inline void walk_top(const Inputs& inputs, const float* thresholds, const std::int32_t* which, std::uint32_t levels,
                     std::int32_t* __restrict node) {
  constexpr std::size_t kTogether = 8;  // vectors
  constexpr std::size_t kWidth = kVectorBytes / sizeof(float);
  alignas(64) std::uint32_t possible[kLanes];
  for (std::size_t begin = 0; begin < kLanes; begin += kTogether * kWidth) {
    Words leaves[kTogether];
    for (Words& each : leaves) each = ~Words{};
    std::uint32_t n = 0;
    for (std::uint32_t level = 0; level < levels; ++level) {
      const std::uint32_t half = 1U << (levels - level - 1);  // leaves on one side
      for (std::uint32_t q = 0; q < 1U << level; ++q, ++n) {
        const Words right = Words{} + ~(((1U << half) - 1) << (2 * half * q));
        const Reals threshold = Reals{} + thresholds[n];
        const float* x = inputs[which[n]] + begin;
        for (std::size_t v = 0; v < kTogether; ++v) {
          Reals lanes;
          __builtin_memcpy(&lanes, x + v * kWidth, sizeof(lanes));
          leaves[v] = Forest::goes_right(lanes, threshold) ? leaves[v] & right : leaves[v];
        }
      }
    }
    __builtin_memcpy(possible + begin, leaves, sizeof(leaves));
  }
  const std::int32_t first = (1 << levels) - 1;
  for (std::size_t i = 0; i < kLanes; ++i) {
    const auto lowest = static_cast<float>(static_cast<std::int32_t>(possible[i] & (0U - possible[i])));
    node[i] = static_cast<std::int32_t>(bits_of(lowest) >> 23 & 0xFF) - 127 + first;
  }
}

inline void score_forest_lanes(const Forest& forest, const Inputs& inputs, double* __restrict sum) {
  alignas(64) std::int32_t node[kLanes];
  const float* x = inputs[0];
  const std::uint32_t top = forest.depth < kTopLevels ? forest.depth : kTopLevels;
  for (std::size_t i = 0; i < kLanes; ++i) sum[i] = forest.base;
  for (std::uint32_t t = 0; t < forest.trees; ++t) {
    const float* __restrict thresholds = forest.thresholds + std::size_t{t} * forest.inner;
    const std::int32_t* __restrict which = forest.inputs + std::size_t{t} * forest.inner;
    const float* __restrict leaves = forest.leaves + std::size_t{t} * (forest.inner + 1);
    walk_top(inputs, thresholds, which, top, node);
    for (std::uint32_t d = top; d < forest.depth; ++d) {
      for (std::int32_t i = 0; i < static_cast<std::int32_t>(kLanes); ++i) {
        const std::int32_t n = node[i];
        const float value = x[which[n] * static_cast<std::int32_t>(kLanes) + i];
        node[i] = static_cast<std::int32_t>(Forest::child(static_cast<std::uint32_t>(n), value, thresholds[n]));
      }
    }
    const auto inner = static_cast<std::int32_t>(forest.inner);
    for (std::size_t i = 0; i < kLanes; ++i) sum[i] += leaves[node[i] - inner];
  }
}

inline void score_forest(const BlockFeatures& features, const PreparedScore& prepared, std::size_t set,
                         std::size_t begin, std::size_t end, float* __restrict out) {
  const Forest forest(prepared, set);
  alignas(64) Inputs inputs;
  alignas(64) double sum[kLanes];
  while (begin < end) {
    const std::size_t count = end - begin < kLanes ? end - begin : kLanes;
    load_inputs(features, prepared, begin, count, inputs);
    score_forest_lanes(forest, inputs, sum);
    for (std::uint32_t which = 0; which < kMostInputs; ++which) {
      if ((prepared.inputs_used >> which & 1) == 0) continue;
      const float* row = inputs[which];
      for (std::size_t i = 0; i < kLanes; ++i) sum[i] = is_nan(row[i]) ? row[i] : sum[i];
    }
    for (std::size_t i = 0; i < count; ++i) out[i] = static_cast<float>(sum[i]);
    begin += count;
    out += count;
  }
}

// Several blocks in one value, for the compiler to keep in registers.
struct Pack {
  static constexpr std::size_t kParts = 4;
  static constexpr std::size_t kBlocks = kParts * kVectorBytes / sizeof(double);
  using Part = double __attribute__((vector_size(kVectorBytes)));

  explicit Pack(double x) {  // NOLINT(*-member-init): all of it is written
    for (Part& p : part) p = x - Part{};
  }

  Part part[kParts];
};

inline Pack multiply_add(double a, const Pack& b, Pack c) {
  for (std::size_t k = 0; k < Pack::kParts; ++k) c.part[k] += a * b.part[k];
  return c;
}
inline Pack relu(Pack x) {
  for (Pack::Part& part : x.part) part = part < 0 ? Pack::Part{} : part;
  return x;
}

inline void score_network(const BlockFeatures& features, const PreparedScore& prepared, std::size_t set,
                          std::size_t begin, std::size_t end, float* __restrict out) {
  const Network network(prepared, set);
  alignas(64) Inputs inputs;
  alignas(64) double entries[kMostInputs][kLanes];
  while (begin < end) {
    const std::size_t count = end - begin < kLanes ? end - begin : kLanes;
    load_inputs(features, prepared, begin, count, inputs);
    for (std::uint32_t e = 0; e < network.inputs; ++e) {
      const float* __restrict row = inputs[network.input[e]];
      double* __restrict entry = entries[e];
      if (network.logarithm[e] != 0) {
        for (std::size_t i = 0; i < kLanes; ++i) entry[i] = Network::entry(row[i], true);
      } else {
        for (std::size_t i = 0; i < kLanes; ++i) entry[i] = Network::entry(row[i], false);
      }
    }
    for (std::size_t i = 0; i < count; i += Pack::kBlocks) {
      const Pack score = network.template operator()<Pack>(
          [&](std::uint32_t e) -> const Pack& { return *reinterpret_cast<const Pack*>(&entries[e][i]); });
      alignas(64) double lane[Pack::kBlocks];
      __builtin_memcpy(lane, score.part, sizeof(lane));
      const std::size_t left = count - i < Pack::kBlocks ? count - i : Pack::kBlocks;
      for (std::size_t k = 0; k < left; ++k) out[i + k] = static_cast<float>(lane[k]);
    }
    begin += count;
    out += count;
  }
}

// NOLINTEND(modernize-avoid-c-arrays)

}  // namespace kvopt::scoring::inline KVOPT_SCORING_TARGET
