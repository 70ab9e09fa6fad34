// 2Q: new content waits in a FIFO queue, A1in; what comes back after it was evicted from there belongs to Am, an LRU
// queue. A1in gives way first while it is over its share.
//
// Reference: Johnson, Shasha, 2Q: a low overhead high performance buffer management replacement algorithm (VLDB 1994),
// the full version, with its shares: A1in 25 % of the cache, A1out remembers 50 %. Under the prefix rule a ghost stands
// for a whole run; content comes back as a run that begins with its key. A run with cached children is passed over, and
// is the next of its queue when the last of them goes.
// Structure: two queues of runs (core/run_queues.hpp) and one of ghosts (core/ghost_queues.hpp).
// Complexity: O(1) a run. 16 bytes a run, 40 a ghost, allocated in attach().
#include "core/ghost_queues.hpp"
#include "core/run_queues.hpp"
#include "policies/builtin.hpp"

namespace kvopt {

namespace {

constexpr std::uint32_t kA1in = 0;
constexpr std::uint32_t kAm = 1;

class TwoQ final : public RunQueuePolicy {
 public:
  explicit TwoQ(std::span<const double> parameters) : in_(parameters[0]), out_(parameters[1]) {}

  void attach(const PolicyContext& context) override {
    order_by(context.runs, 2);
    most_in_ = share_of_pool(in_);
    most_out_ = share_of_pool(out_);
    a1out_.emplace(most_out_, 1);
  }

  void on_miss(std::uint64_t key, const RequestInfo& /*info*/) override { a1out_->expect(key); }

  void on_stored(std::span<const RunId> stored, const RequestInfo& /*info*/) override {
    for (const RunId r : stored) {
      queues_->enter(r, a1out_->take(runs_->first_key(r)) ? kAm : kA1in);
      queues_->append(r);
    }
  }

  void on_referenced(std::span<const RunId> runs) override {
    for (const RunId r : runs) {
      if (queues_->queue(r) == kAm) queues_->unlist(r);
    }
  }

  void on_evictable(std::span<const RunId> runs, const RequestInfo& /*info*/) override {
    for (const RunId r : runs) {
      if (queues_->queue(r) == kAm) {
        place_last(r);
      } else {
        keep_place(r);
      }
    }
  }

  void on_evicted(RunId run, std::uint64_t key, std::uint32_t blocks) override {
    if (queues_->queue(run) != kA1in) return;
    a1out_->push(0, key, blocks);
    a1out_->trim(0, most_out_);
  }

  RunId choose(std::uint32_t /*wanted*/, Time /*now*/) override {
    const std::uint32_t first = queues_->blocks(kA1in) > most_in_ ? kA1in : kAm;
    const RunId victim = queues_->front_victim(first);
    return victim != kNoRun ? victim : queues_->front_victim(first == kAm ? kA1in : kAm);
  }

  std::size_t bytes() const override { return queues_->bytes() + a1out_->bytes(); }

 private:
  double in_;
  double out_;
  std::uint32_t most_in_ = 0;
  std::uint32_t most_out_ = 0;
  std::optional<GhostQueues> a1out_;
};

}  // namespace

BuiltinPolicy builtin::two_q() {
  return {
      {.name = "two-q",
       .summary = "new content waits in a FIFO queue; what comes back after it left belongs to an LRU queue",
       .reference = "Johnson, Shasha, VLDB 1994",
       .parameters = {{"in", 0.25, 0, 1, "share of the cache above which new content gives way first"},
                      {"out", 0.5, 0, 8, "blocks remembered after they left the FIFO queue, per block of the cache"}}},
      make_with<TwoQ>};
}

}  // namespace kvopt
