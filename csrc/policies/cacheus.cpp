// Cacheus: evict by a scan-resistant LRU or by a churn-resistant LFU, drawn by two weights that are learned from regret
// at a rate that is learned too.
//
// Reference: Rodriguez et al., "Learning Cache Replacement with CACHEUS", FAST 2021. SR-LRU splits the cache into S,
// for what was stored lately or fell out of R, and R, for what was hit or came back from its history; their sizes
// follow which of both is regretted. CR-LFU takes the most recently used of the least frequency, and frequencies
// survive in the history. When a block comes back that one expert wanted out and the other did not, its weight is
// multiplied by e^-rate. The rate climbs the hill of the hit ratio, once a capacity of references. libCacheSim also
// shrinks the cache to S's size while it fills, and its rate never changes (integer division); neither is in the paper.
// Frequencies stop at 65,535. Under the prefix rule sizes are in blocks, what requests hold counts in none, and a run
// that loses its last child is the next of its queue. Structure: two queues of runs, oldest first; a queue of leaves
// for each frequency; three tables of ghosts. Complexity: O(1) a run. 96 bytes a run and 0.5 MiB, allocated in
// attach().
#include <algorithm>
#include <array>
#include <cmath>

#include "core/frequency_queues.hpp"
#include "core/ghost_table.hpp"
#include "core/random.hpp"
#include "policies/builtin.hpp"
#include "policies/seed.hpp"

namespace kvopt {

namespace {

// The rate at which weights are learned: follows the gradient of the hit ratio, and starts again where there is none.
class LearningRate {
 public:
  explicit LearningRate(std::uint64_t seed) : random_(seed), rate_(draw()) {}

  double value() const { return rate_; }
  Random& random() { return random_; }

  void update(double hit_ratio) {
    const double hit_change = hit_ratio - last_hit_ratio_;
    const double rate_change = rate_ - last_rate_;
    last_hit_ratio_ = hit_ratio;
    last_rate_ = rate_;
    if (rate_change != 0) {
      const double step = std::abs(rate_ * rate_change);
      rate_ = std::clamp(rate_ + (hit_change / rate_change > 0 ? step : -step), kLowest, 1.0);
      fruitless_ = 0;
    } else if (hit_ratio == 0 || hit_change <= 0) {
      if (++fruitless_ < 10) return;
      fruitless_ = 0;
      rate_ = draw();
    }
  }

 private:
  static constexpr double kLowest = 1e-3;

  double draw() { return kLowest + random_.uniform() * (1 - kLowest); }

  Random random_;
  double rate_;
  double last_rate_ = 0;
  double last_hit_ratio_ = 0;
  int fruitless_ = 0;
};

class Cacheus final : public Policy {
 public:
  explicit Cacheus(std::uint64_t seed) : rate_(seed) {}

  void attach(const PolicyContext& context) override {
    runs_ = &context.runs;
    const std::uint32_t capacity = runs_->capacity;
    scan_room_ = std::max(capacity / 2.0, 1.0);
    recency_.emplace(*runs_, kQueues);
    frequency_.emplace(*runs_);
    state_.emplace(capacity);
    history_.emplace(capacity);
    remembered_.emplace(capacity);
    for (auto& regrets : regrets_) regrets.emplace(std::max(capacity / 2, 1u));
  }

  void on_hit(std::span<const RunId> hit, const RequestInfo& /*info*/) override {
    for (const RunId r : hit) {
      hits_ += runs_->length[r];
      count(runs_->length[r]);
    }
  }

  void on_stored(std::span<const RunId> stored, const RequestInfo& /*info*/) override {
    for (const RunId r : stored) {
      const std::uint64_t key = runs_->first_key(r);
      for (std::size_t expert = 0; expert < 2; ++expert) {
        if (regrets_[expert]->take(key) != GhostTable::kNoGhost) weight_[expert] *= std::exp(-rate_.value());
      }
      const double sum = weight_[0] + weight_[1];
      weight_ = {weight_[0] / sum, weight_[1] / sum};
      State& state = (*state_)[r];
      const GhostTable::Ghost g = history_->take(key);
      if (g == GhostTable::kNoGhost) {
        state = {.frequency = 1, .queue = kScan, .fresh = true};
      } else {
        const State& before = (*remembered_)[g];
        state = {.frequency = before.frequency + 1, .queue = kReused};
        if (before.fresh) {
          resize(ratio(demoted_, fresh_) * runs_->length[r]);
          --fresh_;
        }
      }
      count(runs_->length[r]);
    }
  }

  void on_split(RunId head, RunId tail) override {
    (*state_)[head] = (*state_)[tail];
    demoted_ += (*state_)[head].demoted ? 1 : 0;
  }

  void on_referenced(std::span<const RunId> runs) override {
    for (const RunId r : runs) {
      blocks_[(*state_)[r].queue] -= runs_->length[r];
      if (recency_->contains(r)) recency_->remove(r);
      if (frequency_->contains(r)) frequency_->remove(r);
    }
  }

  void on_evictable(std::span<const RunId> runs, const RequestInfo& /*info*/) override {
    for (const RunId r : runs) {
      State& state = (*state_)[r];
      if (runs_->hits[r] > 0) {
        ++state.frequency;
        state.queue = kReused;
        if (state.demoted) {
          resize(-ratio(fresh_, demoted_) * runs_->length[r]);
          end_demotion(state);
        }
      }
      enter(r, state.queue);
      if (runs_->children[r] == 0) frequency_->append(r, state.frequency);
    }
    while (static_cast<double>(blocks_[kReused]) > runs_->capacity - scan_room_ && !recency_->empty(kReused)) {
      demote(recency_->front(kReused));
    }
  }

  void on_dropped(std::span<const RunId> runs) override {
    on_referenced(runs);
    for (const RunId r : runs) end_demotion((*state_)[r]);
  }

  void on_forgotten(RunId run) override { end_demotion((*state_)[run]); }

  void on_uncovered(RunId run) override {
    if (!recency_->contains(run)) recency_->prepend((*state_)[run].queue, run);
    frequency_->append(run, (*state_)[run].frequency);
  }

  void on_evicted(RunId run, std::uint64_t key, std::uint32_t blocks) override {
    const State& state = (*state_)[run];
    if (blocks < runs_->length[run]) blocks_[state.queue] -= blocks;
    while (history_->needs_room(blocks)) {
      fresh_ -= (*remembered_)[history_->take(history_->oldest_key())].fresh ? 1 : 0;
    }
    (*remembered_)[history_->insert(key, blocks)] = state;
    fresh_ += state.fresh ? 1 : 0;
    if (advice_ != kBoth) regrets_[advice_]->insert(key, blocks);
  }

  RunId choose(std::uint32_t /*wanted*/, Time /*now*/) override {
    RunId by_recency = recency_->front_leaf(kScan);
    if (by_recency == kNoRun) by_recency = recency_->front_leaf(kReused);
    const RunId by_frequency = frequency_->last_of_least();
    const bool recency = rate_.random().uniform() < weight_[kRecency];
    advice_ = by_recency == by_frequency ? kBoth : recency ? kRecency : kFrequency;
    return recency ? by_recency : by_frequency;
  }

  std::string verify() const override {
    std::array<std::uint64_t, kQueues> blocks{};
    for (RunId r = 0; r < runs_->used; ++r) {
      if (runs_->evictable(r)) blocks[(*state_)[r].queue] += runs_->length[r];
    }
    if (blocks != blocks_) return "the sizes of the queues are wrong";
    std::uint32_t demoted = 0;
    for (RunId r = 0; r < runs_->capacity; ++r) demoted += runs_->hittable(r) && (*state_)[r].demoted ? 1 : 0;
    if (demoted != demoted_) return "the demoted runs are miscounted";
    const std::string wrong = recency_->verify(kQueues);
    return wrong.empty() ? frequency_->verify() : wrong;
  }

  std::size_t bytes() const override {
    return recency_->bytes() + frequency_->bytes() + history_->bytes() + regrets_[0]->bytes() + regrets_[1]->bytes() +
           (state_->size() + remembered_->size()) * sizeof(State);
  }

 private:
  enum Queue : std::uint8_t { kScan, kReused, kQueues };
  enum Advice : std::uint8_t { kRecency, kFrequency, kBoth };

  struct State {
    std::uint32_t frequency;
    Queue queue;
    bool fresh = false;    // never came back from the history
    bool demoted = false;  // fell out of R, into S
  };

  // How far a size moves for each block that shows that it is wrong.
  static double ratio(std::uint32_t a, std::uint32_t b) {
    return std::max(1.0, std::round(a / std::max(1.0, b * 1.0)));
  }

  void resize(double blocks) {
    scan_room_ = std::clamp(scan_room_ + blocks, 1.0, std::max(1.0, runs_->capacity - 1.0));
  }

  void enter(RunId r, Queue queue) {
    (*state_)[r].queue = queue;
    blocks_[queue] += runs_->length[r];
    recency_->append(queue, r);
  }

  void demote(RunId r) {
    recency_->remove(r);
    blocks_[kReused] -= runs_->length[r];
    enter(r, kScan);
    demoted_ += (*state_)[r].demoted ? 0 : 1;
    (*state_)[r].demoted = true;
  }

  void end_demotion(State& state) {
    demoted_ -= state.demoted ? 1 : 0;
    state.demoted = false;
  }

  void count(std::uint32_t blocks) {
    references_ += blocks;
    if (references_ < runs_->capacity) return;
    rate_.update(static_cast<double>(hits_) / static_cast<double>(references_));
    references_ = hits_ = 0;
  }

  LearningRate rate_;
  const RunTable* runs_ = nullptr;
  std::array<double, 2> weight_ = {0.5, 0.5};  // of the experts
  Advice advice_ = kBoth;                      // that the last victim came by
  double scan_room_ = 0;                       // blocks of S; the rest is R's
  std::uint32_t fresh_ = 0;                    // in the history
  std::uint32_t demoted_ = 0;                  // in S
  std::uint64_t references_ = 0;               // blocks, since the rate was updated
  std::uint64_t hits_ = 0;
  std::array<std::uint64_t, kQueues> blocks_{};
  std::optional<EvictableQueues> recency_;
  std::optional<FrequencyQueues> frequency_;
  std::optional<LazyArray<State>> state_;
  std::optional<GhostTable> history_;
  std::optional<LazyArray<State>> remembered_;  // of each ghost in the history
  std::array<std::optional<GhostTable>, 2> regrets_;
};

}  // namespace

BuiltinPolicy builtin::cacheus() {
  return {
      {.name = "cacheus",
       .summary = "scan-resistant LRU or churn-resistant LFU, drawn by weights learned from regret",
       .reference = "Rodriguez et al., FAST 2021",
       .parameters = {seed_parameter()}},
      [](std::span<const double> p) -> std::unique_ptr<Policy> { return std::make_unique<Cacheus>(seed_of(p[0])); }};
}

}  // namespace kvopt
