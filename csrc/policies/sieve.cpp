// SIEVE: a FIFO queue through which a hand moves from the oldest to the newest; it evicts the first run that was not
// hit since the hand last passed. Survivors keep their place.
//
// Reference: Zhang et al., SIEVE is simpler than LRU (NSDI 2024). Under the prefix rule a run with cached children that
// was not hit is passed over, and comes back under the hand when the last of them goes.
// Structure: two queues of runs (core/run_queues.hpp), `behind` the hand and `ahead` of it, one after the other; they
// change roles where the hand begins anew. A bit a run.
// Complexity: O(1) a run, amortised over hits. 17 bytes a run, allocated in attach().
#include "core/run_queues.hpp"
#include "policies/builtin.hpp"

namespace kvopt {

namespace {

class Sieve final : public RunQueuePolicy {
 public:
  void attach(const PolicyContext& context) override {
    order_by(context.runs, 2);
    visited_.emplace(context.runs.capacity);
  }

  void on_hit(std::span<const RunId> hit, const RequestInfo& /*info*/) override {
    for (const RunId r : hit) (*visited_)[r] = 1;
  }

  void on_stored(std::span<const RunId> stored, const RequestInfo& /*info*/) override {
    for (const RunId r : stored) {
      (*visited_)[r] = 0;
      queues_->enter(r, ahead_);
      queues_->append(r);
    }
  }

  void on_split(RunId head, RunId tail) override {
    (*visited_)[head] = (*visited_)[tail];
    queues_->split(head, tail);
  }

  void on_uncovered(RunId run) override {
    if (queues_->listed(run)) return;
    queues_->move(run, ahead_);
    queues_->prepend(run);
  }

  void on_dropped(std::span<const RunId> runs) override {
    RunQueuePolicy::on_dropped(runs);
    if (queues_->front(ahead_) == kNoRun) ahead_ ^= 1U;  // the hand was at the newest: what comes now is not next
  }

  RunId choose(std::uint32_t /*wanted*/, Time /*now*/) override {
    for (;;) {
      const RunId r = queues_->front(ahead_);
      if (r == kNoRun) {
        ahead_ ^= 1U;
      } else if ((*visited_)[r] != 0) {
        (*visited_)[r] = 0;
        queues_->move(r, ahead_ ^ 1U);
        queues_->append(r);
      } else {
        if (runs_->is_victim(r)) return r;
        queues_->unlist(r);
      }
    }
  }

  std::size_t bytes() const override { return queues_->bytes() + visited_->size(); }

 private:
  std::uint32_t ahead_ = 0;
  std::optional<LazyArray<std::uint8_t>> visited_;
};

}  // namespace

BuiltinPolicy builtin::sieve() {
  return {{.name = "sieve",
           .summary = "a hand through a FIFO queue evicts what was not hit since it last passed",
           .reference = "Zhang et al., NSDI 2024"},
          make_plain<Sieve>};
}

}  // namespace kvopt
