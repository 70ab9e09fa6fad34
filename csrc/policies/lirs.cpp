// LIRS: blocks with a low inter-reference recency (LIR) have nearly all of the cache; the rest (HIR) pass through a
// small queue Q, from which victims come. A stack S by recency tells which HIR blocks, cached or not, came back sooner
// than the oldest LIR block: they become LIR.
//
// Reference: Jiang, Zhang, LIRS: an efficient low inter-reference recency set replacement policy (SIGMETRICS 2002),
// with 1 % for HIR; the ghosts in S are bounded as in libCacheSim (S has at most twice the blocks of the cache). Sizes
// are in blocks. libCacheSim also evicts a block when an HIR block outside S is hit; the paper does not, nor does this.
// Under the prefix rule a ghost stands for a whole run; an HIR run with cached children is passed over, and is the next
// of Q when the last of them goes; while no HIR run may go, the oldest LIR run becomes HIR.
// Structure: Q and the LIR runs as queues of runs (core/run_queues.hpp), S as a list of runs and ghosts.
// Complexity: O(1) a run, amortised. 25 bytes a run, 48 a ghost, allocated in attach().
#include <algorithm>

#include "core/ghost_queues.hpp"
#include "core/run_list.hpp"
#include "core/run_queues.hpp"
#include "policies/builtin.hpp"

namespace kvopt {

namespace {

constexpr std::uint32_t kLir = 0;  // listed nowhere
constexpr std::uint32_t kHir = 1;  // listed in Q

class Lirs final : public RunQueuePolicy {
 public:
  explicit Lirs(std::span<const double> parameters) : hir_(parameters[0]), stack_(parameters[1]) {}

  void attach(const PolicyContext& context) override {
    order_by(context.runs, 2);
    first_ghost_ = context.runs.capacity;
    most_lir_ = first_ghost_ - std::min(first_ghost_, std::max(1U, share_of_pool(hir_)));
    most_in_s_ = share_of_pool(stack_);
    in_s_.emplace(first_ghost_);
    ghosts_.emplace(most_in_s_, 1);
    s_.emplace(first_ghost_ + ghosts_->ids());
  }

  void on_miss(std::uint64_t key, const RequestInfo& /*info*/) override {
    const std::optional<Ghost> ghost = ghosts_->expect(key);
    if (ghost && !ghost->expected) unlink(*ghost);
  }

  void on_hit(std::span<const RunId> hit, const RequestInfo& /*info*/) override {
    for (const RunId r : hit) {
      const bool becomes_lir = (*in_s_)[r] != 0;
      queues_->unlist(r);
      if (becomes_lir) {
        queues_->move(r, kLir);
      } else {
        queues_->append(r);
      }
      put_on_top(r);
      bound_lir();
    }
    bound_s();
  }

  void on_stored(std::span<const RunId> stored, const RequestInfo& /*info*/) override {
    for (const RunId r : stored) {
      const std::optional<Ghost> ghost = ghosts_->take(runs_->first_key(r));
      if (ghost && !ghost->expected) unlink(*ghost);
      const bool filling = std::uint64_t{queues_->blocks(kLir)} + runs_->length[r] <= most_lir_;
      queues_->enter(r, ghost || filling ? kLir : kHir);
      if (queues_->queue(r) == kHir) queues_->append(r);
      put_on_top(r);
      bound_lir();
    }
    bound_s();
  }

  void on_split(RunId head, RunId tail) override {
    in_s_blocks_ -= (*in_s_)[tail] != 0 ? queues_->blocks_of(tail) : 0;
    queues_->split(head, tail);
    if ((*in_s_)[tail] == 0) return;
    in_s_blocks_ += queues_->blocks_of(tail) + queues_->blocks_of(head);
    (*in_s_)[head] = 1;
    s_->insert_after(tail, head);
  }

  void on_evictable(std::span<const RunId> runs, const RequestInfo& /*info*/) override {
    for (const RunId r : runs) {
      recount(r);
      if (runs_->children[r] == 0) on_uncovered(r);
    }
  }

  void on_uncovered(RunId run) override {
    if (queues_->queue(run) == kHir && !queues_->listed(run)) queues_->prepend(run);
  }

  void on_dropped(std::span<const RunId> runs) override {
    for (const RunId r : runs) {
      if (r == chosen_ && (*in_s_)[r] != 0) leave_ghost(r, runs_->first_key(r), runs_->length[r]);
      leave_s(r);
      queues_->leave(r);
    }
    chosen_ = kNoRun;
    prune();
  }

  void on_forgotten(RunId run) override {
    leave_s(run);
    queues_->leave(run);
    prune();
  }

  void on_evicted(RunId run, std::uint64_t key, std::uint32_t blocks) override {
    const bool trimmed = queues_->blocks_of(run) > 0;  // else on_dropped() left a ghost
    if (trimmed && (*in_s_)[run] != 0) leave_ghost(run, key, blocks);
  }

  void on_trimmed(RunId run) override {
    recount(run);
    chosen_ = kNoRun;
  }

  RunId choose(std::uint32_t /*wanted*/, Time /*now*/) override {
    chosen_ = queues_->front_victim(kHir);
    while (chosen_ == kNoRun && !s_->empty()) {
      demote_oldest_lir();
      chosen_ = queues_->front_victim(kHir);
    }
    return chosen_;
  }

  std::string verify() const override {
    std::uint64_t blocks = ghosts_->blocks(0);
    for (RunId r = 0; r < runs_->capacity; ++r) blocks += (*in_s_)[r] != 0 ? queues_->blocks_of(r) : 0;
    if (blocks != in_s_blocks_) return "blocks of the stack are miscounted";
    return queues_->verify(
        [this](RunId r) { return queues_->queue(r) == kHir ? queues_->listed(r) : (*in_s_)[r] != 0; });
  }

  std::size_t bytes() const override { return queues_->bytes() + in_s_->size() + s_->bytes() + ghosts_->bytes(); }

 private:
  void put_on_top(RunId r) {
    leave_s(r);
    s_->append(r);
    (*in_s_)[r] = 1;
    in_s_blocks_ += queues_->blocks_of(r);
    prune();
  }

  void leave_s(RunId r) {
    if ((*in_s_)[r] == 0) return;
    s_->remove(r);
    (*in_s_)[r] = 0;
    in_s_blocks_ -= queues_->blocks_of(r);
  }

  // A ghost of blocks of run r, where r is in S.
  void leave_ghost(RunId r, std::uint64_t key, std::uint32_t blocks) {
    if (const GhostId same = ghosts_->find(key); same != kNoGhost) forget(same);
    s_->insert_after(r, first_ghost_ + ghosts_->push(0, key, blocks));
    in_s_blocks_ += blocks;
  }

  void unlink(const Ghost& ghost) {
    s_->remove(first_ghost_ + ghost.id);
    in_s_blocks_ -= ghost.blocks;
  }

  void forget(GhostId g) {
    const Ghost ghost = ghosts_->ghost(g);
    if (!ghost.expected) unlink(ghost);
    ghosts_->erase(g);
  }

  void recount(RunId r) {
    const std::uint32_t before = queues_->blocks_of(r);
    queues_->recount(r);
    if ((*in_s_)[r] != 0) in_s_blocks_ += queues_->blocks_of(r) - std::uint64_t{before};
  }

  // At the bottom of S is an LIR run.
  void prune() {
    while (!s_->empty()) {
      const std::uint32_t bottom = s_->front();
      if (bottom >= first_ghost_) {
        forget(bottom - first_ghost_);
      } else if (queues_->queue(bottom) == kHir) {
        leave_s(bottom);
      } else {
        return;
      }
    }
  }

  void demote_oldest_lir() {
    const RunId r = s_->front();
    leave_s(r);
    queues_->move(r, kHir);
    queues_->append(r);
    prune();
  }

  void bound_lir() {
    while (queues_->blocks(kLir) > most_lir_ && !s_->empty()) demote_oldest_lir();
  }

  void bound_s() {
    while (in_s_blocks_ > most_in_s_ && ghosts_->oldest(0) != kNoGhost) forget(ghosts_->oldest(0));
  }

  double hir_;
  double stack_;
  std::uint32_t first_ghost_ = 0;  // ghost g is g + first_ghost_ in S
  std::uint32_t most_lir_ = 0;
  std::uint32_t most_in_s_ = 0;
  std::uint64_t in_s_blocks_ = 0;
  RunId chosen_ = kNoRun;
  std::optional<RunList> s_;
  std::optional<LazyArray<std::uint8_t>> in_s_;
  std::optional<GhostQueues> ghosts_;
};

}  // namespace

BuiltinPolicy builtin::lirs() {
  return {{.name = "lirs",
           .summary = "keeps what is reused at short recency; the rest passes through a small queue",
           .reference = "Jiang, Zhang, SIGMETRICS 2002",
           .parameters = {{"hir", 0.01, 0, 1, "share of the cache for what is not reused at short recency"},
                          {"stack", 2, 1, 8, "most blocks in the stack, cached or not, per block of the cache"}}},
          make_with<Lirs>};
}

}  // namespace kvopt
