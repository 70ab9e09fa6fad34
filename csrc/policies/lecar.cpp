// LeCaR: evict by LRU or by LFU, drawn by two weights that are learned from regret.
//
// Reference: Vietri et al., "Driving Cache Replacement with ML-based LeCaR", HotStorage 2018. When a block comes back
// that was evicted t references ago on the advice of one expert, the weight of the other is multiplied by e^(r d^t),
// learning rate r, discount d = 0.005^(1 / capacity). The history holds as many blocks as the cache, of both experts
// together, as in libCacheSim. Frequencies count since the block was stored and stop at 65,535; LFU takes the least
// recently used among equals. Under the prefix rule LRU is leaf first by itself (lru.cpp), LFU looks at leaves only: a
// parent that loses its last child is the first of its frequency.
// Structure: a list of runs, oldest first; a queue of leaves for each frequency; a table of ghosts.
// Complexity: O(1) a run. 64 bytes a run and 0.5 MiB, allocated in attach().
#include <cmath>

#include "core/frequency_queues.hpp"
#include "core/ghost_table.hpp"
#include "core/random.hpp"
#include "core/run_list.hpp"
#include "policies/builtin.hpp"
#include "policies/seed.hpp"

namespace kvopt {

namespace {

class LeCaR final : public Policy {
 public:
  LeCaR(double learning_rate, std::uint64_t seed) : learning_rate_(learning_rate), random_(seed) {}

  void attach(const PolicyContext& context) override {
    runs_ = &context.runs;
    recency_.emplace(runs_->capacity);
    frequency_.emplace(*runs_);
    ghosts_.emplace(runs_->capacity);
    evicted_.emplace(runs_->capacity);
    log_discount_ = std::log(0.005) / runs_->capacity;
  }

  void on_hit(std::span<const RunId> hit, const RequestInfo& /*info*/) override {
    for (const RunId r : hit) clock_ += runs_->length[r];
  }

  void on_stored(std::span<const RunId> stored, const RequestInfo& /*info*/) override {
    for (const RunId r : stored) {
      const GhostTable::Ghost g = ghosts_->take(runs_->first_key(r));
      if (g != GhostTable::kNoGhost) learn((*evicted_)[g]);
      clock_ += runs_->length[r];
    }
  }

  void on_split(RunId head, RunId tail) override {
    if (runs_->evictable(tail)) recency_->insert_after(tail, head);
  }

  void on_referenced(std::span<const RunId> runs) override {
    for (const RunId r : runs) {
      recency_->remove(r);
      if (frequency_->contains(r)) frequency_->remove(r);
    }
  }

  void on_evictable(std::span<const RunId> runs, const RequestInfo& /*info*/) override {
    for (const RunId r : runs) {
      recency_->append(r);
      if (runs_->children[r] == 0) frequency_->append(r, runs_->hits[r]);
    }
  }

  void on_dropped(std::span<const RunId> runs) override { on_referenced(runs); }
  void on_uncovered(RunId run) override { frequency_->prepend(run, runs_->hits[run]); }

  void on_evicted(RunId /*run*/, std::uint64_t key, std::uint32_t blocks) override {
    (*evicted_)[ghosts_->insert(key, blocks)] = {clock_, by_lru_};
  }

  RunId choose(std::uint32_t /*wanted*/, Time /*now*/) override {
    by_lru_ = random_.uniform() < lru_weight_;
    return by_lru_ ? recency_->front() : frequency_->first_of_least();
  }

  std::string verify() const override {
    const std::string wrong = recency_->verify(*runs_);
    return wrong.empty() ? frequency_->verify() : wrong;
  }

  std::size_t bytes() const override {
    return recency_->bytes() + frequency_->bytes() + ghosts_->bytes() + evicted_->size() * sizeof(Eviction);
  }

 private:
  struct Eviction {
    std::uint64_t time;
    bool by_lru;
  };

  void learn(const Eviction& regretted) {
    const double reward = learning_rate_ * std::exp(log_discount_ * static_cast<double>(clock_ - regretted.time));
    const double lru = lru_weight_ * (regretted.by_lru ? 1 : std::exp(reward));
    const double lfu = (1 - lru_weight_) * (regretted.by_lru ? std::exp(reward) : 1);
    // Neither may become so small that it never acts again.
    lru_weight_ = std::clamp(lru / (lru + lfu), 0.01, 0.99);
  }

  double learning_rate_;
  Random random_;
  const RunTable* runs_ = nullptr;
  double log_discount_ = 0;
  double lru_weight_ = 0.5;
  bool by_lru_ = false;      // the advice that the last victim came by
  std::uint64_t clock_ = 0;  // blocks referenced
  std::optional<RunList> recency_;
  std::optional<FrequencyQueues> frequency_;
  std::optional<GhostTable> ghosts_;
  std::optional<LazyArray<Eviction>> evicted_;  // of each ghost
};

}  // namespace

BuiltinPolicy builtin::lecar() {
  return {{.name = "lecar",
           .summary = "LRU or LFU, drawn by weights learned from regret",
           .reference = "Vietri et al., HotStorage 2018",
           .parameters = {{"rate", 0.45, 0, 10, "learning rate"}, seed_parameter()}},
          [](std::span<const double> p) -> std::unique_ptr<Policy> {
            return std::make_unique<LeCaR>(p[0], seed_of(p[1]));
          }};
}

}  // namespace kvopt
