// MQ, multi-queue: LRU queues by frequency, queue i for runs that were used 2^i times or more. A run that was not used
// for a lifetime goes one queue down; the least recent run of the lowest queue is evicted, and its frequency
// remembered.
//
// Reference: Zhou, Philbin, Li, The multi-queue replacement algorithm for second level buffer caches (USENIX ATC 2001),
// with libCacheSim's defaults; the lifetime is fixed. Time is counted in references to blocks. Under the prefix rule a
// run is used when its last holder lets go of it, a request's deepest first, and that is one step of demotion for all
// its blocks; a ghost stands for a whole run; a run with cached children is passed over, and is the next of its queue
// when the last of them goes.
// Structure: the queues of runs (core/run_queues.hpp), frequency and deadline a run, ghosts (core/ghost_queues.hpp).
// Complexity: O(queues) a run. 32 bytes a run, 40 a ghost, allocated in attach().
#include <algorithm>
#include <bit>

#include "core/ghost_queues.hpp"
#include "core/run_queues.hpp"
#include "policies/builtin.hpp"

namespace kvopt {

namespace {

class Mq final : public RunQueuePolicy {
 public:
  explicit Mq(std::span<const double> parameters)
      : last_queue_(static_cast<std::uint32_t>(parameters[0]) - 1),
        lifetime_(static_cast<std::uint64_t>(parameters[1])),
        history_(parameters[2]) {}

  void attach(const PolicyContext& context) override {
    order_by(context.runs, last_queue_ + 1);
    use_.emplace(context.runs.capacity);
    most_ghosts_ = share_of_pool(history_);
    ghosts_.emplace(most_ghosts_, 1);
  }

  void on_miss(std::uint64_t key, const RequestInfo& /*info*/) override { ghosts_->expect(key); }

  void on_hit(std::span<const RunId> hit, const RequestInfo& /*info*/) override {
    for (const RunId r : hit) count(r);
  }

  void on_stored(std::span<const RunId> stored, const RequestInfo& /*info*/) override {
    for (const RunId r : stored) {
      const std::optional<Ghost> ghost = ghosts_->take(runs_->first_key(r));
      (*use_)[r].frequency = ghost ? ghost->value : 0;
      queues_->enter(r, 0);
      count(r);
    }
  }

  void on_split(RunId head, RunId tail) override {
    (*use_)[head] = (*use_)[tail];
    queues_->split(head, tail);
  }

  void on_referenced(std::span<const RunId> runs) override {
    for (const RunId r : runs) queues_->unlist(r);
  }

  void on_evictable(std::span<const RunId> runs, const RequestInfo& /*info*/) override {
    for (const RunId r : runs) {
      place_last(r);
      (*use_)[r].deadline = time_ + lifetime_;
      time_ += runs_->length[r];
      demote();
    }
  }

  void on_evicted(RunId run, std::uint64_t key, std::uint32_t blocks) override {
    ghosts_->push(0, key, blocks, (*use_)[run].frequency);
    ghosts_->trim(0, most_ghosts_);
  }

  RunId choose(std::uint32_t /*wanted*/, Time /*now*/) override {
    RunId victim = kNoRun;
    for (std::uint32_t q = 0; q <= last_queue_ && victim == kNoRun; ++q) victim = queues_->front_victim(q);
    return victim;
  }

  std::size_t bytes() const override { return queues_->bytes() + use_->size() * sizeof(Use) + ghosts_->bytes(); }

 private:
  struct Use {
    std::uint64_t deadline;
    std::uint32_t frequency;
  };

  void count(RunId r) {
    std::uint32_t& frequency = (*use_)[r].frequency;
    if (frequency != UINT32_MAX) ++frequency;
    queues_->move(r, std::min(static_cast<std::uint32_t>(std::bit_width(frequency)) - 1, last_queue_));
  }

  // The least recent run of each queue goes one down when its lifetime is over.
  void demote() {
    for (std::uint32_t q = 1; q <= last_queue_; ++q) {
      const RunId r = queues_->front(q);
      if (r == kNoRun || (*use_)[r].deadline >= time_) continue;
      queues_->move(r, q - 1);
      queues_->append(r);
      (*use_)[r].deadline = time_ + lifetime_;
    }
  }

  std::uint32_t last_queue_;
  std::uint64_t lifetime_;
  double history_;
  std::uint64_t time_ = 0;
  std::uint32_t most_ghosts_ = 0;
  std::optional<LazyArray<Use>> use_;
  std::optional<GhostQueues> ghosts_;
};

}  // namespace

BuiltinPolicy builtin::mq() {
  return {
      {.name = "mq",
       .summary = "LRU queues by frequency; what is not used for a lifetime goes one queue down",
       .reference = "Zhou et al., USENIX ATC 2001",
       .parameters = {{"queues", 8, 1, 32, "queues; the last one holds all higher frequencies"},
                      {"lifetime", 10'000, 1, 1e15, "block references after which an unused run goes one queue down"},
                      {"history", 4, 0, 8, "evicted blocks whose frequency is remembered, per block of the cache"}}},
      make_with<Mq>};
}

}  // namespace kvopt
