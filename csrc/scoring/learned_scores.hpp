// Learned scores: a small gradient-boosted forest and a network with one hidden layer. Both see float32 inputs; sums
// are float64, in the order of trees or units. NaN in an input gives NaN.
#pragma once

#include "scoring/block.hpp"
#include "scoring/logarithm.hpp"
#include "scoring/prepared.hpp"

namespace kvopt::scoring::inline KVOPT_SCORING_TARGET {

// Input number `which` of block i (see kvopt::Input), as float32.
KVOPT_HOST_DEVICE inline float input_of(const BlockFeatures& features, double now, std::uint32_t which, std::size_t i) {
  switch (static_cast<Input>(which)) {
    case Input::kIdle:
      return static_cast<float>(idle_time(now, features.last_use[i]));
    case Input::kCost:
      return features.cost[i];
    case Input::kPace:
      return features.pace[i];
    case Input::kHits:
      return static_cast<float>(features.hits[i]);
    case Input::kDepth:
      return static_cast<float>(features.depth[i]);
    case Input::kClass:
      return features.cls[i];
    default:
      return features.extra[(which - static_cast<std::uint32_t>(Input::kExtra)) * features.count + i];
  }
}

// Complete binary trees: node 0 is the root, the children of n are 2n + 1 and 2n + 2, the leaves come after the inner
// nodes. input(n) is called with the number of an Input.
struct Forest {
  KVOPT_HOST_DEVICE Forest(const PreparedScore& prepared, std::size_t set)
      : base(prepared.doubles_of(set)[0]),
        trees(prepared.forest.trees),
        depth(prepared.forest.depth),
        inner((1U << depth) - 1),
        leaves(prepared.floats_of(set) + std::size_t{trees} * inner),
        thresholds(prepared.floats_of(set)),
        inputs(prepared.numbers_of(set)) {}

  // Of numbers, or of vectors of them.
  template <class Number>
  KVOPT_HOST_DEVICE static auto goes_right(Number x, Number threshold) {
    return x > threshold;
  }
  // One level down from node n of a tree.
  KVOPT_HOST_DEVICE static std::uint32_t child(std::uint32_t n, float x, float threshold) {
    return 2 * n + (goes_right(x, threshold) ? 2 : 1);
  }

  template <class InputOf>
  KVOPT_HOST_DEVICE double operator()(const InputOf& input) const {
    double sum = base;
    for (std::uint32_t t = 0; t < trees; ++t) {
      std::uint32_t n = 0;
      for (std::uint32_t d = 0; d < depth; ++d) {
        n = child(n, input(static_cast<std::uint32_t>(inputs[t * inner + n])), thresholds[t * inner + n]);
      }
      sum += leaves[t * (inner + 1) + (n - inner)];
    }
    return sum;
  }

  double base;
  std::uint32_t trees;
  std::uint32_t depth;
  std::uint32_t inner;         // nodes of a tree that are no leaves
  const float* leaves;         // [trees][inner + 1]
  const float* thresholds;     // [trees][inner]
  const std::int32_t* inputs;  // [trees][inner]
};

// NaN stays.
KVOPT_HOST_DEVICE inline double relu(double x) { return x < 0 ? 0 : x; }

struct Network {
  KVOPT_HOST_DEVICE Network(const PreparedScore& prepared, std::size_t set)
      : inputs(prepared.network.inputs),
        hidden(prepared.network.hidden),
        w1(prepared.doubles_of(set)),
        b1(w1 + std::size_t{hidden} * inputs),
        w2(b1 + hidden),
        b2(w2[hidden]),
        input(prepared.numbers_of(set)),
        logarithm(input + inputs) {}

  // What goes into the first layer for an input x.
  KVOPT_HOST_DEVICE static double entry(float x, bool log) { return log ? logarithm_of_1_plus(x) : x; }

  // entry_of(i): entry i of this block, or of several blocks in one Value.
  template <class Value = double, class EntryOf>
  KVOPT_HOST_DEVICE Value operator()(const EntryOf& entry_of) const {
    Value sum(b2);
    for (std::uint32_t h = 0; h < hidden; ++h) {
      Value unit(b1[h]);
      for (std::uint32_t i = 0; i < inputs; ++i) unit = multiply_add(w1[h * inputs + i], entry_of(i), unit);
      sum = multiply_add(w2[h], relu(unit), sum);
    }
    return sum;
  }

  std::uint32_t inputs;
  std::uint32_t hidden;
  const double* w1;  // [hidden][inputs]
  const double* b1;
  const double* w2;
  double b2;
  const std::int32_t* input;      // [inputs]: number of the Input
  const std::int32_t* logarithm;  // [inputs]: whether its logarithm goes in
};

}  // namespace kvopt::scoring::inline KVOPT_SCORING_TARGET
