// Return probability: evict the leaf that is the least likely to be used again, by the hint that came with its
// conversation's last request, decayed by the time since.
//
//     p(t) = p * d / (p * d + 1 - p)      d = exp(-(t - last use) / interval)
//
// Reference: Yang et al., "Learned Prefix Caching for Efficient LLM Inference" (LPC), NeurIPS 2025. There a model of
// the prompts' text predicts p; here it comes as RequestInfo::return_probability, whoever predicts it, and `unknown`
// stands in where it is missing. As there, what several conversations share has the greatest of their probabilities; a
// conversation's new hint replaces its old one. Sessions that are unknown count as one. Structure: the log odds fall by
// the time over the interval for all alike, so logit(p) * interval + last use keeps its order: an indexed heap of
// leaves by (that, depth). Complexity: O(log leaves) an eviction of a run. 20 bytes a run, allocated in attach().
#include <algorithm>
#include <cmath>

#include "core/leaf_heap.hpp"
#include "policies/builtin.hpp"

namespace kvopt {

namespace {

struct LeastLikely {
  const RunTable* runs;
  const LazyArray<double>* key;

  bool operator()(RunId a, RunId b) const {
    if ((*key)[a] != (*key)[b]) return (*key)[a] < (*key)[b];
    if (runs->end(a) != runs->end(b)) return runs->end(a) > runs->end(b);
    return a < b;
  }
};

class ReturnProbability final : public LeafHeapPolicy<LeastLikely> {
 public:
  explicit ReturnProbability(std::span<const double> parameters) : interval_(parameters[0]), unknown_(parameters[1]) {}

  void attach(const PolicyContext& context) override {
    runs_ = &context.runs;
    key_.emplace(runs_->capacity);
    session_.emplace(runs_->capacity);
    order_by(*runs_, {runs_, &*key_});
  }

  void on_stored(std::span<const RunId> stored, const RequestInfo& info) override {
    for (const RunId r : stored) {
      (*key_)[r] = -kNever;
      (*session_)[r] = info.session;
    }
  }

  void on_split(RunId head, RunId tail) override {
    (*key_)[head] = (*key_)[tail];
    (*session_)[head] = (*session_)[tail];
  }

  void on_evictable(std::span<const RunId> runs, const RequestInfo& info) override {
    const double hint = info.return_probability;
    const double p = std::clamp(hint >= 0 ? hint : unknown_, kLeast, 1 - kLeast);
    const double key = std::log(p / (1 - p)) * interval_ + info.now;
    for (const RunId r : runs) {
      if (runs_->last_use[r] != info.now) continue;  // a lease that ends is no use
      if ((*session_)[r] != info.session && (*key_)[r] >= key) continue;
      (*key_)[r] = key;
      (*session_)[r] = info.session;
    }
    heap_->add(runs);
  }

  std::size_t bytes() const override {
    return heap_->bytes() + key_->size() * sizeof(double) + session_->size() * sizeof(std::int32_t);
  }

 private:
  static constexpr double kLeast = 1e-6;  // keeps the log odds finite

  const RunTable* runs_ = nullptr;
  double interval_;
  double unknown_;
  std::optional<LazyArray<double>> key_;
  std::optional<LazyArray<std::int32_t>> session_;  // whose hint it is
};

std::unique_ptr<Policy> make(std::span<const double> parameters) {
  return std::make_unique<ReturnProbability>(parameters);
}

}  // namespace

BuiltinPolicy builtin::lpc() {
  return {{.name = "lpc",
           .summary = "least likely to return, by a hint that decays with the idle time",
           .reference = "LPC, NeurIPS 2025",
           .needs = {"return_probability"},
           .parameters = {{"interval", 60, 0.001, 1e9, "seconds: the mean time between the turns of a conversation"},
                          {"unknown", 0.5, 0, 1, "the probability of a request that came without one"}}},
          make};
}

}  // namespace kvopt
