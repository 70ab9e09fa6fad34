// Prefix-aware Greedy-Dual-Size-Frequency: evict the leaf with the lowest priority,
//
//     priority = clock + uses * (prefill cost of a miss / blocks that the miss computed)
//
// set when a request uses it; the clock is the highest priority that was ever evicted. Among equals the one that was
// let go of longest ago, then the deepest.
//
// Reference: Jin et al., "RAGCache", ACM TOCS 2025 (PGDSF). There the average runs over all misses of a document while
// any tier holds it; here there is one tier, so a block's stay has one miss, the request that stored it: from there on
// all blocks were computed together. Their cost comes from the pool's cost model, in place of a profile. Structure: an
// indexed heap of leaves by (priority, last use, depth). What is in front of a block is used no less often, and costs
// what is stored with it; leaf first does the rest. Complexity: O(log leaves) an eviction of a run. 24 bytes a run,
// allocated in attach().
#include <algorithm>

#include "core/leaf_heap.hpp"
#include "policies/builtin.hpp"

namespace kvopt {

namespace {

struct LowerPriority {
  const RunTable* runs;
  const LazyArray<double>* priority;

  bool operator()(RunId a, RunId b) const {
    if ((*priority)[a] != (*priority)[b]) return (*priority)[a] < (*priority)[b];
    if (runs->last_use[a] != runs->last_use[b]) return runs->last_use[a] < runs->last_use[b];
    if (runs->end(a) != runs->end(b)) return runs->end(a) > runs->end(b);
    return a < b;
  }
};

class Pgdsf final : public LeafHeapPolicy<LowerPriority> {
 public:
  void attach(const PolicyContext& context) override {
    context_.emplace(context);
    runs_ = &context.runs;
    priority_.emplace(runs_->capacity);
    cost_.emplace(runs_->capacity);
    order_by(*runs_, {runs_, &*priority_});
  }

  void on_stored(std::span<const RunId> stored, const RequestInfo& /*info*/) override {
    // Cost grows linearly with depth: the mean over the computed blocks is the cost in their middle.
    const double first = runs_->depth[stored.back()];
    const double last = runs_->end(stored.front()) - 1.0;
    const double mean = context_->block_cost((first + last) / 2);
    for (const RunId r : stored) (*cost_)[r] = mean;
  }

  void on_split(RunId head, RunId tail) override {
    (*cost_)[head] = (*cost_)[tail];
    (*priority_)[head] = (*priority_)[tail];
  }

  void on_evictable(std::span<const RunId> runs, const RequestInfo& /*info*/) override {
    for (const RunId r : runs) (*priority_)[r] = clock_ + (runs_->hits[r] + 1.0) * (*cost_)[r];
    heap_->add(runs);
  }

  void on_evicted(RunId run, std::uint64_t /*key*/, std::uint32_t /*blocks*/) override {
    clock_ = std::max(clock_, (*priority_)[run]);
  }

  std::size_t bytes() const override { return heap_->bytes() + (priority_->size() + cost_->size()) * sizeof(double); }

 private:
  std::optional<PolicyContext> context_;
  const RunTable* runs_ = nullptr;
  double clock_ = 0;
  std::optional<LazyArray<double>> priority_;
  std::optional<LazyArray<double>> cost_;  // of a miss, a block
};

}  // namespace

BuiltinPolicy builtin::pgdsf() {
  return {{.name = "pgdsf",
           .summary = "lowest clock + uses * prefill cost of the miss, a block",
           .reference = "RAGCache, ACM TOCS 2025"},
          make_plain<Pgdsf>};
}

}  // namespace kvopt
