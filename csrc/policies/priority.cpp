// Retention priority: evict the leaf with the lowest priority, among equals the one that was let go of longest ago,
// then the deepest.
//
// Reference: TensorRT-LLM, KvCacheRetentionConfig (priority 0 to 100, default 35, with a duration). There the clock of
// a duration starts when the block is released; here it starts at BlockPool::retain, which an engine calls at the
// release. As there, what expires goes behind all that has the default priority by then; `requeue=0` leaves it its
// place by last use. Structure: an indexed heap of leaves by (priority, last use or expiry, depth). Priorities are set
// and expire through the pool. Complexity: O(log leaves) an eviction or expiry. 24 bytes a run, allocated in attach().
#include <algorithm>

#include "core/leaf_heap.hpp"
#include "policies/builtin.hpp"

namespace kvopt {

namespace {

struct Place {
  Time time;              // the last use, or the newest one when it expired
  std::uint32_t expiry;   // the number of the expiry; 0: none since
  std::uint8_t priority;  // when it came to this place
};

struct LowerPriority {
  const RunTable* runs;
  const LazyArray<Place>* places;

  bool operator()(RunId a, RunId b) const {
    if (runs->priority[a] != runs->priority[b]) return runs->priority[a] < runs->priority[b];
    const Place& x = (*places)[a];
    const Place& y = (*places)[b];
    if (x.time != y.time) return x.time < y.time;
    if (x.expiry != y.expiry) return x.expiry < y.expiry;
    if (runs->end(a) != runs->end(b)) return runs->end(a) > runs->end(b);
    return a < b;
  }
};

class Priority final : public LeafHeapPolicy<LowerPriority> {
 public:
  explicit Priority(std::span<const double> parameters) : requeue_(parameters[0] != 0) {}

  void attach(const PolicyContext& context) override {
    runs_ = &context.runs;
    places_.emplace(runs_->capacity);
    order_by(*runs_, {runs_, &*places_});
  }

  void on_split(RunId head, RunId tail) override { (*places_)[head] = (*places_)[tail]; }

  void on_evictable(std::span<const RunId> runs, const RequestInfo& /*info*/) override {
    for (const RunId r : runs) {
      newest_ = std::max(newest_, runs_->last_use[r]);
      (*places_)[r] = {runs_->last_use[r], 0, runs_->priority[r]};
    }
    heap_->add(runs);
  }

  void on_priority(RunId run) override {
    if (!runs_->evictable(run)) return;  // retained; what is let go of is only ever demoted by expiry
    Place& place = (*places_)[run];
    if (requeue_ && place.priority != runs_->priority[run]) place = {newest_, ++expiries_, runs_->priority[run]};
    heap_->update(run);
  }

  bool honours_priority() const override { return true; }
  std::size_t bytes() const override { return heap_->bytes() + places_->size() * sizeof(Place); }

 private:
  const RunTable* runs_ = nullptr;
  bool requeue_;
  Time newest_ = -kNever;
  std::uint32_t expiries_ = 0;
  std::optional<LazyArray<Place>> places_;
};

std::unique_ptr<Policy> make(std::span<const double> parameters) { return std::make_unique<Priority>(parameters); }

}  // namespace

BuiltinPolicy builtin::priority() {
  return {{.name = "priority",
           .summary = "lowest retention priority, then least recently used",
           .reference = "TensorRT-LLM, KvCacheRetentionConfig",
           .parameters = {{"requeue", 1, 0, 1, "whether what expires goes behind all of the default priority"}}},
          make};
}

}  // namespace kvopt
