// Steps to execution: evict the leaf whose agent is the most steps of its workflow away from its next turn, among
// equals the one that was let go of longest ago, then the deepest.
//
// A request tells with RequestInfo::steps how many requests of its session (its workflow) come until its prefix is
// needed again; each later request of that session brings it a step nearer. More than `horizon` steps, an unknown
// number, and steps that are overdue count alike, as horizon + 1.
//
// Reference: Pan et al., "KVFlow", NeurIPS 2025. There the client sends the distances of all agents at every step; here
// each agent's own, counted down. As there, what several agents share has the least of their distances: a session's
// new hint replaces its old one, and another's while that is not nearer. Prefetching is left to the engine. Structure:
// an indexed heap of leaves by (distance, last use, depth); a list of leaves and a step counter a session, in a hash
// table. Complexity: O(log leaves) an eviction of a run, and a leaf of the session at each of its requests. 47 bytes a
// run, allocated in attach().
#include <algorithm>
#include <vector>

#include "core/leaf_heap.hpp"
#include "core/prefix_index.hpp"
#include "policies/builtin.hpp"

namespace kvopt {

namespace {

struct FartherAway {
  const RunTable* runs;
  const LazyArray<std::uint32_t>* distance;

  bool operator()(RunId a, RunId b) const {
    if ((*distance)[a] != (*distance)[b]) return (*distance)[a] > (*distance)[b];
    if (runs->last_use[a] != runs->last_use[b]) return runs->last_use[a] < runs->last_use[b];
    if (runs->end(a) != runs->end(b)) return runs->end(a) > runs->end(b);
    return a < b;
  }
};

using Slot = std::uint32_t;  // of a session that has runs
constexpr Slot kNoSlot = kNoRun;

struct Session {
  std::int32_t session;
  std::uint32_t runs;  // that it owns
  std::int64_t step;
  RunId first_leaf;
  Slot next_free;
};

struct SessionKey {
  const LazyArray<Session>* sessions;
  std::uint64_t operator()(Slot s) const { return static_cast<std::uint32_t>((*sessions)[s].session); }
};

class KvFlow final : public Policy {
 public:
  explicit KvFlow(std::span<const double> parameters) : horizon_(static_cast<std::uint32_t>(parameters[0])) {}

  void attach(const PolicyContext& context) override {
    runs_ = &context.runs;
    flat_ = context.rule == Rule::kFlat;
    const std::uint32_t n = runs_->capacity;
    distance_.emplace(n);
    due_.emplace(n);
    owner_.emplace(n);
    next_leaf_.emplace(n);
    previous_leaf_.emplace(n);
    sessions_.emplace(std::size_t{n} + 1);
    index_.emplace(n + 1, SessionKey{&*sessions_});
    heap_.emplace(*runs_, FartherAway{runs_, &*distance_});
  }

  void on_stored(std::span<const RunId> stored, const RequestInfo& /*info*/) override {
    for (const RunId r : stored) (*due_)[r] = kUnknown;
  }

  void on_split(RunId head, RunId tail) override { own(head, owner(tail), (*due_)[tail]); }

  void on_referenced(std::span<const RunId> runs) override {
    for (const RunId r : runs) unlist(r);
    heap_->remove(runs);
  }

  void on_evictable(std::span<const RunId> runs, const RequestInfo& info) override {
    if (info.session >= 0 || info.steps >= 0) {
      const Slot s = slot_of(info.session);
      Session& session = (*sessions_)[s];
      // Under the flat rule a request comes block by block.
      if (!flat_ || runs_->depth[runs.back()] == 0) step(session);
      ++session.runs;  // keeps it while its runs change hands
      const std::int64_t due = info.steps < 0 ? kUnknown : session.step + info.steps;
      for (const RunId r : runs) {
        if (owner(r) != s && nearer(r, due - session.step)) continue;
        disown(r);
        own(r, s, due);
      }
      if (--session.runs == 0) give_up(s);
    }
    for (const RunId r : runs) {
      if (runs_->children[r] == 0) on_uncovered(r);
    }
  }

  void on_dropped(std::span<const RunId> runs) override {
    on_referenced(runs);
    for (const RunId r : runs) disown(r);
  }

  void on_forgotten(RunId run) override { disown(run); }

  void on_uncovered(RunId run) override {
    (*distance_)[run] = distance(run);
    list(run);
    heap_->add(run);
  }

  void on_trimmed(RunId run) override { heap_->update(run); }

  RunId choose(std::uint32_t /*wanted*/, Time /*now*/) override { return heap_->front(); }
  std::string verify() const override {
    std::vector<std::uint32_t> owned(sessions_->size());
    for (RunId r = 0; r < runs_->capacity; ++r) {
      if (owner(r) == kNoSlot) continue;
      if (!runs_->hittable(r)) return "run " + std::to_string(r) + " has an owner, but can be hit no more";
      ++owned[owner(r)];
    }
    for (Slot s = 0; s < used_; ++s) {
      if (owned[s] > 0 && owned[s] != (*sessions_)[s].runs) return "the runs of a session are miscounted";
    }
    return heap_->verify();
  }

  std::size_t bytes() const override {
    return heap_->bytes() + index_->bytes() + sessions_->size() * sizeof(Session) +
           distance_->size() * (4 * sizeof(std::uint32_t) + sizeof(std::int64_t));
  }

 private:
  static constexpr std::int64_t kUnknown = INT64_MAX / 2;

  // Arrays begin as zeros, so what is stored in them is a slot or run plus one.
  Slot owner(RunId r) const { return (*owner_)[r] - 1; }

  std::uint32_t distance(RunId r) const {
    const Slot s = owner(r);
    if (s == kNoSlot) return horizon_ + 1;
    const std::int64_t steps = (*due_)[r] - (*sessions_)[s].step;
    return steps < 0 || steps > horizon_ ? horizon_ + 1 : static_cast<std::uint32_t>(steps);
  }

  // Whether r's owner will need it sooner than in so many steps.
  bool nearer(RunId r, std::int64_t steps) const { return distance(r) <= horizon_ && distance(r) < steps; }

  Slot slot_of(std::int32_t session) {
    const std::uint64_t key = static_cast<std::uint32_t>(session);
    Slot s = index_->find(key, [](Slot) { return true; });
    if (s != kNoSlot) return s;
    s = free_ != kNoSlot ? free_ : used_++;
    if (s == free_) free_ = (*sessions_)[s].next_free;
    (*sessions_)[s] = {session, 0, 0, kNoRun, kNoSlot};
    index_->insert(s);
    return s;
  }

  void give_up(Slot s) {
    index_->erase(s);
    (*sessions_)[s].next_free = free_;
    free_ = s;
  }

  // The session is a step further: what waits for it is nearer.
  void step(Session& session) {
    ++session.step;
    for (RunId r = session.first_leaf; r != kNoRun; r = (*next_leaf_)[r]) {
      (*distance_)[r] = distance(r);
      heap_->update(r);
    }
  }

  void own(RunId r, Slot s, std::int64_t due) {
    (*owner_)[r] = s + 1;
    (*due_)[r] = due;
    if (s != kNoSlot) ++(*sessions_)[s].runs;
  }

  void disown(RunId r) {
    const Slot s = owner(r);
    (*owner_)[r] = 0;
    if (s != kNoSlot && --(*sessions_)[s].runs == 0) give_up(s);
  }

  void list(RunId leaf) {
    const Slot s = owner(leaf);
    if (s == kNoSlot) return;
    RunId& first = (*sessions_)[s].first_leaf;
    (*next_leaf_)[leaf] = first;
    (*previous_leaf_)[leaf] = kNoRun;
    if (first != kNoRun) (*previous_leaf_)[first] = leaf;
    first = leaf;
  }

  void unlist(RunId r) {
    const Slot s = owner(r);
    if (s == kNoSlot || !heap_->contains(r)) return;
    const RunId before = (*previous_leaf_)[r];
    const RunId after = (*next_leaf_)[r];
    (before == kNoRun ? (*sessions_)[s].first_leaf : (*next_leaf_)[before]) = after;
    if (after != kNoRun) (*previous_leaf_)[after] = before;
  }

  const RunTable* runs_ = nullptr;
  std::uint32_t horizon_;
  bool flat_ = false;
  Slot free_ = kNoSlot;
  Slot used_ = 0;
  std::optional<LazyArray<std::uint32_t>> distance_;  // of leaves
  std::optional<LazyArray<std::int64_t>> due_;        // the step of its owner at which it is needed
  std::optional<LazyArray<Slot>> owner_;              // plus one; 0: none
  std::optional<LazyArray<RunId>> next_leaf_;         // of the same session
  std::optional<LazyArray<RunId>> previous_leaf_;
  std::optional<LazyArray<Session>> sessions_;
  std::optional<PrefixIndex<SessionKey>> index_;
  std::optional<LeafHeap<FartherAway>> heap_;
};

std::unique_ptr<Policy> make(std::span<const double> parameters) { return std::make_unique<KvFlow>(parameters); }

}  // namespace

BuiltinPolicy builtin::kvflow() {
  return {{.name = "kvflow",
           .summary = "most workflow steps until its agent's next turn, then least recently used",
           .reference = "KVFlow, NeurIPS 2025",
           .needs = {"steps"},
           .parameters = {{"horizon", 4, 1, 1e6, "steps that are told apart"}}},
          make};
}

}  // namespace kvopt
