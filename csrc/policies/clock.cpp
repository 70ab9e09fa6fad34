// Clock, or second chance: a FIFO queue in which a run that was hit since it was last looked at goes round once more.
//
// Reference: Corbató, A paging experiment with the Multics system (MIT Project MAC 1968). With bits > 1 a run has a
// counter of that many bits and goes round once a hit that it holds, as in libCacheSim. Under the prefix rule a run
// with cached children whose bit is clear is passed over, and comes back under the hand when the last of them goes.
// Structure: one queue of runs (core/run_queues.hpp), the hand at its front; a counter a run.
// Complexity: O(1) a run, amortised over hits. 17 bytes a run, allocated in attach().
#include <algorithm>

#include "core/run_queues.hpp"
#include "policies/builtin.hpp"

namespace kvopt {

namespace {

class Clock final : public RunQueuePolicy {
 public:
  explicit Clock(std::span<const double> parameters)
      : most_(static_cast<std::uint8_t>((1U << static_cast<unsigned>(parameters[0])) - 1)) {}

  void attach(const PolicyContext& context) override {
    order_by(context.runs, 1);
    counter_.emplace(context.runs.capacity);
  }

  void on_hit(std::span<const RunId> hit, const RequestInfo& /*info*/) override {
    for (const RunId r : hit) {
      std::uint8_t& counter = (*counter_)[r];
      counter = static_cast<std::uint8_t>(counter + (counter < most_ ? 1 : 0));
    }
  }

  void on_stored(std::span<const RunId> stored, const RequestInfo& /*info*/) override {
    for (const RunId r : stored) {
      (*counter_)[r] = 0;
      queues_->enter(r, 0);
      queues_->append(r);
    }
  }

  void on_split(RunId head, RunId tail) override {
    (*counter_)[head] = (*counter_)[tail];
    queues_->split(head, tail);
  }

  RunId choose(std::uint32_t /*wanted*/, Time /*now*/) override {
    for (;;) {
      const RunId r = queues_->front(0);
      if (r == kNoRun || (*counter_)[r] == 0) {
        if (r == kNoRun || runs_->is_victim(r)) return r;
        queues_->unlist(r);
      } else {
        --(*counter_)[r];
        queues_->unlist(r);
        queues_->append(r);
      }
    }
  }

  std::size_t bytes() const override { return queues_->bytes() + counter_->size(); }

 private:
  std::uint8_t most_;
  std::optional<LazyArray<std::uint8_t>> counter_;
};

}  // namespace

BuiltinPolicy builtin::clock() {
  return {{.name = "clock",
           .summary = "a FIFO queue in which what was hit goes round once more",
           .reference = "Corbató, MIT Project MAC 1968",
           .parameters = {{"bits", 1, 1, 8, "bits of the hit counter of a run"}}},
          make_with<Clock>};
}

}  // namespace kvopt
