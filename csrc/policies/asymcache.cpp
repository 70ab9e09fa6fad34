// AsymCache: evict the leaf with the least expected loss, its chance of reuse times its marginal prefill cost, where
// the chance falls slowly with the idle time up to a lifespan and fast behind it.
//
//     loss(r, t) = f(idle) * cost(depth)      f = min(exp(-idle / alpha), exp(-(idle - onset) / beta))
//     alpha = -lifespan / ln p                beta = alpha / r                onset = lifespan * (1 - 1 / r)
//
// Reference: AsymCache (arXiv:2606.02964). There attention skips holes and any block may go; here the
// leaf-first choice of the same order. A run's cost is that of its deepest block, the one that goes next, from the
// pool's cost model. Structure: each of the two exponentials keeps the order of ln cost + last use / decay, so two
// indexed heaps of leaves, and the two fronts are compared. Complexity: O(log leaves) an eviction of a run. 24 bytes a
// run, allocated in attach().
#include <cmath>

#include "core/leaf_heap.hpp"
#include "policies/builtin.hpp"

namespace kvopt {

namespace {

struct LowerKey {
  const RunTable* runs;
  const LazyArray<double>* log_cost;
  double decay;  // seconds

  double key(RunId r) const { return (*log_cost)[r] + runs->last_use[r] / decay; }

  bool operator()(RunId a, RunId b) const {
    const double x = key(a);
    const double y = key(b);
    if (x != y) return x < y;
    if (runs->end(a) != runs->end(b)) return runs->end(a) > runs->end(b);
    return a < b;
  }
};

class AsymCache final : public Policy {
 public:
  explicit AsymCache(std::span<const double> parameters)
      : slow_(-parameters[0] / std::log(parameters[1])),
        fast_(slow_ / parameters[2]),
        onset_(parameters[0] * (1 - 1 / parameters[2])) {}

  void attach(const PolicyContext& context) override {
    context_.emplace(context);
    runs_ = &context.runs;
    log_cost_.emplace(runs_->capacity);
    by_slow_.emplace(*runs_, LowerKey{runs_, &*log_cost_, slow_});
    by_fast_.emplace(*runs_, LowerKey{runs_, &*log_cost_, fast_});
  }

  void on_referenced(std::span<const RunId> runs) override {
    by_slow_->remove(runs);
    by_fast_->remove(runs);
  }

  void on_evictable(std::span<const RunId> runs, const RequestInfo& /*info*/) override {
    for (const RunId r : runs) {
      if (runs_->children[r] == 0) on_uncovered(r);
    }
  }

  void on_dropped(std::span<const RunId> runs) override { on_referenced(runs); }

  void on_uncovered(RunId run) override {
    price(run);
    by_slow_->add(run);
    by_fast_->add(run);
  }

  void on_trimmed(RunId run) override {
    price(run);
    by_slow_->update(run);
    by_fast_->update(run);
  }

  RunId choose(std::uint32_t /*wanted*/, Time now) override {
    const RunId slow = by_slow_->front();
    const RunId fast = by_fast_->front();
    const double loss = LowerKey{runs_, &*log_cost_, slow_}.key(slow) - now / slow_;
    return LowerKey{runs_, &*log_cost_, fast_}.key(fast) - (now - onset_) / fast_ < loss ? fast : slow;
  }

  std::string verify() const override {
    std::string broken = by_slow_->verify();
    return broken.empty() ? by_fast_->verify() : broken;
  }

  std::size_t bytes() const override {
    return by_slow_->bytes() + by_fast_->bytes() + log_cost_->size() * sizeof(double);
  }

 private:
  void price(RunId r) { (*log_cost_)[r] = std::log(context_->block_cost(runs_->end(r) - 1.0)); }

  std::optional<PolicyContext> context_;
  const RunTable* runs_ = nullptr;
  double slow_;   // alpha
  double fast_;   // beta
  double onset_;  // the idle time from which on the fast exponential is measured
  std::optional<LazyArray<double>> log_cost_;
  std::optional<LeafHeap<LowerKey>> by_slow_;
  std::optional<LeafHeap<LowerKey>> by_fast_;
};

std::unique_ptr<Policy> make(std::span<const double> parameters) { return std::make_unique<AsymCache>(parameters); }

}  // namespace

BuiltinPolicy builtin::asymcache() {
  return {{.name = "asymcache",
           .summary = "least chance of reuse (two exponentials of the idle time) times marginal prefill cost",
           .reference = "AsymCache (arXiv:2606.02964)",
           .parameters = {{"lifespan", 100, 0.001, 1e9, "seconds; 99 % of reuses come sooner"},
                          {"p", 0.5, 0.01, 0.99, "what the chance has fallen to at the lifespan"},
                          {"r", 40, 1, 1000, "how much faster it falls behind the lifespan"}}},
          make};
}

}  // namespace kvopt
