// First in, first out: evict the leaf that was stored longest ago, among equals the deepest.
//
// Reference: textbook. In a prefix tree a parent is stored no later than its children and would come first; the
// leaf-first choice of the same order is the oldest leaf. Structure: an indexed heap of leaves by (number of the
// commit, depth). Hits change nothing. Complexity: O(log leaves) an eviction of a run. 12 bytes a run, allocated in
// attach().
#include <algorithm>

#include "core/leaf_heap.hpp"
#include "policies/builtin.hpp"

namespace kvopt {

namespace {

#ifdef KVOPT_INTERNAL_CHECKS
constexpr std::uint32_t kNumbersAtLeast = 1000;  // small, so that tests see the renumbering
#else
constexpr std::uint32_t kNumbersAtLeast = UINT32_MAX;
#endif

struct StoredBefore {
  const RunTable* runs;
  const LazyArray<std::uint32_t>* stored;

  bool operator()(RunId a, RunId b) const {
    if ((*stored)[a] != (*stored)[b]) return (*stored)[a] < (*stored)[b];
    if (runs->depth[a] != runs->depth[b]) return runs->depth[a] > runs->depth[b];
    return a < b;
  }
};

class Fifo final : public LeafHeapPolicy<StoredBefore> {
 public:
  void attach(const PolicyContext& context) override {
    runs_ = &context.runs;
    stored_.emplace(runs_->capacity);
    last_number_ = std::max(kNumbersAtLeast, runs_->capacity + 1);
    order_by(*runs_, {runs_, &*stored_});
  }

  void on_stored(std::span<const RunId> stored, const RequestInfo& /*info*/) override {
    if (number_ >= last_number_) renumber();
    ++number_;
    for (const RunId r : stored) (*stored_)[r] = number_;
  }

  void on_split(RunId head, RunId tail) override { (*stored_)[head] = (*stored_)[tail]; }

  std::size_t bytes() const override { return heap_->bytes() + stored_->size() * sizeof(std::uint32_t); }

 private:
  // After 2^32 commits: keeps the order, makes the numbers small again. The heap does not change.
  void renumber() {
    std::vector<std::uint32_t> used(stored_->data(), stored_->data() + runs_->used);
    std::ranges::sort(used);
    used.erase(std::ranges::unique(used).begin(), used.end());
    for (RunId r = 0; r < runs_->used; ++r) {
      std::uint32_t& number = (*stored_)[r];
      number = static_cast<std::uint32_t>(std::ranges::lower_bound(used, number) - used.begin());
    }
    number_ = static_cast<std::uint32_t>(used.size());
  }

  const RunTable* runs_ = nullptr;
  std::uint32_t number_ = 0;
  std::uint32_t last_number_ = 0;
  std::optional<LazyArray<std::uint32_t>> stored_;
};

}  // namespace

BuiltinPolicy builtin::fifo() {
  return {{.name = "fifo", .summary = "first stored, first evicted", .reference = "textbook"}, make_plain<Fifo>};
}

}  // namespace kvopt
