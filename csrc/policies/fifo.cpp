// First in, first out: evict the leaf that was stored longest ago, of one request the deepest first.
//
// Reference: textbook. In a prefix tree a parent is stored no later than its children and would come first; the
// leaf-first choice of the same order is the oldest leaf. A parent that lost its last child is older than all that is
// left, so it comes next. Hits change nothing.
// Structure: one queue of runs (core/run_queues.hpp) in the order in which they were stored. Of runs that were passed
// over and come back to its front, each goes to its place by the number of its commit.
// Complexity: O(1) a run, and a step for each run that came back before and is older. 24 bytes a run, allocated in
// attach().
#include "core/run_queues.hpp"
#include "policies/builtin.hpp"

namespace kvopt {

namespace {

class Fifo final : public RunQueuePolicy {
 public:
  void attach(const PolicyContext& context) override {
    order_by(context.runs, 1);
    stored_.emplace(context.runs.capacity);
  }

  void on_stored(std::span<const RunId> stored, const RequestInfo& /*info*/) override {
    ++commits_;
    for (const RunId r : stored) {
      (*stored_)[r] = commits_;
      queues_->enter(r, 0);
      queues_->append(r);
    }
  }

  void on_split(RunId head, RunId tail) override {
    (*stored_)[head] = (*stored_)[tail];
    queues_->split(head, tail);
  }

  void on_uncovered(RunId run) override {
    if (queues_->listed(run)) return;
    RunId before = kNoRun;
    for (RunId r = queues_->front(0); r != kNoRun && goes_before(r, run); r = queues_->next(r)) before = r;
    if (before == kNoRun) {
      queues_->prepend(run);
    } else {
      queues_->insert_after(before, run);
    }
  }

  RunId choose(std::uint32_t /*wanted*/, Time /*now*/) override { return queues_->front_victim(0); }
  std::size_t bytes() const override { return queues_->bytes() + stored_->size() * sizeof(std::uint64_t); }

 private:
  bool goes_before(RunId a, RunId b) const {
    const std::uint64_t stored_a = (*stored_)[a];
    const std::uint64_t stored_b = (*stored_)[b];
    return stored_a != stored_b ? stored_a < stored_b : runs_->end(a) > runs_->end(b);
  }

  std::uint64_t commits_ = 0;
  std::optional<LazyArray<std::uint64_t>> stored_;  // number of the commit
};

}  // namespace

BuiltinPolicy builtin::fifo() {
  return {{.name = "fifo", .summary = "first stored, first evicted", .reference = "textbook"}, make_plain<Fifo>};
}

}  // namespace kvopt
