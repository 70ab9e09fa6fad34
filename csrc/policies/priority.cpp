// Retention priority: evict the leaf with the lowest priority, among equals the one that was let go of longest ago,
// then the deepest.
//
// Reference: TensorRT-LLM, KvCacheRetentionConfig (priority 0 to 100, default 35, with a duration). There the clock of
// a duration starts when the block is released; here it starts at BlockPool::retain, which an engine calls at the
// release. Structure: an indexed heap of leaves by (priority, last use, depth). Priorities are set and expire through
// the pool. Complexity: O(log leaves) an eviction or expiry. 8 bytes a run, allocated in attach().
#include "core/leaf_heap.hpp"
#include "policies/builtin.hpp"

namespace kvopt {

namespace {

struct LowerPriority {
  const RunTable* runs;

  bool operator()(RunId a, RunId b) const {
    if (runs->priority[a] != runs->priority[b]) return runs->priority[a] < runs->priority[b];
    if (runs->last_use[a] != runs->last_use[b]) return runs->last_use[a] < runs->last_use[b];
    if (runs->end(a) != runs->end(b)) return runs->end(a) > runs->end(b);
    return a < b;
  }
};

class Priority final : public LeafHeapPolicy<LowerPriority> {
 public:
  void attach(const PolicyContext& context) override { order_by(context.runs, {&context.runs}); }
  void on_priority(RunId run) override { heap_->update(run); }
  bool honours_priority() const override { return true; }
};

}  // namespace

BuiltinPolicy builtin::priority() {
  return {{.name = "priority",
           .summary = "lowest retention priority, then least recently used",
           .reference = "TensorRT-LLM, KvCacheRetentionConfig"},
          make_plain<Priority>};
}

}  // namespace kvopt
