// Least hit density: evict the leaf that, for its class and age, promises the fewest hits for the time that it will
// still take, of a random sample and the newest that look bad.
//
// Reference: Beckmann, Chen and Cidon, "LHD: Improving Cache Hit Rate by Maximizing Hit Density", NSDI 2018. The class
// is the logarithm of the last two ages at a hit; densities are learned from decaying counts of hits and evictions by
// class and age. As in libCacheSim they start at (17 + class) / (1 + age), and until they were learned 50 times,
// victims come from 8 samples, and a few blocks are explorers, which stay until they are old. Ages are counted in
// references to blocks, in steps that suit the capacity; libCacheSim adapts the steps while it runs. Under the prefix
// rule a run counts as its blocks in what is learned. Structure: an array of the leaves, what each run went through,
// and a table of densities. Complexity: O(samples) an eviction, O(1) a hit, a pass over the table every 2^k references.
// 24 bytes a run and 3.7 MiB, allocated in attach().
#include <algorithm>
#include <array>
#include <limits>

#include "core/leaf_array.hpp"
#include "core/random.hpp"
#include "policies/builtin.hpp"
#include "policies/seed.hpp"

namespace kvopt {

namespace {

constexpr std::uint32_t kAges = 20'000;
constexpr std::uint32_t kClasses = 16;

// Until densities were learned this often, few samples are drawn and explorers sent, to learn sooner.
constexpr std::uint32_t kWarmUps = 50;
constexpr std::uint32_t kWarmUpSamples = 8;

// Hits to come per time to come, by class and age. What reaches the last age is worth less than anything else.
class HitDensities {
 public:
  HitDensities() : density_(kCells), events_(kCells) {
    for (std::uint32_t c = 0; c < kClasses; ++c) {
      for (std::uint32_t age = 0; age < kAges; ++age) density_[at(c, age)] = (kClasses + c + 1.F) / (age + 1.F);
      density_[at(c, kAges - 1)] = kLowest;
    }
  }

  float density(std::uint32_t c, std::uint32_t age) const { return density_[at(c, age)]; }
  void add_hits(std::uint32_t c, std::uint32_t age, std::uint32_t blocks) { events_[at(c, age)].hits += blocks; }
  void add_evictions(std::uint32_t c, std::uint32_t age, std::uint32_t blocks) {
    events_[at(c, age)].evictions += blocks;
  }

  // One pass from the oldest age down: the sums of what happens later, and the sum of those sums, which is the time.
  void learn(float decay) {
    for (std::uint32_t c = 0; c < kClasses; ++c) {
      float hits = 0;
      float all = 0;
      float time = 0;
      for (std::uint32_t age = kAges; age-- > 0;) {
        Events& events = events_[at(c, age)];
        events.hits *= decay;
        events.evictions *= decay;
        hits += events.hits;
        all += events.hits + events.evictions;
        time += all;
        density_[at(c, age)] = all > 1e-5F ? hits / time : 0;
      }
      density_[at(c, kAges - 1)] = kLowest;
    }
  }

  std::size_t bytes() const { return density_.size() * sizeof(float) + events_.size() * sizeof(Events); }

 private:
  struct Events {
    float hits;
    float evictions;
  };
  static constexpr std::size_t kCells = std::size_t{kClasses} * kAges;
  static constexpr float kLowest = std::numeric_limits<float>::lowest();

  static std::size_t at(std::uint32_t c, std::uint32_t age) { return std::size_t{c} * kAges + age; }

  LazyArray<float> density_;
  LazyArray<Events> events_;
};

class Lhd final : public LeafArrayPolicy {
 public:
  Lhd(std::uint32_t samples, std::uint32_t interval, double decay, bool cost, std::uint64_t seed)
      : samples_(samples),
        interval_(std::uint64_t{1} << interval),
        decay_(static_cast<float>(decay)),
        cost_(cost),
        random_(seed) {}

  void attach(const PolicyContext& context) override {
    context_.emplace(context);
    runs_ = &context.runs;
    sample_from(*runs_);
    past_.emplace(runs_->capacity);
    densities_.emplace();
    explorers_left_ = most_explorers();
    // A block lives for some capacities; ages of a hundredth of one are exact enough, and leave room for 200.
    while ((std::uint64_t{kAges} << age_shift_) < std::uint64_t{runs_->capacity} * 100) ++age_shift_;
    newest_.fill(kNoRun);
  }

  void on_hit(std::span<const RunId> hit, const RequestInfo& /*info*/) override {
    for (const RunId r : hit) {
      Past& past = (*past_)[r];
      const std::uint32_t age = age_of(past);
      densities_->add_hits(past.hit_class, age, runs_->length[r]);
      past.hit_class = hit_class(age + past.hit_age);
      past.hit_age = static_cast<std::uint16_t>(age);
      refer(r);
    }
  }

  void on_stored(std::span<const RunId> stored, const RequestInfo& /*info*/) override {
    for (const RunId r : stored) {
      Past& past = (*past_)[r];
      past = {};
      refer(r);
      if (!past.explorer && density(r) < victim_density_) newest_[next_newest_++ % newest_.size()] = r;
    }
  }

  void on_split(RunId head, RunId tail) override {
    (*past_)[head] = (*past_)[tail];
    (*past_)[head].explorer = false;
  }

  void on_dropped(std::span<const RunId> runs) override {
    leaves_->remove(runs);
    for (const RunId r : runs) end_exploring((*past_)[r]);
  }

  void on_forgotten(RunId run) override { end_exploring((*past_)[run]); }

  void on_evicted(RunId run, std::uint64_t /*key*/, std::uint32_t blocks) override {
    const Past& past = (*past_)[run];
    densities_->add_evictions(past.hit_class, age_of(past), blocks);
  }

  RunId choose(std::uint32_t /*wanted*/, Time /*now*/) override {
    RunId victim = kNoRun;
    float least = std::numeric_limits<float>::infinity();
    const auto consider = [&](RunId r) {
      const float d = density(r);
      if (d < least) {
        least = d;
        victim = r;
      }
    };
    const std::uint32_t samples = learned_ < kWarmUps ? std::min(samples_, kWarmUpSamples) : samples_;
    for (std::uint32_t i = 0; i < samples; ++i) consider((*leaves_)[random_.below(leaves_->size())]);
    for (const RunId r : newest_) {
      if (r != kNoRun && runs_->is_victim(r)) consider(r);
    }
    victim_density_ = decay_ * victim_density_ + (1 - decay_) * std::max(least, 0.F);
    return victim;
  }

  std::string verify() const override {
    std::uint32_t explorers = explorers_left_;
    for (RunId r = 0; r < runs_->capacity; ++r) explorers += runs_->hittable(r) && (*past_)[r].explorer ? 1 : 0;
    return explorers == most_explorers() ? leaves_->verify() : "the explorers are miscounted";
  }

  std::size_t bytes() const override { return leaves_->bytes() + past_->size() * sizeof(Past) + densities_->bytes(); }

 private:
  struct Past {
    std::uint64_t last;         // when it was referenced
    std::uint16_t hit_age = 0;  // its age at the last hit
    std::uint8_t hit_class = 0;
    bool explorer = false;
  };

  std::uint32_t age_of(const Past& past) const {
    return static_cast<std::uint32_t>(std::min<std::uint64_t>((clock_ - past.last) >> age_shift_, kAges - 1));
  }

  // The younger the hits, the higher the class. What was never hit is in the lowest.
  static std::uint8_t hit_class(std::uint32_t ages) {
    std::uint8_t c = 0;
    while (c + 1U < kClasses && (std::uint64_t{ages} << c) < kAges) ++c;
    return c;
  }

  float density(RunId r) const {
    const Past& past = (*past_)[r];
    float d = densities_->density(past.hit_class, age_of(past));
    if (cost_) d *= static_cast<float>(context_->block_cost(runs_->depth[r] + (runs_->length[r] - 1) / 2.0));
    return past.explorer ? d + 1 : d;
  }

  void refer(RunId r) {
    Past& past = (*past_)[r];
    past.last = clock_;
    end_exploring(past);
    if (learned_ < kWarmUps && explorers_left_ > 0 && random_.below(32) == 0) {
      past.explorer = true;
      --explorers_left_;
    }
    clock_ += runs_->length[r];
    if (clock_ - learned_at_ < interval_) return;
    densities_->learn(decay_);
    learned_at_ = clock_;
    ++learned_;
  }

  std::uint32_t most_explorers() const { return runs_->capacity / 100; }

  void end_exploring(Past& past) {
    explorers_left_ += past.explorer ? 1 : 0;
    past.explorer = false;
  }

  std::uint32_t samples_;
  std::uint64_t interval_;
  float decay_;
  bool cost_;
  Random random_;
  std::optional<PolicyContext> context_;
  const RunTable* runs_ = nullptr;
  std::uint64_t clock_ = 0;  // blocks referenced
  std::uint64_t learned_at_ = 0;
  std::uint32_t learned_ = 0;  // times
  std::uint32_t age_shift_ = 0;
  std::uint32_t explorers_left_ = 0;
  float victim_density_ = 0;
  std::array<RunId, 8> newest_{};
  std::uint32_t next_newest_ = 0;
  std::optional<LazyArray<Past>> past_;
  std::optional<HitDensities> densities_;
};

}  // namespace

BuiltinPolicy builtin::lhd() {
  return {{.name = "lhd",
           .summary = "least hits to come for the time to come, by class and age, of a random sample",
           .reference = "Beckmann et al., NSDI 2018",
           .parameters = {{"sample", 32, 1, 1024, "leaves looked at for each victim, once the densities are learned"},
                          {"interval", 20, 8, 40, "k: the densities are learned anew every 2^k references"},
                          {"decay", 0.9, 0, 1, "what is left of the counts each time"},
                          {"cost", 0, 0, 1, "1: weigh hits with the prefill time of a block at its depth"},
                          seed_parameter()}},
          [](std::span<const double> p) -> std::unique_ptr<Policy> {
            return std::make_unique<Lhd>(static_cast<std::uint32_t>(p[0]), static_cast<std::uint32_t>(p[1]), p[2],
                                         p[3] >= 0.5, seed_of(p[4]));
          }};
}

}  // namespace kvopt
