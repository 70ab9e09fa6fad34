// Cost-aware: evict the leaf whose blocks are worth least: the chance that they are used again × the prefill time that
// their loss would cost ÷ how long they must be held, by the index of core/reuse_model.hpp. Never worse than LRU for
// long: a shadow of LRU runs along, and when LRU saves more over a window of requests, its order is used for a while.
//
// Reference: this project. The index is Gittins' for a return hazard; relatives are LHD (Beckmann et al., NSDI 2018; s
// → ∞ and unit cost) and Continuum (one deadline instead of an order). Classes: why the request stopped, its output,
// its turn, its length, each where known; shared heads by how many share them. Structure: release events with their
// history (core/release_events.hpp), leaves side by side (core/victim_scan.hpp). Complexity: O(1) a run that is
// touched, amortised O(1) a victim; one class refreshed a request. About 150 bytes a run.
#include <cmath>

#include "core/release_events.hpp"
#include "core/reuse_model.hpp"
#include "core/session_gaps.hpp"
#include "core/shadow_guard.hpp"
#include "core/victim_scan.hpp"
#include "policies/builtin.hpp"

namespace kvopt {

namespace {

enum Parameter : std::size_t { kHorizon, kCost, kGhosts, kHints, kGuard, kShared, kShrinkage, kForgetting };
enum class CostOf : std::uint8_t { kNothing, kBlock, kChain };

constexpr std::size_t kClassesARequest = 2;

std::uint8_t logarithmic(double x, double first, double factor, std::uint8_t most) {
  if (x < first) return 0;
  return static_cast<std::uint8_t>(std::min<double>(most, 1 + std::floor(std::log2(x / first) / std::log2(factor))));
}

class CostAware final : public Policy {
 public:
  explicit CostAware(std::span<const double> p)
      : model_({.bounded_horizon = p[kHorizon] != 0,
                .shrinkage = static_cast<float>(p[kShrinkage]),
                .forgetting = static_cast<float>(p[kForgetting])}),
        cost_(static_cast<CostOf>(p[kCost])),
        ghosts_(p[kGhosts]),
        hints_(p[kHints] != 0),
        guarded_(p[kGuard] != 0),
        shared_(p[kShared] != 0) {}

  void attach(const PolicyContext& context) override {
    context_.emplace(context);
    runs_ = &context.runs;
    const double most = ghosts_ * (2048 + context.runs.capacity / 4.0);
    events_.emplace(context.runs.capacity, static_cast<std::uint32_t>(most));
    scan_.emplace(context.runs, model_);
    event_of_.emplace(context.runs.capacity);
    child_.emplace(context.runs.capacity);
    carried_.emplace(context.runs.capacity);
  }

  void on_hit(std::span<const RunId> hit, const RequestInfo& info) override {
    if (const RunId deepest = hit.front(); event_of(deepest) != kNoEvent && continues(deepest)) {
      carry(deepest, (*events_)[event_of(deepest)], info.now);
    }
    for (std::size_t i = 0; i < hit.size();) {
      const EventId e = event_of(hit[i]);
      std::uint32_t blocks = 0;
      double cost = 0;
      for (; i < hit.size() && event_of(hit[i]) == e; ++i) {
        blocks += runs_->length[hit[i]];
        cost += stretch_cost(runs_->depth[hit[i]], runs_->length[hit[i]]);
        (*event_of_)[hit[i]] = 0;
      }
      double in_lru = 1;
      if (e != kNoEvent) {
        observe(e, info.now, blocks, true);
        in_lru = static_cast<double>(events_->take_cached(e, blocks)) / blocks;
      }
      guard_.count(cost, cost * in_lru);
    }
  }

  void on_stored(std::span<const RunId> stored, const RequestInfo& info) override {
    for (std::size_t i = stored.size(); i-- > 0;) {
      const RunId r = stored[i];
      (*event_of_)[r] = 0;
      (*carried_)[r] = {};
      if (const RunId up = runs_->parent[r]; up != kNoRun) (*child_)[up] = r;
      const EventId e = events_->ghost(runs_->first_key(r));
      if (e == kNoEvent) continue;
      const std::uint32_t blocks = (*events_)[e].ghosts;
      observe(e, info.now, blocks, true);
      carry(stored.front(), (*events_)[e], info.now);
      guard_.count(0, stretch_cost(runs_->depth[r], events_->take_ghosts(e)));
    }
  }

  void on_split(RunId head, RunId tail) override {
    (*event_of_)[head] = (*event_of_)[tail];
    (*carried_)[head] = {};
    (*child_)[head] = tail;
    if (const RunId up = runs_->parent[head]; up != kNoRun && (*child_)[up] == tail) (*child_)[up] = head;
  }

  void on_referenced(std::span<const RunId> runs) override {
    for (const RunId r : runs) {
      scan_->remove(r);
      if (const EventId e = event_of(r); e != kNoEvent) {  // by a lease: no request came back for it
        events_->take_cached(e, runs_->length[r]);
        (*event_of_)[r] = 0;
      }
    }
  }

  void on_evictable(std::span<const RunId> runs, const RequestInfo& info) override {
    GapHistory history = history_of(runs, info);
    const auto cls = class_of(runs.front(), info, history);
    const float scale = scale_of(info, history);
    std::uint32_t blocks = 0;
    for (const RunId r : runs) blocks += runs_->length[r];
    for (std::size_t i = 0; i < runs.size();) {
      const std::uint32_t owners = owners_of(runs, i);
      std::size_t end = i;
      std::uint32_t together = 0;
      for (; end < runs.size() && owners_of(runs, end) == owners; ++end) together += runs_->length[runs[end]];
      const EventId e = events_->open({.released = info.now,
                                       .ghost_key = 0,
                                       .cls = owners < 2 ? cls : shared_class(owners),
                                       .scale = scale,
                                       .share = 1.0F / static_cast<float>(blocks),
                                       .cached = together,
                                       .ghosts = 0,
                                       .in_lru = 0,
                                       .history = history});
      for (; i < end; ++i) (*event_of_)[runs[i]] = e + 1;
    }
    for (const RunId r : runs) {
      if (runs_->children[r] == 0) add_leaf(r);
    }
    if (guarded_) {
      const bool lru = guard_.end_request();
      if (lru != by_lru_) scan_->order_by_time(by_lru_ = lru);
    }
    learn(info.now);
  }

  void on_dropped(std::span<const RunId> runs) override {
    for (const RunId r : runs) scan_->remove(r);
  }

  void on_forgotten(RunId run) override {
    if (const EventId e = event_of(run); e != kNoEvent) events_->take_cached(e, runs_->length[run]);
    (*event_of_)[run] = 0;
  }

  void on_uncovered(RunId run) override { add_leaf(run); }
  void on_trimmed(RunId run) override { scan_->set_weight(run, weight_of(run)); }
  void on_priority(RunId run) override {
    if (scan_->contains(run)) scan_->set_weight(run, weight_of(run));
  }
  bool honours_priority() const override { return true; }

  void on_evicted(RunId run, std::uint64_t key, std::uint32_t blocks) override {
    const EventId e = event_of(run);
    if (ghosts_ == 0) {
      observe(e, now_, blocks, false);
      events_->take_cached(e, blocks);
      return;
    }
    events_->evict(e, blocks, key);
    for (EventId old = events_->excess(); old != kNoEvent; old = events_->excess()) {
      observe(old, now_, (*events_)[old].ghosts, false);
      events_->drop_ghosts(old);
    }
  }

  RunId choose(std::uint32_t /*wanted*/, Time now) override {
    now_ = now;
    return scan_->least(now);
  }

  std::string verify() const override { return scan_->verify(); }
  std::size_t bytes() const override {
    return events_->bytes() + scan_->bytes() + event_of_->size() * (sizeof(EventId) + sizeof(RunId) + sizeof(Carried));
  }

 private:
  struct Carried {  // the history of the session that a request continues, until its release
    GapHistory history;
    Time released;
    bool set;
  };

  EventId event_of(RunId r) const { return (*event_of_)[r] - 1; }  // stored plus one; kNoEvent while it is held

  // Prefill time of blocks [depth, depth + blocks) in the units of PolicyContext::block_cost.
  double stretch_cost(std::uint32_t depth, std::uint32_t blocks) const {
    return blocks * context_->block_cost(depth + (blocks - 1) / 2.0);
  }

  // Whether a request that was served up to this run goes on where an event left off. The last block of a prompt is
  // often a partial one that never comes back: it does not count.
  bool continues(RunId deepest) const {
    if (runs_->children[deepest] == 0) return true;
    const RunId tail = (*child_)[deepest];
    return runs_->children[deepest] == 1 && runs_->parent[tail] == deepest && runs_->evictable(tail) &&
           runs_->length[tail] == 1 && runs_->children[tail] == 0 && event_of(tail) == event_of(deepest);
  }

  void carry(RunId r, const ReleaseEvent& event, Time /*now*/) {
    (*carried_)[r] = {event.history, event.released, true};
  }

  void observe(EventId e, Time now, std::uint32_t blocks, bool returned) {
    const ReleaseEvent& event = (*events_)[e];
    const auto age = static_cast<float>(now - event.released) / event.scale;
    const float weight = static_cast<float>(blocks) * event.share;
    model_.observe(event.cls, age, weight, returned);
    if (event.released <= round_began_) {  // it was counted as waiting then
      model_.add_open(event.cls, static_cast<float>(round_began_ - event.released) / event.scale, -weight);
    }
  }

  // The history of the session up to this release: by its id where known, else by the chain that the request continued.
  GapHistory history_of(std::span<const RunId> runs, const RequestInfo& info) {
    const bool tool = hints_ && info.stop == StopReason::kToolUse;
    Carried* from = nullptr;
    for (const RunId r : runs) {
      if ((*carried_)[r].set) {
        from = &(*carried_)[r];
        break;
      }
    }
    GapHistory history;
    if (from != nullptr) {
      history = gaps_.extend(from->history, info.now - from->released);
      from->set = false;
    }
    if (hints_ && info.session >= 0) history = gaps_.of_session(info.session, info.subagent, info.now, history);
    history.after_tool = tool;
    if (hints_ && info.session >= 0) gaps_.remember(info.session, info.subagent, info.now, history);
    return history;
  }

  std::uint32_t class_of(RunId deepest, const RequestInfo& info, const GapHistory& history) {
    const double tokens = static_cast<double>(runs_->depth[deepest] + runs_->length[deepest]) * context_->block_tokens;
    const std::uint8_t turn = logarithmic(history.turns, 1, 2.2, 4);
    const std::uint8_t length = logarithmic(tokens, 1024, 2, 7);
    const std::uint8_t output = logarithmic(info.output_tokens, 32, 2.83, 5);
    if (!hints_ || (info.stop == StopReason::kUnknown && !info.last_turn && info.expected_gap < 0)) {
      return model_.class_of({0, turn, length, output});
    }
    auto stop = static_cast<std::uint8_t>(info.stop);
    if (info.expected_gap >= 0) stop = 5;
    if (info.last_turn) stop = 6;
    return model_.class_of({stop, output, turn, length});
  }

  std::uint32_t shared_class(std::uint32_t owners) {
    return model_.class_of({7, static_cast<std::uint8_t>(owners - 1), 0, 0});
  }

  // Chains that share runs[i]; 1 for what is behind the first fork.
  std::uint32_t owners_of(std::span<const RunId> runs, std::size_t i) const {
    return shared_ && i > 0 && runs_->children[runs[i]] > 1 ? logarithmic(runs_->children[runs[i]], 2, 2, 6) + 1U : 1;
  }

  float scale_of(const RequestInfo& info, const GapHistory& history) const {
    if (hints_ && info.expected_gap >= 0) return std::max(info.expected_gap, 0.05F);
    return gaps_.expected(history);
  }

  float weight_of(RunId r) const {
    const std::uint32_t end = runs_->depth[r] + runs_->length[r];
    double cost = context_->block_tokens;
    if (cost_ == CostOf::kBlock) cost = context_->block_cost(end - 1);
    if (cost_ == CostOf::kChain) cost = context_->block_cost((end - 1) / 2.0);
    const double priority =
        std::exp2((static_cast<int>(runs_->priority[r]) - static_cast<int>(kDefaultPriority)) / 8.0);
    return static_cast<float>(cost * priority / (*events_)[event_of(r)].scale);
  }

  void add_leaf(RunId r) {
    const ReleaseEvent& event = (*events_)[event_of(r)];
    scan_->add({event.released, 1 / event.scale, weight_of(r), event.cls, r});
  }

  // One class a request; what still waits is counted afresh at the start of each round.
  void learn(Time now) {
    model_.end_request();
    if (refreshing_) {
      refreshing_ = model_.refresh(kClassesARequest);
      return;
    }
    model_.begin_round();
    round_began_ = now;
    events_->for_each([&](const ReleaseEvent& e) {
      model_.add_open(e.cls, static_cast<float>(now - e.released) / e.scale,
                      static_cast<float>(e.cached + e.ghosts) * e.share);
    });
    refreshing_ = true;
  }

  ReuseModel model_;
  SessionGaps gaps_;
  ShadowGuard guard_;
  CostOf cost_;
  double ghosts_;
  bool hints_;
  bool guarded_;
  bool shared_;
  bool by_lru_ = false;
  bool refreshing_ = false;
  Time now_ = 0;
  Time round_began_ = -kNever;
  std::optional<PolicyContext> context_;
  const RunTable* runs_ = nullptr;
  std::optional<ReleaseEvents> events_;
  std::optional<VictimScan> scan_;
  std::optional<LazyArray<EventId>> event_of_;
  std::optional<LazyArray<RunId>> child_;  // the last that was stored behind it
  std::optional<LazyArray<Carried>> carried_;
};

}  // namespace

BuiltinPolicy builtin::cost_aware() {
  return {
      {.name = "cost-aware",
       .summary = "least chance of reuse x prefill time lost per second held; guarded by LRU",
       .reference = "this project (retention index)",
       .parameters = {{"horizon", 1, 0, 1, "1: the best horizon; 0: an endless one (LHD)"},
                      {"cost", 2, 0, 2, "what a block costs: 0 one unit, 1 its own prefill time, 2 its chain's mean"},
                      {"ghosts", 1, 0, 8, "how many evicted releases are remembered, x (2048 + capacity / 4)"},
                      {"hints", 1, 0, 1, "1: use stop reason, session and client hints; 0: the prefix tree alone"},
                      {"guard", 1, 0, 1, "1: fall back to LRU while LRU saves more"},
                      {"shared", 1, 0, 1, "1: learn heads that several chains share by themselves"},
                      {"shrinkage", 15, 0, 1000, "releases that a class borrows from its parent"},
                      {"forgetting", 0.97, 0.5, 1, "what is kept of the past every 300 requests"}}},
      [](std::span<const double> parameters) -> std::unique_ptr<Policy> {
        return std::make_unique<CostAware>(parameters);
      }};
}

}  // namespace kvopt
