// Least recently used: evict what was let go of longest ago, of one request the deepest first.
//
// Reference: vLLM's free queue (vllm/v1/core/kv_cache_utils.py), which frees the tail of a request first. Same order
// here. Structure: one intrusive list of runs, oldest first. A request holds everything in front of its own blocks, so
// a run is always let go of after all that is behind it: the list is leaf first by itself, and no heap is needed.
// Complexity: O(1) a run. 8 bytes a run, allocated in attach().
#include "core/run_list.hpp"
#include "policies/builtin.hpp"

namespace kvopt {

namespace {

class Lru final : public Policy {
 public:
  void attach(const PolicyContext& context) override {
    runs_ = &context.runs;
    list_.emplace(runs_->capacity);
  }

  void on_split(RunId head, RunId tail) override {
    if (runs_->evictable(tail)) list_->insert_after(tail, head);
  }

  void on_referenced(std::span<const RunId> runs) override {
    for (const RunId r : runs) list_->remove(r);
  }

  void on_evictable(std::span<const RunId> runs, const RequestInfo& /*info*/) override {
    for (const RunId r : runs) list_->append(r);
  }

  void on_dropped(std::span<const RunId> runs) override { on_referenced(runs); }
  RunId choose(std::uint32_t /*wanted*/, Time /*now*/) override { return list_->front(); }
  std::string verify() const override { return list_->verify(*runs_); }
  std::size_t bytes() const override { return list_->bytes(); }

 private:
  const RunTable* runs_ = nullptr;
  std::optional<RunList> list_;
};

}  // namespace

BuiltinPolicy builtin::lru() {
  return {{.name = "lru", .summary = "least recently used, deepest first", .reference = "vLLM"}, make_plain<Lru>};
}

}  // namespace kvopt
