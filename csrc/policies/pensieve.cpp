// Pensieve: evict the leaf with the least retention value, its marginal prefill cost divided by its idle time; among
// equals the cheapest, then the one that was let go of longest ago, then the deepest.
//
// Reference: Yu, Lin and Li, "Stateful Large Language Model Serving with Pensieve", EuroSys 2025. There 32-token chunks
// and holes are allowed, so a conversation loses its leading, cheapest chunks first; here the leaf-first choice of the
// same order. A run's cost is that of its deepest block, the one that goes next. Structure: the order of two runs
// changes with time, but once at most: a kinetic tournament of leaves, exact at every moment. Complexity: O(log runs)
// an eviction of a run, amortised O(log^2) with the overtakings. Up to 32 bytes a run, allocated in attach().
#include <cmath>

#include "core/kinetic_tournament.hpp"
#include "policies/builtin.hpp"

namespace kvopt {

namespace {

struct LowerValue {
  PolicyContext context;

  double cost(RunId r) const { return context.block_cost(context.runs.end(r) - 1.0); }

  bool first(RunId a, RunId b, Time now) const {
    const RunTable& runs = context.runs;
    const double a_cost = cost(a);
    const double b_cost = cost(b);
    const double x = a_cost * (now - runs.last_use[b]);  // value of a, times both idle times
    const double y = b_cost * (now - runs.last_use[a]);
    if (x != y) return x < y;
    if (a_cost != b_cost) return a_cost < b_cost;
    if (runs.end(a) != runs.end(b)) return runs.end(a) > runs.end(b);
    return a < b;
  }

  // Idle time over cost grows faster for what is cheaper.
  Time overtakes(RunId a, RunId b) const {
    const double a_cost = cost(a);
    const double b_cost = cost(b);
    if (b_cost >= a_cost) return kNever;
    const RunTable& runs = context.runs;
    const Time at = (a_cost * runs.last_use[b] - b_cost * runs.last_use[a]) / (a_cost - b_cost);
    return at - std::abs(at) * kRounding;
  }

  static constexpr double kRounding = 1e-9;
};

class Pensieve final : public Policy {
 public:
  void attach(const PolicyContext& context) override { leaves_.emplace(context.runs, LowerValue{context}); }

  void on_referenced(std::span<const RunId> runs) override { leaves_->remove(runs); }

  void on_evictable(std::span<const RunId> runs, const RequestInfo& info) override {
    now_ = info.now;
    leaves_->add(runs, now_);
  }

  void on_dropped(std::span<const RunId> runs) override { leaves_->remove(runs); }
  void on_uncovered(RunId run) override { leaves_->add(run, now_); }
  void on_trimmed(RunId run) override { leaves_->update(run); }

  RunId choose(std::uint32_t /*wanted*/, Time now) override {
    now_ = now;
    return leaves_->front(now);
  }

  std::string verify() const override { return leaves_->verify(); }
  std::size_t bytes() const override { return leaves_->bytes(); }

 private:
  Time now_ = 0;
  std::optional<KineticTournament<LowerValue>> leaves_;
};

}  // namespace

BuiltinPolicy builtin::pensieve() {
  return {{.name = "pensieve",
           .summary = "least marginal prefill cost divided by idle time",
           .reference = "Pensieve, EuroSys 2025"},
          make_plain<Pensieve>};
}

}  // namespace kvopt
