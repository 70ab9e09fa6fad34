// Least frequently used: evict the leaf with the fewest hits since it was stored, among equals the one that was let go
// of longest ago, then the deepest.
//
// Reference: textbook, without ageing, in constant time as by Shah, Mitra, Matani, An O(1) algorithm for implementing
// the LFU cache eviction scheme (2010). What is in front of a hit block is hit too, so a run is never used less often
// than what is behind it, and comes after it where it is used as often: the order is leaf first by itself.
// Structure: frequencies that occur, in rising order, each with a queue of its runs in the order in which they were let
// go of (core/run_queues.hpp).
// Complexity: O(1) a run, and a look at each frequency all of whose runs are held. 44 bytes a run, allocated in
// attach().
#include "core/run_queues.hpp"
#include "policies/builtin.hpp"

namespace kvopt {

namespace {

class Lfu final : public RunQueuePolicy {
 public:
  void attach(const PolicyContext& context) override {
    const std::uint32_t groups = context.runs.capacity + 1;  // each holds a run, but for one that is being filled
    order_by(context.runs, groups);
    groups_.emplace(std::size_t{groups} + 1);
    end_ = groups;
    (*groups_)[end_] = {.next = end_, .previous = end_, .frequency = UINT32_MAX};
  }

  void on_hit(std::span<const RunId> hit, const RequestInfo& /*info*/) override {
    for (const RunId r : hit) {
      const std::uint32_t from = queues_->queue(r);
      if ((*groups_)[from].frequency + 1 == UINT32_MAX) continue;
      queues_->move(r, group_after(from, (*groups_)[from].frequency + 1));
      drop_if_empty(from);
    }
  }

  void on_stored(std::span<const RunId> stored, const RequestInfo& /*info*/) override {
    for (const RunId r : stored) {
      queues_->enter(r, group_after(end_, 1));
    }
  }

  void on_referenced(std::span<const RunId> runs) override {
    for (const RunId r : runs) queues_->unlist(r);
  }

  void on_evictable(std::span<const RunId> runs, const RequestInfo& /*info*/) override {
    for (const RunId r : runs) {
      if (queues_->blocks_of(r) == 0) enter_again(r);
      place_last(r);
    }
  }

  void on_dropped(std::span<const RunId> runs) override {
    RunQueuePolicy::on_dropped(runs);
    for (const RunId r : runs) drop_if_empty(queues_->queue(r));
  }

  void on_forgotten(RunId run) override {
    if (queues_->blocks_of(run) == 0) return;
    RunQueuePolicy::on_forgotten(run);
    drop_if_empty(queues_->queue(run));
  }

  RunId choose(std::uint32_t /*wanted*/, Time /*now*/) override {
    for (std::uint32_t g = (*groups_)[end_].next; g != end_; g = (*groups_)[g].next) {
      if (const RunId victim = queues_->front_victim(g); victim != kNoRun) return victim;
    }
    return kNoRun;
  }

  std::size_t bytes() const override { return queues_->bytes() + groups_->size() * sizeof(Group); }

 private:
  struct Group {  // of runs with one frequency; its number is that of its queue
    std::uint32_t next;
    std::uint32_t previous;
    std::uint32_t frequency;
  };

  // A run that was dropped comes back: the pool gives back what it asked for when a later choice is refused.
  void enter_again(RunId r) {
    std::uint32_t below = end_;
    const std::uint32_t frequency = runs_->hits[r] + 1;
    while ((*groups_)[(*groups_)[below].next].frequency < frequency) below = (*groups_)[below].next;
    queues_->enter(r, group_after(below, frequency));
  }

  // The group of this frequency, which comes right after group g where there is one.
  std::uint32_t group_after(std::uint32_t g, std::uint32_t frequency) {
    auto& groups = *groups_;
    const std::uint32_t next = groups[g].next;
    if (groups[next].frequency == frequency) return next;
    std::uint32_t made = free_;
    if (made != kNone) {
      free_ = groups[made].next;
    } else {
      made = used_++;
    }
    groups[made] = {.next = next, .previous = g, .frequency = frequency};
    groups[g].next = groups[next].previous = made;
    return made;
  }

  void drop_if_empty(std::uint32_t g) {
    auto& groups = *groups_;
    if (queues_->blocks(g) > 0 || groups[g].frequency == 0) return;
    groups[groups[g].previous].next = groups[g].next;
    groups[groups[g].next].previous = groups[g].previous;
    groups[g] = {.next = free_, .previous = 0, .frequency = 0};
    free_ = g;
  }

  static constexpr std::uint32_t kNone = UINT32_MAX;

  std::uint32_t end_ = 0;  // before the first and after the last group
  std::uint32_t used_ = 0;
  std::uint32_t free_ = kNone;
  std::optional<LazyArray<Group>> groups_;
};

}  // namespace

BuiltinPolicy builtin::lfu() {
  return {
      {.name = "lfu", .summary = "fewest hits since it was stored, then least recently used", .reference = "textbook"},
      make_plain<Lfu>};
}

}  // namespace kvopt
