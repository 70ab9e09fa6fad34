// When content comes back: return-time curves by class of request, learned online, and the retention index that
// follows.
//
// An observation is a request's release, not a block: it returned at some age, or was lost from sight at some age
// (censored). Classes form a tree of four levels under one root; a thin class borrows from its parent in proportion
// (shrinkage), the root from a prior that is uniform in log time, under which the index falls like 1/age and the order
// is LRU's. Ages are counted in units of the time that the session usually takes, so that slow and fast sessions share
// a curve.
//
// Index of a class at age a:  G(a) = max over s > 0 of  (returns in (a, a + s]) / (time at risk in (a, a + s])
// the Gittins index of its return hazard; with s → ∞ it is the hit density of LHD (Beckmann et al., NSDI 2018).
// Complexity: O(levels) an observation; a class is refreshed in O(bins), a few classes a call, so nothing stalls.
#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <cstdint>
#include <vector>

namespace kvopt {

class ReuseModel {
 public:
  static constexpr std::size_t kBins = 76;  // four an octave of age, from 1/32 to 2^14 units
  static constexpr std::uint32_t kRoot = 0;
  static constexpr std::size_t kLevels = 4;
  static constexpr std::uint8_t kMostValues = 8;  // of each level's feature

  struct Options {
    bool bounded_horizon = true;  // maximum over s; else s → ∞
    float shrinkage = 15;         // events that a parent counts for
    float forgetting = 0.97F;     // what is kept of the past every kEpoch requests
  };

  explicit ReuseModel(const Options& options);

  // The class of these features, each below kMostValues; coarsest first. Creates it when there is room, else gives its
  // parent.
  std::uint32_t class_of(const std::array<std::uint8_t, kLevels>& features);

  // `weight` of an event of this class returned, or was lost from sight, at this age (in units).
  void observe(std::uint32_t cls, float age, float weight, bool returned);

  // Counts a request, by which the past is forgotten.
  void end_request() {
    if (++requests_ % kEpoch == 0) ++epoch_;
  }

  // A round of refreshing: begin_round(), add_open() for all that is still waiting, then refresh() until it says false.
  void begin_round();
  void add_open(std::uint32_t cls, float age, float weight);
  bool refresh(std::size_t classes);

  float index(std::uint32_t cls, float age) const { return nodes_[cls].index[bin_of(age)]; }
  const float* indexes(std::uint32_t cls) const { return nodes_[cls].index.data(); }
  float observed(std::uint32_t cls) const { return nodes_[cls].events; }
  std::size_t classes() const { return nodes_.size(); }

  // Bins are the leading bits of the age as a float: exact, and a shift instead of a logarithm.
  static std::size_t bin_of(float age) {
    const auto bits = static_cast<std::int32_t>(std::bit_cast<std::uint32_t>(age) >> kShift) - kFirst;
    return bits < 0 ? 0 : std::min(static_cast<std::size_t>(bits), kBins - 1);
  }
  static float lower_edge(std::size_t bin) {
    return bin == 0
               ? 0
               : std::bit_cast<float>(static_cast<std::uint32_t>(static_cast<std::int32_t>(bin) + kFirst) << kShift);
  }

 private:
  static constexpr std::uint32_t kShift = 21;  // sign, exponent and two bits of the mantissa stay
  static constexpr std::int32_t kFirst =
      static_cast<std::int32_t>(std::bit_cast<std::uint32_t>(1.0F / 32) >> kShift) - 1;
  static constexpr std::size_t kMostClasses = 768;
  static constexpr std::uint32_t kEpoch = 300;

  using Bins = std::array<float, kBins>;
  struct Node {
    std::uint32_t parent = kRoot;
    std::uint32_t epoch = 0;
    float events = 0;         // weight seen, forgotten ones apart
    float total = 0;          // weight of returns and ends, borrowed ones included
    Bins returned{}, lost{};  // seen, by age
    Bins open{};              // still waiting, by age
    Bins returns{}, ends{};   // with what is borrowed
    Bins index{};
  };

  void forget(Node& node) const;
  void rebuild(Node& node, const Node* parent) const;

  Options options_;
  std::vector<Node> nodes_;
  std::vector<std::uint32_t> children_;  // node of (parent, value), or 0
  std::uint32_t requests_ = 0;
  std::uint32_t epoch_ = 0;
  std::size_t next_ = 0;
};

}  // namespace kvopt
