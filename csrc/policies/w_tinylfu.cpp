// W-TinyLFU: new blocks enter a small window; from there they get into the main part only by displacing a block that
// was seen less often. The main part is a segmented LRU: on probation until hit, then protected.
//
// Reference: Einziger, Friedman and Manes, "TinyLFU: A Highly Efficient Cache Admission Policy", ACM Transactions on
// Storage 2017. Every reference is counted; libCacheSim counts no hits in the window, and a candidate twice. Under the
// prefix rule a run is seen as often as its first block, sizes are in blocks, and what requests hold counts in none; a
// run with children is passed over, and is the next of its segment when it loses the last child.
// Structure: three queues of runs, oldest first, and a count-min sketch.
// Complexity: O(1) a run, and a pass over the sketch once a sample. 25 bytes a run, allocated in attach().
#include <algorithm>
#include <array>

#include "core/evictable_queues.hpp"
#include "core/frequency_sketch.hpp"
#include "policies/builtin.hpp"

namespace kvopt {

namespace {

class WTinyLfu final : public Policy {
 public:
  WTinyLfu(double window, double protected_share, double sample)
      : window_share_(window), protected_share_(protected_share), sample_(sample) {}

  void attach(const PolicyContext& context) override {
    runs_ = &context.runs;
    const std::uint32_t capacity = runs_->capacity;
    window_ = std::clamp(share(capacity, window_share_), 1u, capacity);
    protected_ = share(capacity - window_, protected_share_);
    queues_.emplace(*runs_, kSegments);
    segment_.emplace(capacity);
    sketch_.emplace(capacity, static_cast<std::uint64_t>(capacity * sample_));
  }

  void on_hit(std::span<const RunId> hit, const RequestInfo& /*info*/) override {
    for (const RunId r : hit) sketch_->add(runs_->first_key(r), 1, runs_->length[r]);
  }

  void on_stored(std::span<const RunId> stored, const RequestInfo& info) override {
    for (const RunId r : stored) (*segment_)[r] = kWindow;
    on_hit(stored, info);
  }

  void on_split(RunId head, RunId tail) override {
    (*segment_)[head] = (*segment_)[tail];
    const std::uint64_t key = runs_->first_key(tail);
    const std::uint32_t seen = sketch_->count(runs_->first_key(head));
    sketch_->add(key, seen - std::min(seen, sketch_->count(key)), 0);
  }

  void on_referenced(std::span<const RunId> runs) override {
    for (const RunId r : runs) {
      blocks_[(*segment_)[r]] -= runs_->length[r];
      if (queues_->contains(r)) queues_->remove(r);
    }
  }

  void on_evictable(std::span<const RunId> runs, const RequestInfo& /*info*/) override {
    // What was on probation can only have been held because it was hit.
    for (const RunId r : runs) enter((*segment_)[r] == kWindow ? kWindow : kProtected, r);
    while (blocks_[kProtected] > protected_ && !queues_->empty(kProtected)) {
      move(queues_->front(kProtected), kProbation);
    }
    while (blocks_[kWindow] > window_ && !queues_->empty(kWindow)) {
      const RunId r = queues_->front(kWindow);
      if (blocks_[kProbation] + blocks_[kProtected] + runs_->length[r] > runs_->capacity - window_) break;
      move(r, kProbation);
    }
  }

  void on_dropped(std::span<const RunId> runs) override { on_referenced(runs); }

  void on_uncovered(RunId run) override {
    if (!queues_->contains(run)) queues_->prepend((*segment_)[run], run);
  }

  void on_evicted(RunId run, std::uint64_t /*key*/, std::uint32_t blocks) override {
    if (blocks < runs_->length[run]) blocks_[(*segment_)[run]] -= blocks;
  }

  RunId choose(std::uint32_t wanted, Time /*now*/) override {
    RunId in_main = queues_->front_leaf(kProbation);
    if (in_main == kNoRun) in_main = queues_->front_leaf(kProtected);
    const RunId candidate = queues_->front_leaf(kWindow);
    if (candidate == kNoRun) return in_main;
    if (in_main == kNoRun) return candidate;
    if (blocks_[kWindow] + wanted <= window_) return in_main;
    if (sketch_->count(runs_->first_key(candidate)) <= sketch_->count(runs_->first_key(in_main))) return candidate;
    move(candidate, kProbation);
    return in_main;
  }

  std::string verify() const override {
    std::array<std::uint64_t, kSegments> blocks{};
    for (RunId r = 0; r < runs_->used; ++r) {
      if (runs_->evictable(r)) blocks[(*segment_)[r]] += runs_->length[r];
    }
    return blocks == blocks_ ? queues_->verify(kSegments) : "the sizes of the segments are wrong";
  }

  std::size_t bytes() const override { return queues_->bytes() + segment_->size() + sketch_->bytes(); }

 private:
  enum Segment : std::uint8_t { kWindow, kProbation, kProtected, kSegments };

  static std::uint32_t share(std::uint32_t blocks, double of) {
    return static_cast<std::uint32_t>(static_cast<double>(blocks) * of);
  }

  void enter(Segment segment, RunId r) {
    (*segment_)[r] = segment;
    blocks_[segment] += runs_->length[r];
    queues_->append(segment, r);
  }

  void move(RunId r, Segment segment) {
    queues_->remove(r);
    blocks_[(*segment_)[r]] -= runs_->length[r];
    enter(segment, r);
  }

  double window_share_;
  double protected_share_;
  double sample_;
  const RunTable* runs_ = nullptr;
  std::uint32_t window_ = 0;     // blocks
  std::uint32_t protected_ = 0;  // blocks
  std::array<std::uint64_t, kSegments> blocks_{};
  std::optional<EvictableQueues> queues_;
  std::optional<LazyArray<Segment>> segment_;
  std::optional<FrequencySketch> sketch_;
};

}  // namespace

BuiltinPolicy builtin::w_tinylfu() {
  return {{.name = "w-tinylfu",
           .summary = "LRU window; into the segmented LRU behind it only what is seen more often than its victim",
           .reference = "Einziger et al., ACM Transactions on Storage 2017",
           .parameters = {{"window", 0.01, 0, 1, "share of the blocks that is the window"},
                          {"protected", 0.8, 0, 1, "share of the other blocks for those that were hit"},
                          {"sample", 10, 1, 1000, "references between two halvings of the counts, in capacities"}}},
          [](std::span<const double> p) -> std::unique_ptr<Policy> {
            return std::make_unique<WTinyLfu>(p[0], p[1], p[2]);
          }};
}

}  // namespace kvopt
