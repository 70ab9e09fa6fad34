// ARC: T1 holds what was used once, T2 what was used more often, both in LRU order; B1 and B2 remember what left them.
// A return from B1 raises the target size p of T1, one from B2 lowers it.
//
// Reference: Megiddo, Modha, ARC: a self-tuning, low overhead replacement cache (FAST 2003); p is a fraction, as in
// libCacheSim. Sizes are in blocks. Under the prefix rule a ghost stands for a whole run, and a return moves p once a
// block of it; a run is placed when its last holder lets go of it, a request's deepest first; a run with cached
// children is passed over, and is the next of its queue when the last of them goes; where T1 or T2 has no victim, the
// other gives. Structure: two queues of runs (core/run_queues.hpp) and two of ghosts (core/ghost_queues.hpp).
// Complexity: O(1) a run. 17 bytes a run, 80 more for ghosts, allocated in attach().
#include <algorithm>

#include "core/ghost_queues.hpp"
#include "core/run_queues.hpp"
#include "policies/builtin.hpp"

namespace kvopt {

namespace {

constexpr std::uint32_t k1 = 0;  // T1 and B1: used once
constexpr std::uint32_t k2 = 1;  // T2 and B2: used more often

class Arc final : public RunQueuePolicy {
 public:
  void attach(const PolicyContext& context) override {
    order_by(context.runs, 2);
    capacity_ = context.runs.capacity;
    no_ghost_.emplace(context.runs.capacity);
    ghosts_.emplace(share_of_pool(2), 2);
  }

  void on_miss(std::uint64_t key, const RequestInfo& /*info*/) override {
    returned_ = ghosts_->expect(key);
    if (returned_ && !returned_->expected) adapt(*returned_);
  }

  void on_hit(std::span<const RunId> hit, const RequestInfo& /*info*/) override {
    returned_.reset();
    for (const RunId r : hit) queues_->move(r, k2);
  }

  void on_stored(std::span<const RunId> stored, const RequestInfo& /*info*/) override {
    returned_.reset();
    for (const RunId r : stored) {
      const std::optional<Ghost> ghost = ghosts_->take(runs_->first_key(r));
      if (ghost && !ghost->expected) adapt(*ghost);
      queues_->enter(r, ghost ? k2 : k1);
    }
  }

  void on_referenced(std::span<const RunId> runs) override {
    for (const RunId r : runs) queues_->unlist(r);
  }

  void on_evictable(std::span<const RunId> runs, const RequestInfo& /*info*/) override {
    for (const RunId r : runs) place_last(r);
  }

  void on_evicted(RunId run, std::uint64_t key, std::uint32_t blocks) override {
    if ((*no_ghost_)[run] != 0) return;
    ghosts_->push(queues_->queue(run), key, blocks);
    bound_ghosts(0);
  }

  RunId choose(std::uint32_t wanted, Time /*now*/) override {
    const std::uint64_t t1 = queues_->blocks(k1);
    const bool full_of_new = t1 + ghosts_->blocks(k1) + wanted > capacity_ && ghosts_->blocks(k1) == 0;
    const bool no_ghost = !returned_ && full_of_new;  // case IV A of the paper with an empty B1
    if (!returned_ && !no_ghost) bound_ghosts(wanted);
    const auto t = static_cast<double>(t1);
    const bool over = t1 > 0 && (t > target_ || (t == target_ && returned_ && returned_->queue == k2));
    const std::uint32_t first = no_ghost || over || queues_->blocks(k2) == 0 ? k1 : k2;
    RunId victim = queues_->front_victim(first);
    if (victim == kNoRun) victim = queues_->front_victim(first == k1 ? k2 : k1);
    if (victim != kNoRun) (*no_ghost_)[victim] = no_ghost ? 1 : 0;
    return victim;
  }

  std::size_t bytes() const override { return queues_->bytes() + no_ghost_->size() + ghosts_->bytes(); }

 private:
  // |T1| + |B1| stays within the capacity, all four within twice the capacity, with room for `coming` blocks.
  void bound_ghosts(std::uint64_t coming) {
    const std::uint64_t t1 = queues_->blocks(k1);
    const auto left = [](std::uint64_t of, std::uint64_t taken) { return of > taken ? of - taken : 0; };
    ghosts_->trim(k1, left(capacity_, t1 + coming));
    ghosts_->trim(k2, left(2 * capacity_, t1 + queues_->blocks(k2) + ghosts_->blocks(k1) + coming));
  }

  // A ghost returned: to the size of T1 at which it would still be cached. It counts in its queue no longer.
  void adapt(const Ghost& ghost) {
    const double b1 = ghosts_->blocks(k1) + (ghost.queue == k1 ? ghost.blocks : 0);
    const double b2 = ghosts_->blocks(k2) + (ghost.queue == k2 ? ghost.blocks : 0);
    if (ghost.queue == k1) {
      target_ = std::min(target_ + ghost.blocks * std::max(1.0, b2 / b1), static_cast<double>(capacity_));
    } else {
      target_ = std::max(target_ - ghost.blocks * std::max(1.0, b1 / b2), 0.0);
    }
  }

  std::uint64_t capacity_ = 0;
  double target_ = 0;                                // p
  std::optional<Ghost> returned_;                    // what is known of the content that room is made for
  std::optional<LazyArray<std::uint8_t>> no_ghost_;  // of a chosen run
  std::optional<GhostQueues> ghosts_;
};

}  // namespace

BuiltinPolicy builtin::arc() {
  return {{.name = "arc",
           .summary = "two LRU queues, used once and more often; returns of what was evicted set the balance",
           .reference = "Megiddo, Modha, FAST 2003"},
          make_plain<Arc>};
}

}  // namespace kvopt
