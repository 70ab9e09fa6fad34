#include "core/reuse_model.hpp"

#include <algorithm>
#include <cmath>

namespace kvopt {

namespace {

constexpr float kPriorReturns = 0.05F;  // events a bin: uniform in log time

}  // namespace

ReuseModel::ReuseModel(const Options& options) : options_(options) {
  nodes_.reserve(kMostClasses);
  nodes_.emplace_back();
  children_.assign(kMostClasses * kMostValues, 0);
  rebuild(nodes_[kRoot], nullptr);
}

std::uint32_t ReuseModel::class_of(const std::array<std::uint8_t, kLevels>& features) {
  std::uint32_t node = kRoot;
  for (const std::uint8_t value : features) {
    std::uint32_t& child = children_[std::size_t{node} * kMostValues + value];
    if (child == 0) {
      if (nodes_.size() == kMostClasses) return node;
      child = static_cast<std::uint32_t>(nodes_.size());
      nodes_.push_back({.parent = node, .epoch = epoch_});
      rebuild(nodes_.back(), &nodes_[node]);
    }
    node = child;
  }
  return node;
}

void ReuseModel::observe(std::uint32_t cls, float age, float weight, bool returned) {
  const std::size_t bin = bin_of(age);
  for (std::uint32_t node = cls;; node = nodes_[node].parent) {
    Node& n = nodes_[node];
    (returned ? n.returned : n.lost)[bin] += weight;
    n.events += weight;
    if (node == kRoot) break;
  }
}

void ReuseModel::begin_round() {
  for (Node& n : nodes_) n.open.fill(0);
  next_ = 0;
}

void ReuseModel::add_open(std::uint32_t cls, float age, float weight) {
  const std::size_t bin = bin_of(age);
  for (std::uint32_t node = cls;; node = nodes_[node].parent) {
    nodes_[node].open[bin] += weight;
    if (node == kRoot) break;
  }
}

// Parents have lower numbers than their children, so they are always refreshed first.
bool ReuseModel::refresh(std::size_t classes) {
  const std::size_t end = std::min(next_ + classes, nodes_.size());
  for (; next_ < end; ++next_) {
    Node& n = nodes_[next_];
    forget(n);
    rebuild(n, next_ == kRoot ? nullptr : &nodes_[n.parent]);
  }
  return next_ < nodes_.size();
}

void ReuseModel::forget(Node& node) const {
  if (node.epoch == epoch_) return;
  const float kept = std::pow(options_.forgetting, static_cast<float>(epoch_ - node.epoch));
  for (float& x : node.returned) x *= kept;
  for (float& x : node.lost) x *= kept;
  node.events *= kept;
  node.epoch = epoch_;
}

void ReuseModel::rebuild(Node& node, const Node* parent) const {
  const float borrowed = parent == nullptr ? 0 : options_.shrinkage / std::max(parent->total, 1e-6F);
  node.total = 0;
  for (std::size_t b = 0; b < kBins; ++b) {
    node.returns[b] = node.returned[b] + (parent == nullptr ? kPriorReturns : parent->returns[b] * borrowed);
    node.ends[b] = node.lost[b] + std::max(node.open[b], 0.0F) + (parent == nullptr ? 0 : parent->ends[b] * borrowed);
    node.total += node.returns[b] + node.ends[b];
  }
  // From the oldest bin down: a bin and the stretches after it merge as long as that raises returns over time at risk.
  struct Stretch {
    float returns, at_risk;
  };
  std::array<Stretch, kBins> stretches{};
  std::size_t top = 0;
  float beyond = 0;  // weight that lives past the bin
  for (std::size_t b = kBins; b-- > 0;) {
    const float here = node.returns[b] + node.ends[b];
    const float width = b + 1 == kBins ? lower_edge(b) : lower_edge(b + 1) - lower_edge(b);
    Stretch s{node.returns[b], (beyond + here / 2) * width};
    beyond += here;
    while (top > 0 && (!options_.bounded_horizon ||
                       stretches[top - 1].returns * s.at_risk >= s.returns * stretches[top - 1].at_risk)) {
      --top;
      s = {s.returns + stretches[top].returns, s.at_risk + stretches[top].at_risk};
    }
    stretches[top++] = s;
    node.index[b] = s.returns / std::max(s.at_risk, 1e-20F);
  }
}

}  // namespace kvopt
