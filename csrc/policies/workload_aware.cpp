// Workload-aware: evict the leaf with the least chance to be reused while it would still be cached, among equals the
// deepest. Every class of requests has its own exponential distribution of reuse times, of rate w:
//
//     chance(idle) = exp(-w * idle) * (1 - exp(-w * life))
//
// A class is a request's type (why it stopped, sub-agent or not) and its turn number; all that a request held is of its
// class until the next one. Rates are fitted to the last window: reuses over idle time, where the idle time of what was
// evicted unused counts too (`evicted`), else rare returns would look like quick ones. `life` is how long victims had
// been idle. Both are renewed once a second.
//
// Reference: Wang et al., "KVCache Cache in the Wild", USENIX ATC 2025. There types are the provider's own (text,
// search, image, file; chat or API). Without a known turn the tree gives it: a block's turn is the number of requests
// that stored blocks in front of it. A class that has seen little leans on the mean over all. Structure: a heap of
// leaves a class, by (last use, depth), and their fronts are compared: leaf first in place of the paper's queues.
// Complexity: O(classes in use + log leaves) an eviction of a run. 18 bytes a run and 50 a class, allocated in
// attach().
#include <algorithm>
#include <array>
#include <cmath>

#include "core/leaf_classes.hpp"
#include "policies/builtin.hpp"

namespace kvopt {

namespace {

constexpr std::uint32_t kTypes = 10;  // five reasons to stop, sub-agent or not

struct OlderThenDeeper {
  const RunTable* runs;

  bool operator()(RunId a, RunId b) const {
    if (runs->last_use[a] != runs->last_use[b]) return runs->last_use[a] < runs->last_use[b];
    if (runs->end(a) != runs->end(b)) return runs->end(a) > runs->end(b);
    return a < b;
  }
};

// What was seen in the current half of the window and in the half before it.
struct ReuseTimes {
  std::array<double, 2> reused{};   // blocks
  std::array<double, 2> seconds{};  // that blocks were idle

  void age() {
    reused = {0, reused[0]};
    seconds = {0, seconds[0]};
  }
  double count() const { return reused[0] + reused[1]; }
  double sum() const { return seconds[0] + seconds[1]; }
};

class WorkloadAware final : public Policy {
 public:
  explicit WorkloadAware(std::span<const double> parameters)
      : turns_(static_cast<std::uint32_t>(parameters[0])),
        window_(parameters[1]),
        life_(parameters[2]),
        evicted_(parameters[3]) {}

  void attach(const PolicyContext& context) override {
    runs_ = &context.runs;
    turn_.emplace(runs_->capacity);
    class_.emplace(runs_->capacity);
    const std::uint32_t classes = kTypes * turns_;
    times_.resize(classes);
    rate_.assign(classes, 1);
    log_reach_.assign(classes, 0);
    leaves_.emplace(*runs_, classes, OlderThenDeeper{runs_});
  }

  void on_hit(std::span<const RunId> hit, const RequestInfo& info) override {
    renew(info.now);
    for (const RunId r : hit) {
      if (runs_->references[r] > 0) continue;
      times_[(*class_)[r]].reused[0] += runs_->length[r];
      times_[(*class_)[r]].seconds[0] += runs_->length[r] * (info.now - runs_->last_use[r]);
    }
  }

  void on_stored(std::span<const RunId> stored, const RequestInfo& info) override {
    const RunId parent = runs_->parent[stored.back()];
    const std::uint32_t from_tree = parent == kNoRun ? 0 : std::min((*turn_)[parent] + 1U, turns_ - 1);
    const std::uint32_t turn = info.turn < 0 ? from_tree : std::min(static_cast<std::uint32_t>(info.turn), turns_ - 1);
    for (const RunId r : stored) (*turn_)[r] = static_cast<std::uint16_t>(turn);
  }

  void on_split(RunId head, RunId tail) override {
    (*turn_)[head] = (*turn_)[tail];
    (*class_)[head] = (*class_)[tail];
  }

  void on_referenced(std::span<const RunId> runs) override { leaves_->remove(runs); }

  void on_evictable(std::span<const RunId> runs, const RequestInfo& info) override {
    const std::uint32_t type = static_cast<std::uint32_t>(info.stop) * 2 + (info.subagent ? 1 : 0);
    const std::uint32_t turn =
        info.turn < 0 ? (*turn_)[runs[0]] : std::min(static_cast<std::uint32_t>(info.turn), turns_ - 1);
    for (const RunId r : runs) {
      // A lease that ends is no use.
      if (runs_->last_use[r] == info.now) (*class_)[r] = static_cast<std::uint16_t>(type * turns_ + turn);
      if (runs_->children[r] == 0) on_uncovered(r);
    }
  }

  void on_dropped(std::span<const RunId> runs) override { leaves_->remove(runs); }
  void on_uncovered(RunId run) override { leaves_->add(run, (*class_)[run]); }

  void on_trimmed(RunId run) override {
    leaves_->remove(run);
    leaves_->add(run, (*class_)[run]);
  }

  RunId choose(std::uint32_t /*wanted*/, Time now) override {
    now_ = now;
    renew(now);
    RunId victim = kNoRun;
    double least = 0;
    leaves_->for_each_front([&](std::uint32_t c, RunId r) {
      const double log_chance = log_reach_[c] - rate_[c] * (now - runs_->last_use[r]);
      if (victim != kNoRun && log_chance >= least) {
        if (log_chance > least || runs_->end(r) < runs_->end(victim)) return;
        if (runs_->end(r) == runs_->end(victim) && r > victim) return;
      }
      victim = r;
      least = log_chance;
    });
    life_ += (now - runs_->last_use[victim] - life_) / kVictims;
    return victim;
  }

  void on_evicted(RunId run, std::uint64_t /*key*/, std::uint32_t blocks) override {
    times_[(*class_)[run]].seconds[0] += evicted_ * blocks * (now_ - runs_->last_use[run]);
  }

  std::string verify() const override { return leaves_->verify(); }

  std::size_t bytes() const override {
    return leaves_->bytes() + (turn_->size() + class_->size()) * sizeof(std::uint16_t) +
           times_.size() * (sizeof(ReuseTimes) + 2 * sizeof(double));
  }

 private:
  static constexpr double kVictims = 64;  // that `life` is a moving average of
  static constexpr double kRenewal = 1;   // seconds from one renewal to the next

  void renew(Time now) {
    if (now < next_renewal_) return;
    next_renewal_ = now + kRenewal;
    if (now >= half_end_) {
      for (ReuseTimes& t : times_) t.age();
      half_end_ = now + window_ / 2;
    }
    double reused = 0;
    double seconds = 0;
    for (const ReuseTimes& t : times_) {
      reused += t.count();
      seconds += t.sum();
    }
    const double mean = reused > 0 ? seconds / reused : life_;
    const double life = std::max(life_, kShortest);
    for (std::size_t c = 0; c < times_.size(); ++c) {
      rate_[c] = (times_[c].count() + kPrior) / std::max(times_[c].sum() + kPrior * mean, kShortest);
      log_reach_[c] = std::log(-std::expm1(-rate_[c] * life));
    }
  }

  static constexpr double kPrior = 16;        // blocks that the mean over all classes weighs in each
  static constexpr double kShortest = 0.001;  // seconds

  const RunTable* runs_ = nullptr;
  std::uint32_t turns_;
  double window_;
  double life_;
  double evicted_;
  Time now_ = 0;
  Time next_renewal_ = -kNever;
  Time half_end_ = -kNever;
  std::vector<ReuseTimes> times_;                  // of each class
  std::vector<double> rate_;                       // of each class
  std::vector<double> log_reach_;                  // of each class: ln(1 - exp(-rate * life))
  std::optional<LazyArray<std::uint16_t>> turn_;   // of the request that stored it
  std::optional<LazyArray<std::uint16_t>> class_;  // of the request that used it last
  std::optional<LeafClasses<OlderThenDeeper>> leaves_;
};

std::unique_ptr<Policy> make(std::span<const double> parameters) { return std::make_unique<WorkloadAware>(parameters); }

}  // namespace

BuiltinPolicy builtin::workload_aware() {
  return {
      {.name = "workload-aware",
       .summary = "least chance of reuse while cached, by the reuse times of its class of requests",
       .reference = "KVCache Cache in the Wild, USENIX ATC 2025",
       .parameters = {{"turns", 8, 1, 1000, "turn numbers told apart; later turns are one class"},
                      {"window", 3600, 1, 1e9, "seconds of reuse times that the rates are fitted to"},
                      {"life", 60, 0.001, 1e9, "seconds that an unused block is cached, until that is learned"},
                      {"evicted", 1, 0, 1, "weight of the idle time of evicted blocks in the fit; 0: reuses only"}}},
      make};
}

}  // namespace kvopt
