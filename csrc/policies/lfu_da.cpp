// LFU with dynamic ageing: evict the leaf with the lowest K = F + L, where F counts its references since it was stored,
// and L is the K of the last victim when F last changed; among equals the one that got its K first.
//
// Reference: Arlitt, Cherkasova, Dilley, Friedrich and Jin, "Evaluating Content Management Techniques for Web Proxy
// Caches", ACM SIGMETRICS Performance Evaluation Review 2000. libCacheSim adds L at each hit to what K already is, so
// that what is hit often is kept for ages; the paper adds it once, and so does this. A block gets its K before L rises
// by what it displaces. F stops at 65,535. Under the prefix rule a parent that loses its last child goes by its own K.
// Structure: a queue of leaves for each K.
// Complexity: O(1) a run. 16 bytes a run and 0.5 MiB, allocated in attach().
#include <algorithm>

#include "core/frequency_queues.hpp"
#include "policies/builtin.hpp"

namespace kvopt {

namespace {

class LfuDa final : public Policy {
 public:
  void attach(const PolicyContext& context) override {
    runs_ = &context.runs;
    leaves_.emplace(*runs_);
    key_.emplace(runs_->capacity);
  }

  void on_split(RunId head, RunId tail) override { (*key_)[head] = (*key_)[tail]; }

  void on_referenced(std::span<const RunId> runs) override {
    for (const RunId r : runs) {
      if (leaves_->contains(r)) leaves_->remove(r);
    }
  }

  void on_evictable(std::span<const RunId> runs, const RequestInfo& /*info*/) override {
    for (const RunId r : runs) {
      (*key_)[r] = age_ + runs_->hits[r] + 1;
      if (runs_->children[r] == 0) leaves_->append(r, (*key_)[r]);
    }
    age_ = next_age_;
  }

  void on_dropped(std::span<const RunId> runs) override { on_referenced(runs); }
  void on_uncovered(RunId run) override { leaves_->append(run, (*key_)[run]); }

  RunId choose(std::uint32_t /*wanted*/, Time /*now*/) override {
    next_age_ = std::max(age_, leaves_->least_frequency());  // a parent that was uncovered may have less
    leaves_->raise_base(age_ + 1);
    return leaves_->first_of_least();
  }

  std::string verify() const override { return leaves_->verify(); }
  std::size_t bytes() const override { return leaves_->bytes() + key_->size() * sizeof(std::uint64_t); }

 private:
  const RunTable* runs_ = nullptr;
  std::uint64_t age_ = 0;       // L
  std::uint64_t next_age_ = 0;  // L as soon as those that made room for themselves have their K
  std::optional<FrequencyQueues> leaves_;
  std::optional<LazyArray<std::uint64_t>> key_;
};

}  // namespace

BuiltinPolicy builtin::lfu_da() {
  return {{.name = "lfu-da",
           .summary = "fewest references plus the age at the last one",
           .reference = "Arlitt et al., Performance Evaluation Review 2000"},
          make_plain<LfuDa>};
}

}  // namespace kvopt
