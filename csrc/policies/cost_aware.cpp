// Cost-aware: evict the leaf whose blocks are worth least: the chance that they are used again × the prefill time that
// their loss would cost ÷ how long they must be held, by the index of core/reuse_model.hpp. Never worse than LRU for
// long: a shadow of LRU runs along, and when LRU saves more over a window of requests, its order is used for a while.
//
// Reference: this project. The index is Gittins' for a return hazard; relatives are LHD (Beckmann et al., NSDI 2018; s
// → ∞ and unit cost) and Continuum (one deadline instead of an order). Structure: what is learned of releases in
// core/reuse_learner.hpp, leaves side by side in core/victim_scan.hpp. Complexity: O(1) a run that is touched, a
// bounded number of leaves looked at a victim; about one class refreshed a request. About 240 bytes a run.
#include <array>
#include <cmath>
#include <string>
#include <utility>

#include "core/learned_state.hpp"
#include "core/reuse_learner.hpp"
#include "core/shadow_comparison.hpp"
#include "core/shadow_guard.hpp"
#include "core/victim_scan.hpp"
#include "policies/builtin.hpp"

namespace kvopt {

namespace {

enum Parameter : std::size_t {
  kHorizon,
  kCost,
  kGhosts,
  kHints,
  kGuard,
  kShared,
  kRest,
  kStop,
  kOutput,
  kTurn,
  kLength,
  kPace,
  kShrinkage,
  kForgetting
};
// Settings that are one of a few, by number.
constexpr auto kChoices = std::to_array<std::pair<Parameter, const char*>>({{kHorizon, "horizon"},
                                                                            {kCost, "cost"},
                                                                            {kHints, "hints"},
                                                                            {kGuard, "guard"},
                                                                            {kShared, "shared"},
                                                                            {kRest, "rest"},
                                                                            {kStop, "stop"},
                                                                            {kOutput, "output"},
                                                                            {kTurn, "turn"},
                                                                            {kLength, "length"},
                                                                            {kPace, "pace"}});
// Releases that must have come back before there is anything to go by but time.
constexpr double kEnough = 8;

enum class CostOf : std::uint8_t { kNothing, kBlock, kChain };

ReuseLearner::Options options_of(std::span<const double> p) {
  return {.model = {.bounded_horizon = p[kHorizon] != 0,
                    .shrinkage = static_cast<float>(p[kShrinkage]),
                    .forgetting = static_cast<float>(p[kForgetting])},
          .features = {.hints = p[kHints] != 0,
                       .stop = p[kStop] != 0,
                       .output = p[kOutput] != 0,
                       .turn = p[kTurn] != 0,
                       .length = p[kLength] != 0},
          .ghosts = p[kGhosts],
          .shared = p[kShared] != 0,
          .rest = p[kRest] != 0,
          .paced = p[kPace] != 0};
}

class CostAware final : public Policy, public ComparesWithLru {
 public:
  explicit CostAware(std::span<const double> p)
      : parameters_(p.begin(), p.end()),
        options_(options_of(p)),
        cost_(static_cast<CostOf>(p[kCost])),
        guarded_(p[kGuard] != 0) {}

  void attach(const PolicyContext& context) override {
    context_.emplace(context);
    runs_ = &context.runs;
    learner_.emplace(options_, context);
    scan_.emplace(context.runs, learner_->model());
    scan_->order_by_time(true);
  }

  void on_hit(std::span<const RunId> hit, const RequestInfo& info) override {
    const RunId changed = learner_->hit(hit, info, [&](std::span<const RunId> together, std::uint32_t in_lru) {
      double cost = 0;
      for (const RunId r : together) cost += stretch_cost(runs_->depth[r], runs_->length[r]);
      saved(cost, in_lru > 0 ? stretch_cost(runs_->depth[together.back()], in_lru) : 0);
      guard_.ask(cost);
    });
    if (changed != kNoRun && scan_->contains(changed)) {
      scan_->set_class(changed, learner_->event(changed).waiting.cls);
    }
  }

  void on_miss(std::uint64_t key, const RequestInfo& /*info*/) override { learner_->missed(key); }

  void on_stored(std::span<const RunId> stored, const RequestInfo& info) override {
    for (const RunId r : stored) guard_.ask(stretch_cost(runs_->depth[r], runs_->length[r]));
    learner_->stored(stored, info, [&](RunId r, std::uint32_t at, std::uint32_t in_lru) { lru_hits(r, at, in_lru); });
  }

  void on_split(RunId head, RunId tail) override { learner_->split(head, tail); }

  void on_referenced(std::span<const RunId> runs) override {
    for (const RunId r : runs) {
      scan_->remove(r);
      learner_->forget(r);
    }
  }

  void on_evictable(std::span<const RunId> runs, const RequestInfo& info) override {
    learner_->settle(
        runs, info, [&](RunId r, std::uint32_t at, std::uint32_t in_lru) { lru_hits(r, at, in_lru); },
        [&](RunId r, std::uint32_t at) { guard_.ask(stretch_cost(runs_->depth[r] + at, runs_->length[r] - at)); });
    learner_->release(runs, info);
    for (const RunId r : runs) {
      if (runs_->children[r] == 0) on_uncovered(r);
    }
    guard_.end_request(learner_->duels().tally());
    set_order();
  }

  void on_dropped(std::span<const RunId> runs) override {
    for (const RunId r : runs) scan_->remove(r);
  }

  void on_uncovered(RunId run) override {
    learner_->uncovered(run);
    scan_->add(leaf_of(run));
  }

  void on_forgotten(RunId run) override { learner_->forget(run); }
  void on_trimmed(RunId run) override { scan_->set_weight(run, weight_of(run), favour_of(run)); }
  void on_priority(RunId run) override {
    if (scan_->contains(run)) on_trimmed(run);
  }
  bool honours_priority() const override { return true; }

  void on_evicted(RunId run, std::uint64_t key, std::uint32_t blocks) override {
    learner_->evicted(run, key, blocks, now_);
  }

  RunId choose(std::uint32_t /*wanted*/, Time now) override {
    now_ = now;
    if (learner_->duels().due()) duel(now);
    return scan_->least(now);
  }

  bool learns() const override { return true; }
  std::string save_state() const override {
    StateWriter learned;
    learner_->model().save(learned);
    learner_->common_gaps().save(learned);
    save_circumstances(learned);
    guard_.save(learned);
    return seal_state(builtin::cost_aware().info, parameters_, learned.bytes());
  }
  void load_state(std::string_view state) override {
    if (!learner_->untouched() || learner_->model().requests() > 0) {
      throw PolicyStateError("policy state: this policy has learned already; load it before the first request");
    }
    StateReader learned(open_state(state, builtin::cost_aware().info, parameters_));
    ReuseModel model(options_.model);
    model.load(learned);
    CommonGaps gaps;
    gaps.load(learned);
    const bool same = loads_same_circumstances(learned);
    ShadowGuard guard;
    guard.load(learned);
    learned.finish();
    learner_->go_on_from(std::move(model), gaps);
    if (same) guard_ = guard;
    set_order();
  }

  ShadowComparison compare_with_lru() const override {
    return {.own = compared_.own, .lru = compared_.lru, .lru_decides = lru_saves_more()};
  }

  bool explains() const override { return true; }
  RunValue explain(RunId run, Time now) const override {
    const VictimScan::Leaf leaf = leaf_of(run);
    const double units = static_cast<float>(now - leaf.released) * leaf.pace;
    return {.value = scan_->value(leaf, now),
            .rate = learner_->model().index(leaf.cls, static_cast<float>(units)) * leaf.pace,
            .cost = cost_of(leaf),
            .favour = leaf.favour,
            .age = now - leaf.released,
            .usual_gap = 1 / leaf.pace,
            .group = learner_->describe(leaf.cls),
            .order = order_in_words()};
  }

  std::string verify() const override {
    const std::string wrong = scan_->verify();
    return wrong.empty() ? learner_->verify() : wrong;
  }
  std::size_t bytes() const override { return learner_->bytes() + scan_->bytes(); }

 private:
  // What it depends on who wins, and in which units.
  void save_circumstances(StateWriter& out) const {
    out.put(runs_->capacity);
    out.put(context_->block_tokens);
    out.put(1 / context_->p_star);  // which may be endless, and numbers of a state are not
    out.put(static_cast<std::uint8_t>(context_->rule));
  }
  bool loads_same_circumstances(StateReader& in) const {
    const auto capacity = in.get<std::uint32_t>();
    const auto block_tokens = in.get<std::uint32_t>();
    const auto per_p_star = in.get<double>();
    const auto rule = in.get<std::uint8_t>();
    return capacity == runs_->capacity && block_tokens == context_->block_tokens &&
           per_p_star == 1 / context_->p_star && rule == static_cast<std::uint8_t>(context_->rule);
  }

  // Prefill time that hits of the running request save, ours and LRU's.
  void saved(double ours, double lru) {
    guard_.count(ours, lru);
    compared_.own += ours;
    compared_.lru += lru;
  }
  bool lru_saves_more() const { return guarded_ && guard_.uses_lru(); }
  bool has_learned() const { return learner_->model().returns() >= kEnough; }
  void set_order() { scan_->order_by_time(lru_saves_more() || !has_learned()); }
  const char* order_in_words() const {
    if (!has_learned()) return "the oldest first: too little has come back";
    return lru_saves_more() ? "the oldest first: LRU saves more at present" : "the least value first";
  }

  void duel(Time now) {
    const auto [by_index, by_time] =
        scan_->draw(learner_->duels().random(), now, [&](RunId r) { return learner_->in_duel(r); });
    if (by_index.run != by_time.run) {
      learner_->begin_duel(by_index.run, cost_of(by_index), by_time.run, cost_of(by_time));
    }
  }
  // Of losing a block of a leaf.
  static float cost_of(const VictimScan::Leaf& leaf) { return leaf.weight / (leaf.favour * leaf.pace); }

  VictimScan::Leaf leaf_of(RunId r) const {
    const ReleaseEvent& event = learner_->event(r);
    return {event.released, event.pace, weight_of(r), favour_of(r), event.waiting.cls, r, event.number};
  }

  // Blocks of a new run that LRU would have had.
  void lru_hits(RunId r, std::uint32_t at, std::uint32_t blocks) {
    if (blocks > 0) saved(0, stretch_cost(runs_->depth[r] + at, blocks));
  }

  // Prefill time of blocks [depth, depth + blocks) in the units of PolicyContext::block_cost.
  double stretch_cost(std::uint32_t depth, std::uint32_t blocks) const {
    return blocks * context_->block_cost(depth + (blocks - 1) / 2.0);
  }

  // What a block off the deep end of a run is worth while the index is 1.
  float weight_of(RunId r) const {
    const std::uint32_t end = runs_->end(r);
    double cost = context_->block_tokens;
    if (cost_ == CostOf::kBlock) cost = context_->block_cost(end - 1);
    if (cost_ == CostOf::kChain) cost = context_->block_cost((end - 1) / 2.0);
    return static_cast<float>(cost) * favour_of(r) * learner_->event(r).pace;
  }

  // What the retention priority of a run multiplies its value by.
  float favour_of(RunId r) const {
    const int above = static_cast<int>(runs_->priority[r]) - static_cast<int>(kDefaultPriority);
    return above == 0 ? 1 : std::exp2(static_cast<float>(above) / 8);
  }

  std::vector<double> parameters_;
  ReuseLearner::Options options_;
  CostOf cost_;
  bool guarded_;
  ShadowGuard guard_;
  ShadowComparison compared_;
  Time now_ = 0;
  std::optional<PolicyContext> context_;
  const RunTable* runs_ = nullptr;
  std::optional<ReuseLearner> learner_;
  std::optional<VictimScan> scan_;
};

}  // namespace

BuiltinPolicy builtin::cost_aware() {
  return {
      {.name = "cost-aware",
       .summary = "least chance of reuse x prefill time lost per second held; guarded by LRU",
       .reference = "this project (retention index)",
       .parameters = {{"horizon", 1, 0, 1, "1: the best horizon; 0: an endless one (LHD)"},
                      {"cost", 2, 0, 2, "what a block costs: 0 one unit, 1 its own prefill time, 2 its chain's mean"},
                      {"ghosts", 1, 0, 8, "how many evicted releases are remembered, x (2048 + capacity / 32)"},
                      {"hints", 1, 0, 1, "1: use stop reason, session and client hints; 0: the prefix tree alone"},
                      {"guard", 1, 0, 1, "1: fall back to LRU while LRU saves more"},
                      {"shared", 1, 0, 1, "1: learn heads that several chains share by themselves"},
                      {"rest", 1, 0, 1, "1: learn what a returning session leaves behind by itself"},
                      {"stop", 1, 0, 1, "1: tell releases apart by why the request stopped"},
                      {"output", 1, 0, 1, "1: by the length of its answer"},
                      {"turn", 1, 0, 1, "1: by how often its chain has returned"},
                      {"length", 1, 0, 1, "1: by the length of its prompt"},
                      {"pace", 1, 0, 1, "1: measure age by the session's usual gap; 0: by ten seconds"},
                      {"shrinkage", 15, 0, 1000, "releases at each age that a class borrows from its parent"},
                      {"forgetting", 0.97, 0.5, 1, "what is kept of the past every 300 requests"}}},
      [](std::span<const double> parameters) -> std::unique_ptr<Policy> {
        for (const auto& [setting, name] : kChoices) {
          if (parameters[setting] == std::floor(parameters[setting])) continue;
          throw ConfigError("policy cost-aware: " + std::string(name) + "=" + std::to_string(parameters[setting]) +
                            "; it must be a whole number");
        }
        return std::make_unique<CostAware>(parameters);
      }};
}

}  // namespace kvopt
