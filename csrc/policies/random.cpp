// Random: evict a leaf, each with the same chance.
//
// Reference: textbook; on trees the random leaf is the classic escape from LRU's worst case (Fiat et al., Journal of
// Algorithms 1991, for paging). Under the prefix rule a run of any length is one leaf. Structure: an array of the
// leaves. Complexity: O(1) a run. 8 bytes a run, allocated in attach().
#include "core/random.hpp"
#include "core/leaf_array.hpp"
#include "policies/builtin.hpp"
#include "policies/seed.hpp"

namespace kvopt {

namespace {

class RandomLeaf final : public LeafArrayPolicy {
 public:
  explicit RandomLeaf(std::uint64_t seed) : random_(seed) {}

  void attach(const PolicyContext& context) override { sample_from(context.runs); }
  RunId choose(std::uint32_t /*wanted*/, Time /*now*/) override { return (*leaves_)[random_.below(leaves_->size())]; }

 private:
  Random random_;
};

}  // namespace

BuiltinPolicy builtin::random() {
  return {
      {.name = "random",
       .summary = "any leaf, with even odds",
       .reference = "textbook",
       .parameters = {seed_parameter()}},
      [](std::span<const double> p) -> std::unique_ptr<Policy> { return std::make_unique<RandomLeaf>(seed_of(p[0])); }};
}

}  // namespace kvopt
