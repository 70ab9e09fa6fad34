// Segmented LRU: segments of equal size, each in LRU order. A hit moves a run one segment up; what a segment has too
// much goes to the next one below; the lowest segment's least recent run is evicted.
//
// Reference: Karedla, Love, Wherry, Caching strategies to improve disk system performance (Computer 27:3, 1994), who
// have two segments; four, and filling the lowest segment with room while the cache is not full, as libCacheSim does.
// Blocks that do not divide evenly belong to the lowest segment (libCacheSim leaves them unassigned and evicts at hits
// then). Under the prefix rule a run is placed when its last holder lets go of it, a request's deepest first; the order
// within a segment is then leaf first but for parents that came there before their children, which are passed over.
// Structure: a queue of runs a segment (core/run_queues.hpp).
// Complexity: O(segments) a run. 16 bytes a run, allocated in attach().
#include <algorithm>

#include "core/run_queues.hpp"
#include "policies/builtin.hpp"

namespace kvopt {

namespace {

class Slru final : public RunQueuePolicy {
 public:
  explicit Slru(std::span<const double> parameters) : segments_(static_cast<std::uint32_t>(parameters[0])) {}

  void attach(const PolicyContext& context) override {
    segments_ = std::min(segments_, context.runs.capacity);
    order_by(context.runs, segments_);
    share_ = context.runs.capacity / segments_;
    lowest_share_ = context.runs.capacity - share_ * (segments_ - 1);
  }

  void on_hit(std::span<const RunId> hit, const RequestInfo& /*info*/) override {
    for (const RunId r : hit) {
      const std::uint32_t up = std::min(queues_->queue(r) + 1, segments_ - 1);
      queues_->move(r, up);
      for (std::uint32_t s = up; s > 0; --s) cool(s);
    }
  }

  void on_stored(std::span<const RunId> stored, const RequestInfo& /*info*/) override {
    for (const RunId r : stored) queues_->enter(r, lowest_with_room(runs_->length[r]));
  }

  void on_referenced(std::span<const RunId> runs) override {
    for (const RunId r : runs) queues_->unlist(r);
  }

  void on_evictable(std::span<const RunId> runs, const RequestInfo& /*info*/) override {
    for (const RunId r : runs) place_last(r);
  }

  RunId choose(std::uint32_t /*wanted*/, Time /*now*/) override {
    RunId victim = kNoRun;
    for (std::uint32_t s = 0; s < segments_ && victim == kNoRun; ++s) victim = queues_->front_victim(s);
    return victim;
  }

 private:
  std::uint32_t room(std::uint32_t segment) const { return segment == 0 ? lowest_share_ : share_; }

  std::uint32_t lowest_with_room(std::uint32_t blocks) const {
    for (std::uint32_t s = 0; s < segments_; ++s) {
      if (std::uint64_t{queues_->blocks(s)} + blocks <= room(s)) return s;
    }
    return 0;
  }

  // What is over the segment's share goes to the recent end of the one below.
  void cool(std::uint32_t segment) {
    while (queues_->blocks(segment) > room(segment)) {
      const RunId r = queues_->front(segment);
      if (r == kNoRun) return;
      queues_->move(r, segment - 1);
      queues_->append(r);
    }
  }

  std::uint32_t segments_;
  std::uint32_t share_ = 0;
  std::uint32_t lowest_share_ = 0;
};

}  // namespace

BuiltinPolicy builtin::slru() {
  return {{.name = "slru",
           .summary = "LRU in segments; each hit moves a run one segment up",
           .reference = "Karedla et al., Computer 27:3, 1994",
           .parameters = {{"segments", 4, 1, 16, "segments, of equal size"}}},
          make_with<Slru>};
}

}  // namespace kvopt
