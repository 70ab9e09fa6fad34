// S3-FIFO: new content enters a small FIFO queue; what was hit often enough there goes on to the main queue, the rest
// leaves early. What comes back soon after enters the main queue at once, a FIFO queue with second chances.
//
// Reference: Yang et al., FIFO queues are all you need for cache eviction (SOSP 2023). As in libCacheSim: a run leaves
// the small queue for the main one with its second hit, its counter set to 0 there; the main queue gives way when it is
// over its share; until the first eviction what the small queue has no room for enters the main one. Under the prefix
// rule a run with cached children that would go is passed over, and is the next of its queue when the last of them
// goes; a ghost stands for a whole run. Structure: two queues of runs (core/run_queues.hpp), a counter a run, a queue
// of ghosts (core/ghost_queues.hpp). Complexity: O(1) a run, amortised over hits. 17 bytes a run, 40 a ghost, allocated
// in attach().
#include <algorithm>

#include "core/ghost_queues.hpp"
#include "core/run_queues.hpp"
#include "policies/builtin.hpp"

namespace kvopt {

namespace {

constexpr std::uint32_t kSmall = 0;
constexpr std::uint32_t kMain = 1;
constexpr std::uint8_t kMostChances = 3;  // two bits

class S3Fifo final : public RunQueuePolicy {
 public:
  explicit S3Fifo(std::span<const double> parameters)
      : small_(parameters[0]), ghost_(parameters[1]), promote_(static_cast<std::uint8_t>(parameters[2])) {}

  void attach(const PolicyContext& context) override {
    order_by(context.runs, 2);
    hits_.emplace(context.runs.capacity);
    most_small_ = share_of_pool(small_);
    most_ghost_ = share_of_pool(ghost_);
    ghosts_.emplace(most_ghost_, 1);
  }

  void on_miss(std::uint64_t key, const RequestInfo& /*info*/) override { ghosts_->expect(key); }

  void on_hit(std::span<const RunId> hit, const RequestInfo& /*info*/) override {
    for (const RunId r : hit) (*hits_)[r] = std::min<std::uint8_t>((*hits_)[r] + 1, kMostChances);
  }

  void on_stored(std::span<const RunId> stored, const RequestInfo& /*info*/) override {
    for (const RunId r : stored) {
      const bool filling = !evicting_ && queues_->blocks(kSmall) >= most_small_;
      queues_->enter(r, ghosts_->take(runs_->first_key(r)) || filling ? kMain : kSmall);
      queues_->append(r);
      (*hits_)[r] = 0;
    }
  }

  void on_split(RunId head, RunId tail) override {
    (*hits_)[head] = (*hits_)[tail];
    queues_->split(head, tail);
  }

  void on_evicted(RunId run, std::uint64_t key, std::uint32_t blocks) override {
    if (queues_->queue(run) != kSmall) return;
    ghosts_->push(0, key, blocks);
    ghosts_->trim(0, most_ghost_);
  }

  RunId choose(std::uint32_t /*wanted*/, Time /*now*/) override {
    evicting_ = true;
    const bool main_first = queues_->blocks(kMain) > runs_->capacity - most_small_;
    RunId victim = main_first ? choose_main() : choose_small();
    if (victim == kNoRun) victim = main_first ? choose_small() : choose_main();
    return victim != kNoRun ? victim : choose_main();  // all of the small queue may have gone on to the main one
  }

  std::size_t bytes() const override { return queues_->bytes() + hits_->size() + ghosts_->bytes(); }

 private:
  RunId choose_small() {
    for (RunId r = queues_->front(kSmall); r != kNoRun; r = queues_->front(kSmall)) {
      if ((*hits_)[r] >= promote_) {
        (*hits_)[r] = 0;
        queues_->move(r, kMain);
        queues_->append(r);
      } else if (runs_->is_victim(r)) {
        return r;
      } else {
        queues_->unlist(r);
      }
    }
    return kNoRun;
  }

  RunId choose_main() {
    for (RunId r = queues_->front(kMain); r != kNoRun; r = queues_->front(kMain)) {
      if ((*hits_)[r] > 0) {
        --(*hits_)[r];
        queues_->unlist(r);
        queues_->append(r);
      } else if (runs_->is_victim(r)) {
        return r;
      } else {
        queues_->unlist(r);
      }
    }
    return kNoRun;
  }

  double small_;
  double ghost_;
  std::uint8_t promote_;
  bool evicting_ = false;
  std::uint32_t most_small_ = 0;
  std::uint32_t most_ghost_ = 0;
  std::optional<LazyArray<std::uint8_t>> hits_;
  std::optional<GhostQueues> ghosts_;
};

}  // namespace

BuiltinPolicy builtin::s3_fifo() {
  return {
      {.name = "s3-fifo",
       .summary = "a small FIFO queue for what is new, a main one for what was hit there or came back soon",
       .reference = "Yang et al., SOSP 2023",
       .parameters = {{"small", 0.1, 0, 1, "share of the cache for the small queue"},
                      {"ghost", 0.9, 0, 8, "blocks remembered after they left the small queue, per block of the cache"},
                      {"promote", 2, 1, 3, "hits in the small queue that lead to the main one"}}},
      make_with<S3Fifo>};
}

}  // namespace kvopt
