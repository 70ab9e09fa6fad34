// Least recently used, written outside the project: it evicts exactly what the built-in lru does.
//
//   c++ -std=c++20 -O2 -shared -fPIC -I"$(python -m kvopt.config --include-dir)" outside_lru.cpp -o outside_lru.so
//   kvopt compare --policy-library ./outside_lru.so --policy lru,outside-lru
#include <kvopt/plugin.hpp>
#include <optional>

namespace {

using kvopt::RunId;

// A ring of runs as they were let go of, with a sentinel between the newest and the oldest. A request holds everything
// in front of its own blocks and is told of the deepest first, so the oldest run is always a leaf.
class OutsideLru final : public kvopt::Policy {
 public:
  void attach(const kvopt::PolicyContext& context) override {
    runs_ = &context.runs;
    end_ = runs_->capacity;
    next_.emplace(end_ + std::size_t{1});
    previous_.emplace(end_ + std::size_t{1});
    (*next_)[end_] = (*previous_)[end_] = end_;
  }

  void on_evictable(std::span<const RunId> runs, const kvopt::RequestInfo& /*info*/) override {
    for (const RunId r : runs) insert_after((*previous_)[end_], r);
  }

  void on_referenced(std::span<const RunId> runs) override {
    for (const RunId r : runs) {
      (*next_)[(*previous_)[r]] = (*next_)[r];
      (*previous_)[(*next_)[r]] = (*previous_)[r];
    }
  }

  void on_split(RunId head, RunId tail) override {
    if (runs_->evictable(tail)) insert_after(tail, head);
  }

  void on_dropped(std::span<const RunId> runs) override { on_referenced(runs); }
  RunId choose(std::uint32_t /*wanted*/, kvopt::Time /*now*/) override { return (*next_)[end_]; }

 private:
  void insert_after(RunId place, RunId r) {
    (*next_)[r] = (*next_)[place];
    (*previous_)[r] = place;
    (*previous_)[(*next_)[place]] = r;
    (*next_)[place] = r;
  }

  const kvopt::RunTable* runs_ = nullptr;
  RunId end_ = 0;
  std::optional<kvopt::LazyArray<RunId>> next_;
  std::optional<kvopt::LazyArray<RunId>> previous_;
};

}  // namespace

KVOPT_POLICY_PLUGIN(kvopt::plugin_policy<OutsideLru>(
    {.name = "outside-lru", .summary = "least recently used, compiled outside", .reference = "an example"}))
