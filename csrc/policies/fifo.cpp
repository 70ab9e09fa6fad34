// First in, first out: evict the leaf that was stored longest ago, of one request the deepest first.
//
// Reference: textbook. In a prefix tree a parent is stored no later than its children and would come first; the
// leaf-first choice of the same order is the oldest leaf. A parent that lost its last child is older than all that is
// left, so it comes next. Hits change nothing.
// Structure: one queue of runs (core/run_queues.hpp) in the order in which they were stored.
// Complexity: O(1) a run. 16 bytes a run, allocated in attach().
#include "core/run_queues.hpp"
#include "policies/builtin.hpp"

namespace kvopt {

namespace {

class Fifo final : public RunQueuePolicy {
 public:
  void attach(const PolicyContext& context) override { order_by(context.runs, 1); }

  void on_stored(std::span<const RunId> stored, const RequestInfo& /*info*/) override {
    for (const RunId r : stored) {
      queues_->enter(r, 0);
      queues_->append(r);
    }
  }

  void on_referenced(std::span<const RunId> /*runs*/) override {}

  void on_evictable(std::span<const RunId> runs, const RequestInfo& /*info*/) override {
    for (const RunId r : runs) keep_place(r);
  }

  RunId choose(std::uint32_t /*wanted*/, Time /*now*/) override { return queues_->front_victim(0); }
};

}  // namespace

BuiltinPolicy builtin::fifo() {
  return {{.name = "fifo", .summary = "first stored, first evicted", .reference = "textbook"}, make_plain<Fifo>};
}

}  // namespace kvopt
