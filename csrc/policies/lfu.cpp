// Least frequently used: evict the leaf with the fewest hits since it was stored, among equals the one that was let go
// of longest ago, then the deepest.
//
// Reference: textbook, without ageing. What is in front of a hit block is hit too, so hits never grow with depth.
// Structure: an indexed heap of leaves by (hits, last use, depth).
// Complexity: O(log leaves) an eviction of a run. 8 bytes a run, allocated in attach().
#include "core/leaf_heap.hpp"
#include "policies/builtin.hpp"

namespace kvopt {

namespace {

struct FewerHits {
  const RunTable* runs;

  bool operator()(RunId a, RunId b) const {
    if (runs->hits[a] != runs->hits[b]) return runs->hits[a] < runs->hits[b];
    if (runs->last_use[a] != runs->last_use[b]) return runs->last_use[a] < runs->last_use[b];
    if (runs->end(a) != runs->end(b)) return runs->end(a) > runs->end(b);
    return a < b;
  }
};

class Lfu final : public LeafHeapPolicy<FewerHits> {
 public:
  void attach(const PolicyContext& context) override { order_by(context.runs, {&context.runs}); }
};

}  // namespace

BuiltinPolicy builtin::lfu() {
  return {
      {.name = "lfu", .summary = "fewest hits since it was stored, then least recently used", .reference = "textbook"},
      make_plain<Lfu>};
}

}  // namespace kvopt
