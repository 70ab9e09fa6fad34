// Marconi: evict the leaf with the lowest sum of recency and weighted compute saved a byte, each scaled to 0 to 1 over
// the leaves:
//
//     score = scaled(1 / idle time) + alpha * scaled(prefill cost of a run / its blocks)
//
// Reference: Pan et al., "Marconi: Prefix Caching for the Era of Hybrid LLMs", MLSys 2025. There any node with at most
// one child may go, since a state in the middle can; here leaves only. alpha is a setting: the paper finds it by
// replaying a first stretch of the load for 0, 0.1, ..., 2, as a comparison of marconi:alpha=... does. As there, a hit
// renews the deepest run that it found and no other, so idle times differ from RunTable::last_use. The admission of
// recurrent states has no meaning for blocks. Structure: compute a block is rounded to one of 256 levels, 2 % apart; a
// heap of leaves a level, by (last use, depth), whose fronts are compared, and one heap for the newest. Complexity:
// O(levels in use + log leaves) an eviction of a run. 30 bytes a run, allocated in attach().
#include <algorithm>
#include <array>
#include <cmath>

#include "core/leaf_classes.hpp"
#include "core/leaf_heap.hpp"
#include "policies/builtin.hpp"

namespace kvopt {

namespace {

constexpr std::uint32_t kLevels = 256;
constexpr double kLevelsPerDoubling = 32;

struct OlderThenDeeper {
  const RunTable* runs;
  const LazyArray<Time>* used;

  bool operator()(RunId a, RunId b) const {
    if ((*used)[a] != (*used)[b]) return (*used)[a] < (*used)[b];
    if (runs->end(a) != runs->end(b)) return runs->end(a) > runs->end(b);
    return a < b;
  }
};

struct Newer {
  const LazyArray<Time>* used;

  bool operator()(RunId a, RunId b) const {
    if ((*used)[a] != (*used)[b]) return (*used)[a] > (*used)[b];
    return a < b;
  }
};

class Marconi final : public Policy {
 public:
  explicit Marconi(std::span<const double> parameters) : alpha_(parameters[0]) {
    for (std::uint32_t i = 0; i < kLevels; ++i) efficiency_[i] = std::exp2(i / kLevelsPerDoubling);
  }

  void attach(const PolicyContext& context) override {
    context_.emplace(context);
    runs_ = &context.runs;
    used_.emplace(runs_->capacity);
    levels_.emplace(*runs_, kLevels, OlderThenDeeper{runs_, &*used_});
    newest_.emplace(*runs_, Newer{&*used_});
  }

  void on_hit(std::span<const RunId> hit, const RequestInfo& info) override {
    (*used_)[hit[0]] = info.now;  // on_referenced() takes it out before anything is compared with it
  }

  void on_stored(std::span<const RunId> stored, const RequestInfo& info) override {
    for (const RunId r : stored) (*used_)[r] = info.now;
  }

  void on_split(RunId head, RunId tail) override {
    (*used_)[head] = (*used_)[tail];
    on_trimmed(tail);
  }

  void on_referenced(std::span<const RunId> runs) override {
    levels_->remove(runs);
    newest_->remove(runs);
  }

  void on_evictable(std::span<const RunId> runs, const RequestInfo& /*info*/) override {
    for (const RunId r : runs) {
      if (runs_->children[r] == 0) on_uncovered(r);
    }
  }

  void on_dropped(std::span<const RunId> runs) override { on_referenced(runs); }

  void on_uncovered(RunId run) override {
    levels_->add(run, level(run));
    newest_->add(run);
  }

  void on_trimmed(RunId run) override {
    if (!levels_->contains(run)) return;
    levels_->remove(run);
    levels_->add(run, level(run));
  }

  RunId choose(std::uint32_t /*wanted*/, Time now) override {
    Time oldest = kNever;
    std::uint32_t low = kLevels;
    std::uint32_t high = 0;
    levels_->for_each_front([&](std::uint32_t c, RunId r) {
      oldest = std::min(oldest, (*used_)[r]);
      low = std::min(low, c);
      high = c;
    });
    const double least = recency(oldest, now);
    const double range = recency((*used_)[newest_->front()], now) - least;
    const double spread = efficiency_[high] - efficiency_[low];
    RunId victim = kNoRun;
    double lowest = 0;
    levels_->for_each_front([&](std::uint32_t c, RunId r) {
      double score = range > 0 ? (recency((*used_)[r], now) - least) / range : 0;
      if (spread > 0) score += alpha_ * (efficiency_[c] - efficiency_[low]) / spread;
      if (victim != kNoRun && score >= lowest) return;
      victim = r;
      lowest = score;
    });
    return victim;
  }

  std::string verify() const override {
    std::string broken = levels_->verify();
    return broken.empty() ? newest_->verify() : broken;
  }

  std::size_t bytes() const override { return levels_->bytes() + newest_->bytes() + used_->size() * sizeof(Time); }

 private:
  static constexpr double kShortest = 0.001;  // seconds; no idle time counts as less

  static double recency(Time used, Time now) { return 1 / std::max(now - used, kShortest); }

  // Cost grows linearly with depth: the mean over a run is the cost in its middle.
  std::uint32_t level(RunId r) const {
    const double mean = context_->block_cost(runs_->depth[r] + (runs_->length[r] - 1.0) / 2);
    const double doublings = std::log2(mean / context_->block_tokens);
    return static_cast<std::uint32_t>(std::clamp(doublings * kLevelsPerDoubling, 0.0, kLevels - 1.0));
  }

  std::optional<PolicyContext> context_;
  const RunTable* runs_ = nullptr;
  double alpha_;
  std::array<double, kLevels> efficiency_{};
  std::optional<LazyArray<Time>> used_;
  std::optional<LeafClasses<OlderThenDeeper>> levels_;
  std::optional<LeafHeap<Newer>> newest_;
};

std::unique_ptr<Policy> make(std::span<const double> parameters) { return std::make_unique<Marconi>(parameters); }

}  // namespace

BuiltinPolicy builtin::marconi() {
  return {{.name = "marconi",
           .summary = "lowest scaled recency + alpha * scaled prefill cost a block",
           .reference = "Marconi, MLSys 2025",
           .parameters = {{"alpha", 1, 0, 1000, "weight of the prefill cost beside recency"}}},
          make};
}

}  // namespace kvopt
