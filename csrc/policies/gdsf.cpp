// Greedy dual size with frequency: evict the leaf with the lowest H = L + F x C, where F counts its references since it
// was stored, C is what a block of it costs, and L is the H of the last victim when F last changed; among equals the
// one that got its H first.
//
// Reference: Cherkasova, "Improving WWW Proxies Performance with Greedy-Dual-Size-Frequency Caching Policy", HPL-98-69.
// As there, a block gets its H before L rises by what it displaces; unlike there, it is stored even when its own H is
// the lowest. Blocks have one size. With cost=0, C is 1, as in libCacheSim, and that is LFU-DA; with cost=1, C is the
// mean prefill time of the blocks of a run. Under the prefix rule a parent that loses its last child goes by its own H;
// parts of a run that is split keep its H until their next reference.
// Structure: a heap of leaves by (H, order of its setting); with cost=0 the queues of LFU-DA.
// Complexity: O(log leaves) a run. 44 bytes a run, allocated in attach().
#include <algorithm>

#include "core/ranked_heap.hpp"
#include "policies/builtin.hpp"

namespace kvopt {

namespace {

struct Worth {
  double h;
  std::uint64_t set;

  bool operator<(const Worth& other) const { return h != other.h ? h < other.h : set < other.set; }
};

class Gdsf final : public Policy {
 public:
  void attach(const PolicyContext& context) override {
    context_.emplace(context);
    heap_.emplace(context.runs);
  }

  void on_split(RunId head, RunId tail) override { heap_->copy_rank(tail, head); }
  void on_referenced(std::span<const RunId> /*runs*/) override {}

  void on_evictable(std::span<const RunId> runs, const RequestInfo& /*info*/) override {
    const RunTable& table = context_->runs;
    for (const RunId r : runs) {
      const double cost = context_->block_cost(table.depth[r] + (table.length[r] - 1) / 2.0);
      heap_->set(r, {age_ + (table.hits[r] + 1) * cost, ++set_});
    }
    age_ = next_age_;
  }

  void on_dropped(std::span<const RunId> runs) override { heap_->remove(runs); }
  void on_forgotten(RunId run) override { heap_->remove({&run, 1}); }
  void on_uncovered(RunId run) override { heap_->place(run); }

  RunId choose(std::uint32_t /*wanted*/, Time /*now*/) override {
    const RunId r = heap_->front();
    next_age_ = std::max(age_, heap_->rank(r).h);  // a parent that was uncovered may have less
    return r;
  }

  std::string verify() const override { return heap_->verify_all(); }
  std::size_t bytes() const override { return heap_->bytes(); }

 private:
  std::optional<PolicyContext> context_;
  double age_ = 0;       // L
  double next_age_ = 0;  // L as soon as those that made room for themselves have their H
  std::uint64_t set_ = 0;
  std::optional<RankedHeap<Worth>> heap_;
};

}  // namespace

BuiltinPolicy builtin::gdsf() {
  return {{.name = "gdsf",
           .summary = "lowest references x cost plus the age at the last one",
           .reference = "Cherkasova, HPL-98-69, 1998",
           .parameters = {{"cost", 0, 0, 1, "what a block costs; 0: 1, 1: its prefill time at its depth"}}},
          [](std::span<const double> p) -> std::unique_ptr<Policy> {
            if (p[0] < 0.5) return builtin::lfu_da().make({});
            return std::make_unique<Gdsf>();
          }};
}

}  // namespace kvopt
