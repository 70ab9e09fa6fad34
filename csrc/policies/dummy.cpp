// Dummy: evict any leaf. The smallest policy that keeps every duty of policy.hpp; a lower bar for comparisons and a
// start for a policy of your own.
//
// Reference: none.
// Structure: an unordered array of the possible victims; the last one goes first.
// Complexity: O(1) a run. 8 bytes a run, allocated in attach().
#include "policies/builtin.hpp"

namespace kvopt {

namespace {

class Dummy final : public Policy {
 public:
  void attach(const PolicyContext& context) override {
    runs_ = &context.runs;
    place_.emplace(runs_->capacity);
  }

  void on_referenced(std::span<const RunId> runs) override {
    for (const RunId r : runs) remove(r);
  }

  void on_evictable(std::span<const RunId> runs, const RequestInfo& /*info*/) override {
    for (const RunId r : runs) {
      if (runs_->children[r] == 0) on_uncovered(r);
    }
  }

  void on_dropped(std::span<const RunId> runs) override { on_referenced(runs); }

  void on_uncovered(RunId run) override {
    victims_.push_back(run);
    (*place_)[run] = static_cast<std::uint32_t>(victims_.size());
  }

  RunId choose(std::uint32_t /*wanted*/, Time /*now*/) override { return victims_.back(); }

  std::string verify() const override {
    for (RunId r = 0; r < runs_->used; ++r) {
      if (runs_->is_victim(r) != ((*place_)[r] != 0)) return "run " + std::to_string(r) + " is missing or too much";
    }
    return {};
  }

  std::size_t bytes() const override { return place_->size() * 2 * sizeof(RunId); }

 private:
  void remove(RunId r) {
    const std::uint32_t place = (*place_)[r];
    if (place == 0) return;
    victims_[place - 1] = victims_.back();
    (*place_)[victims_.back()] = place;
    victims_.pop_back();
    (*place_)[r] = 0;
  }

  const RunTable* runs_ = nullptr;
  std::vector<RunId> victims_;
  std::optional<LazyArray<std::uint32_t>> place_;  // index in victims_, plus one; 0: outside
};

}  // namespace

BuiltinPolicy builtin::dummy() {
  return {{.name = "dummy", .summary = "any leaf; a lower bar", .reference = "none"}, make_plain<Dummy>};
}

}  // namespace kvopt
