// Tail-optimized LRU: evict first what a conversation's next turn can do without and still meet its budget for the time
// to first token, then the least recently used.
//
// A conversation of L tokens whose next prompt adds about Q has to prefill L + Q tokens less what is cached. When
// `threshold` tokens fit into the budget, only its first L + Q - threshold tokens have to stay; blocks behind them are
// surplus.
//
// Reference: Zhang et al., "Tail-Optimized Caching for LLM Inference", NeurIPS 2025 (arXiv:2510.15152). As in SGLang's
// tlru, L is the longest prefix that was ever cached behind a block, so that what was trimmed stays trimmed; of several
// conversations that share a block, the longest counts. Under the flat rule a block knows of nothing behind it, which
// leaves LRU. Structure: an indexed heap of leaves by (surplus first, last use, depth); of a run that lies across the
// boundary only the surplus goes first. Complexity: O(log leaves) an eviction of a run. 12 bytes a run, allocated in
// attach().
#include <algorithm>

#include "core/leaf_heap.hpp"
#include "policies/builtin.hpp"

namespace kvopt {

namespace {

struct SurplusFirst {
  const RunTable* runs;
  const LazyArray<std::uint32_t>* needed;  // blocks of its prefix that have to stay

  std::uint32_t surplus(RunId r) const { return runs->end(r) - std::clamp((*needed)[r], runs->depth[r], runs->end(r)); }

  bool operator()(RunId a, RunId b) const {
    const bool a_surplus = surplus(a) > 0;
    if (a_surplus != (surplus(b) > 0)) return a_surplus;
    if (runs->last_use[a] != runs->last_use[b]) return runs->last_use[a] < runs->last_use[b];
    if (runs->end(a) != runs->end(b)) return runs->end(a) > runs->end(b);
    return a < b;
  }
};

class TailOptimizedLru final : public LeafHeapPolicy<SurplusFirst> {
 public:
  explicit TailOptimizedLru(std::span<const double> parameters) : spared_(parameters[0] - parameters[1]) {}

  void attach(const PolicyContext& context) override {
    runs_ = &context.runs;
    block_tokens_ = context.block_tokens;
    needed_.emplace(runs_->capacity);
    order_by(*runs_, {runs_, &*needed_});
  }

  void on_stored(std::span<const RunId> stored, const RequestInfo& /*info*/) override {
    for (const RunId r : stored) (*needed_)[r] = 0;
  }

  void on_split(RunId head, RunId tail) override { (*needed_)[head] = (*needed_)[tail]; }

  void on_evictable(std::span<const RunId> runs, const RequestInfo& /*info*/) override {
    const double tokens = block_tokens_ * runs_->end(runs[0]) - spared_;
    const auto needed =
        static_cast<std::uint32_t>(std::clamp((tokens + block_tokens_ - 1) / block_tokens_, 0.0, kMost));
    for (const RunId r : runs) (*needed_)[r] = std::max((*needed_)[r], needed);
    heap_->add(runs);
  }

  std::uint32_t expendable(RunId run) const override {
    const std::uint32_t surplus = SurplusFirst{runs_, &*needed_}.surplus(run);
    return surplus > 0 ? surplus : UINT32_MAX;
  }

  std::size_t bytes() const override { return heap_->bytes() + needed_->size() * sizeof(std::uint32_t); }

 private:
  static constexpr double kMost = UINT32_MAX;

  const RunTable* runs_ = nullptr;
  double spared_;  // tokens that the next turn can do without
  double block_tokens_ = 1;
  std::optional<LazyArray<std::uint32_t>> needed_;
};

std::unique_ptr<Policy> make(std::span<const double> parameters) {
  return std::make_unique<TailOptimizedLru>(parameters);
}

}  // namespace

BuiltinPolicy builtin::t_lru() {
  return {{.name = "t-lru",
           .summary = "first what the next turn can prefill within its time to first token, then least recently used",
           .reference = "Tail-Optimized LRU, NeurIPS 2025 (arXiv:2510.15152); SGLang tlru",
           .parameters = {{"threshold", 2048, 0, 1e9, "tokens that can be prefilled within the budget"},
                          {"next_prompt", 256, 0, 1e9, "tokens that the next turn is expected to add"}}},
          make};
}

}  // namespace kvopt
