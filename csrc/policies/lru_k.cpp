// LRU-K: evict the leaf whose K-th last reference is the longest ago; those with fewer than K references before all
// others, the least recently used first.
//
// Reference: O'Neil, O'Neil and Weikum, "The LRU-K Page Replacement Algorithm for Database Disk Buffering", SIGMOD
// 1993. History outlives eviction, for the last `history` x capacity blocks instead of the paper's time; libCacheSim
// keeps none (history=0). A run that several requests hold at once is referenced when the last one lets go, so
// overlapping references are correlated ones, counted once. Under the prefix rule a parent that loses its last child
// goes by its own K-th last reference, or, with fewer, comes next.
// Structure: a queue of runs with fewer than K references, oldest first; a heap of the others; a table of ghosts.
// Complexity: O(log leaves) a run. 36 + 8 K bytes a run and 32 + 8 K a ghost, allocated in attach().
#include "core/evictable_queues.hpp"
#include "core/ghost_table.hpp"
#include "core/ranked_heap.hpp"
#include "policies/builtin.hpp"

namespace kvopt {

namespace {

class LruK final : public Policy {
 public:
  LruK(std::uint32_t k, double history) : k_(k), history_(history) {}

  void attach(const PolicyContext& context) override {
    runs_ = &context.runs;
    const std::size_t capacity = runs_->capacity;
    young_.emplace(*runs_, 1);
    heap_.emplace(*runs_);
    ghosts_.emplace(static_cast<std::uint32_t>(static_cast<double>(capacity) * history_));
    times_.emplace(capacity * k_);
    ghost_times_.emplace(std::size_t{ghosts_->limit()} * k_);
  }

  void on_stored(std::span<const RunId> stored, const RequestInfo& /*info*/) override {
    for (const RunId r : stored) {
      const GhostTable::Ghost g = ghosts_->take(runs_->first_key(r));
      for (std::uint32_t i = 0; i < k_; ++i) {
        time(r, i) = g == GhostTable::kNoGhost ? 0 : (*ghost_times_)[std::size_t{g} * k_ + i];
      }
    }
  }

  void on_split(RunId head, RunId tail) override {
    for (std::uint32_t i = 0; i < k_; ++i) time(head, i) = time(tail, i);
    heap_->copy_rank(tail, head);
  }

  void on_referenced(std::span<const RunId> runs) override {
    for (const RunId r : runs) {
      if (young_->contains(r)) young_->remove(r);
    }
  }

  void on_evictable(std::span<const RunId> runs, const RequestInfo& /*info*/) override {
    for (const RunId r : runs) {
      for (std::uint32_t i = k_ - 1; i > 0; --i) time(r, i) = time(r, i - 1);
      time(r, 0) = ++clock_;
      if (time(r, k_ - 1) == 0) {
        young_->append(0, r);
      } else {
        heap_->set(r, time(r, k_ - 1));
      }
    }
  }

  void on_dropped(std::span<const RunId> runs) override {
    on_referenced(runs);
    heap_->remove(runs);
  }

  void on_forgotten(RunId run) override { heap_->remove({&run, 1}); }

  void on_uncovered(RunId run) override {
    if (time(run, k_ - 1) > 0) {
      heap_->place(run);
    } else if (!young_->contains(run)) {
      young_->prepend(0, run);
    }
  }

  void on_evicted(RunId run, std::uint64_t key, std::uint32_t blocks) override {
    const GhostTable::Ghost g = ghosts_->insert(key, blocks);
    if (g == GhostTable::kNoGhost) return;
    for (std::uint32_t i = 0; i < k_; ++i) (*ghost_times_)[std::size_t{g} * k_ + i] = time(run, i);
  }

  RunId choose(std::uint32_t /*wanted*/, Time /*now*/) override {
    const RunId r = young_->front_leaf(0);
    return r != kNoRun ? r : heap_->front();
  }

  std::string verify() const override {
    for (RunId r = 0; r < runs_->used; ++r) {
      if (runs_->is_victim(r) && young_->contains(r) == heap_->contains(r)) {
        return "run " + std::to_string(r) + " is in none or both of the queue and the heap";
      }
    }
    return heap_->verify();
  }

  std::size_t bytes() const override {
    return young_->bytes() + heap_->bytes() + ghosts_->bytes() +
           (times_->size() + ghost_times_->size()) * sizeof(std::uint64_t);
  }

 private:
  // The last reference is number 0; 0: there was none.
  std::uint64_t& time(RunId r, std::uint32_t i) { return (*times_)[std::size_t{r} * k_ + i]; }

  std::uint32_t k_;
  double history_;
  const RunTable* runs_ = nullptr;
  std::uint64_t clock_ = 0;
  std::optional<EvictableQueues> young_;
  std::optional<RankedHeap<std::uint64_t>> heap_;
  std::optional<GhostTable> ghosts_;
  std::optional<LazyArray<std::uint64_t>> times_;
  std::optional<LazyArray<std::uint64_t>> ghost_times_;
};

}  // namespace

BuiltinPolicy builtin::lru_k() {
  return {{.name = "lru-k",
           .summary = "K-th last reference longest ago; fewer than K references first",
           .reference = "O'Neil et al., SIGMOD 1993",
           .parameters = {{"k", 2, 1, 8, "how many references back"},
                          {"history", 1, 0, 10, "evicted blocks that are remembered, in capacities"}}},
          [](std::span<const double> p) -> std::unique_ptr<Policy> {
            return std::make_unique<LruK>(static_cast<std::uint32_t>(p[0]), p[1]);
          }};
}

}  // namespace kvopt
