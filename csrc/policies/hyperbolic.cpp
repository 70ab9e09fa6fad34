// Hyperbolic caching: evict the leaf with the fewest references for the time since it was stored, of a random sample.
//
// Reference: Blankstein, Sen and Freedman, "Hyperbolic Caching: Flexible Caching for Web Applications", USENIX ATC
// 2017: the lowest n / t of 64 samples, n references in the t since insertion; with cost, cost x n / t. Time is counted
// in references to blocks. Under the prefix rule a run counts as one of its blocks (what is evicted comes off its deep
// end), and cost is the mean prefill time of its blocks. Structure: an array of the leaves, and when each run was
// stored. Complexity: O(samples) an eviction, O(1) a hit. 16 bytes a run, allocated in attach().
#include <limits>

#include "core/leaf_array.hpp"
#include "core/random.hpp"
#include "policies/builtin.hpp"
#include "policies/seed.hpp"

namespace kvopt {

namespace {

class Hyperbolic final : public LeafArrayPolicy {
 public:
  Hyperbolic(std::uint32_t samples, bool cost, std::uint64_t seed) : samples_(samples), cost_(cost), random_(seed) {}

  void attach(const PolicyContext& context) override {
    context_.emplace(context);
    sample_from(context.runs);
    stored_.emplace(context.runs.capacity);
  }

  void on_hit(std::span<const RunId> hit, const RequestInfo& /*info*/) override {
    for (const RunId r : hit) clock_ += context_->runs.length[r];
  }

  void on_stored(std::span<const RunId> stored, const RequestInfo& /*info*/) override {
    for (const RunId r : stored) (*stored_)[r] = clock_;
    on_hit(stored, {});
  }

  void on_split(RunId head, RunId tail) override { (*stored_)[head] = (*stored_)[tail]; }

  RunId choose(std::uint32_t /*wanted*/, Time /*now*/) override {
    const RunTable& runs = context_->runs;
    RunId lowest = kNoRun;
    double least = std::numeric_limits<double>::infinity();
    for (std::uint32_t i = 0; i < samples_; ++i) {
      const RunId r = (*leaves_)[random_.below(leaves_->size())];
      double value = (runs.hits[r] + 1.0) / static_cast<double>(clock_ - (*stored_)[r] + 1);
      if (cost_) value *= context_->block_cost(runs.depth[r] + (runs.length[r] - 1) / 2.0);
      if (value < least) {
        least = value;
        lowest = r;
      }
    }
    return lowest;
  }

  std::size_t bytes() const override { return leaves_->bytes() + stored_->size() * sizeof(std::uint64_t); }

 private:
  std::uint32_t samples_;
  bool cost_;
  Random random_;
  std::optional<PolicyContext> context_;
  std::uint64_t clock_ = 0;  // blocks referenced
  std::optional<LazyArray<std::uint64_t>> stored_;
};

}  // namespace

BuiltinPolicy builtin::hyperbolic() {
  return {{.name = "hyperbolic",
           .summary = "fewest references for the time since it was stored, of a random sample",
           .reference = "Blankstein et al., USENIX ATC 2017",
           .parameters = {{"sample", 64, 1, 1024, "leaves looked at for each victim"},
                          {"cost", 0, 0, 1, "1: weigh references with the prefill time of a block at its depth"},
                          seed_parameter()}},
          [](std::span<const double> p) -> std::unique_ptr<Policy> {
            return std::make_unique<Hyperbolic>(static_cast<std::uint32_t>(p[0]), p[1] >= 0.5, seed_of(p[2]));
          }};
}

}  // namespace kvopt
