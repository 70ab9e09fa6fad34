// When content comes back: return-time curves by class of request, learned online, and the retention index that
// follows.
//
// An observation is a request's release, not a block: it returned at some age, or was lost from sight at some age, or
// still waits (both censored). What waits is counted all the time, at about its age, so the estimate never looks at
// returns alone. An event weighs as much as its release is recent, in each of the three states alike. Classes form a
// tree of four levels under one root; a thin class borrows its parent's hazard at each age (shrinkage), the root that
// of a prior that is uniform in log time, under which the index falls like 1/age and the order is LRU's. Ages are
// counted in units of the time that the session usually takes, so that slow and fast sessions share a curve.
//
// Index of a class at age a:  G(a) = max over s > 0 of  (returns in (a, a + s]) / (time at risk in (a, a + s])
// times 0.99 a bin, so that a tie goes to the oldest: the Gittins index of its return hazard; with s → ∞ it is the hit
// density of LHD (Beckmann et al., NSDI 2018). Complexity: O(1) an observation, in the class itself; a class is
// refreshed in O(bins), when it tells its parent what is new; classes that only others draw on have no index. A few
// classes a request, so nothing stalls.
#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <cstdint>
#include <vector>

#include "core/learned_state.hpp"

namespace kvopt {

class ReuseModel {
 public:
  static constexpr std::size_t kBins = 32;  // two an octave of age, from 1/16 to 2^11 units
  static constexpr std::uint32_t kRoot = 0;
  static constexpr std::size_t kLevels = 4;
  static constexpr std::uint8_t kMostValues = 8;  // of each level's feature

  struct Options {
    bool bounded_horizon = true;  // maximum over s; else s → ∞
    float shrinkage = 15;         // events at risk that a parent counts for, in each bin
    float forgetting = 0.97F;     // what is kept of the past every kEpoch requests
  };

  // One event that is counted as waiting.
  struct Waiting {
    std::uint32_t epoch = 0;
    std::uint16_t cls = 0;
    std::uint8_t bin = 0;
  };

  explicit ReuseModel(const Options& options);

  // The class of these features, each below kMostValues; coarsest first. Creates it when there is room, else gives its
  // parent.
  std::uint32_t class_of(const std::array<std::uint8_t, kLevels>& features) {
    std::size_t place = 0;
    for (const std::uint8_t value : features) place = place * kMostValues + value;
    if (leaves_[place] == kRoot) leaves_[place] = static_cast<std::uint16_t>(find_class(features));
    return leaves_[place];
  }

  // The features of a class, coarsest first; fewer than kLevels where there was no room for it.
  std::vector<std::uint8_t> features_of(std::uint32_t cls) const;

  // An event of this class begins to wait.
  Waiting open(std::uint32_t cls, float part) {
    current(cls).ends[0] += part;
    Class& opened = classes_[cls];
    opened.news += part;
    if (!opened.ranked) begin_ranking(cls);
    if (is_due(opened)) refresh(cls);
    return {epoch_, static_cast<std::uint16_t>(cls), 0};
  }
  // It has reached this age (in units); `part` of it waits.
  void grow(Waiting& event, float age, float part) {
    const auto bin = static_cast<std::uint8_t>(bin_of(age));
    if (bin == event.bin) return;
    Counts& counts = current(event.cls);
    const float weight = part * kept(event);
    counts.ends[event.bin] -= weight;
    counts.ends[bin] += weight;
    event.bin = bin;
  }
  // `part` of it returned, or was lost from sight, at this age; or does not count at all.
  void close(const Waiting& event, float age, float part, bool returned) {
    Counts& counts = current(event.cls);
    const float weight = part * kept(event);
    counts.ends[event.bin] -= weight;
    classes_[event.cls].news += weight;
    returns_ += returned ? part : 0;
    (returned ? counts.returned : counts.ends)[bin_of(age)] += weight;
  }
  void withdraw(const Waiting& event, float part) { current(event.cls).ends[event.bin] -= part * kept(event); }

  // Counts a request: the past is forgotten, and the classes that are due are refreshed.
  void end_request();

  // Of a class of which an event was opened. Between the lower edges of two bins it is in proportion. Of many at once,
  // in loops that become vector instructions.
  template <std::size_t Count>
  std::array<float, Count> index(const std::array<std::uint32_t, Count>& cls,
                                 const std::array<float, Count>& age) const {
    constexpr auto kLast = static_cast<std::int32_t>(kBins) - 1;
    std::array<std::uint32_t, Count> here{};
    std::array<float, Count> past{};
    for (std::size_t i = 0; i < Count; ++i) {
      const auto bits = std::bit_cast<std::int32_t>(age[i]);
      const std::int32_t bin = (bits >> kShift) - kFirst;
      here[i] = cls[i] * kBins + static_cast<std::uint32_t>(std::min(std::max(bin, 0), kLast));
      past[i] = static_cast<float>(bits & ((1 << kShift) - 1)) * (1.0F / (1U << kShift));
    }
    const Stretch* stretches = curves_.data()->data();
    std::array<float, Count> index{};
    std::array<float, Count> rise{};
    for (std::size_t i = 0; i < Count; ++i) {
      index[i] = stretches[here[i]].index;
      rise[i] = stretches[here[i]].rise;
    }
    for (std::size_t i = 0; i < Count; ++i) index[i] += rise[i] * past[i];
    return index;
  }
  float index(std::uint32_t cls, float age) const { return index(std::array{cls}, std::array{age}).front(); }
  // At the lower edge of each bin.
  std::array<float, kBins> indexes(std::uint32_t cls) const { return indexes_of(counts_[cls].hazard); }
  // How many events have returned in all.
  double returns() const { return returns_; }
  std::uint32_t requests() const { return requests_; }  // that were counted
  std::size_t classes() const { return classes_.size(); }

  // All that it knows; what waits at that time is lost from sight for whoever goes on from it. load() throws
  // PolicyStateError where the bytes contradict themselves.
  void save(StateWriter& out) const;
  void load(StateReader& in);

  // Bins are the leading bits of the age as a float: exact, and a shift instead of a logarithm.
  static std::size_t bin_of(float age) {
    const auto bits = static_cast<std::int32_t>(std::bit_cast<std::uint32_t>(age) >> kShift) - kFirst;
    return bits < 0 ? 0 : std::min(static_cast<std::size_t>(bits), kBins - 1);
  }
  static constexpr float lower_edge(std::size_t bin) {
    return bin == 0
               ? 0
               : std::bit_cast<float>(static_cast<std::uint32_t>(static_cast<std::int32_t>(bin) + kFirst) << kShift);
  }

 private:
  static constexpr std::uint32_t kShift = 22;  // sign, exponent and one bit of the mantissa stay
  static constexpr std::int32_t kFirst =
      static_cast<std::int32_t>(std::bit_cast<std::uint32_t>(1.0F / 16) >> kShift) - 1;
  static constexpr std::size_t kMostClasses = 768;
  static constexpr std::size_t kLeaves = std::size_t{kMostValues} * kMostValues * kMostValues * kMostValues;
  static constexpr std::uint32_t kEpoch = 300;
  static constexpr std::size_t kEpochsKept = 512;
  static constexpr float kNews = 0.07F;  // of what a class knows: then it is refreshed

  using Bins = std::array<float, kBins>;
  struct Class {
    std::uint32_t parent = kRoot;
    std::uint32_t epoch = 0;
    float news = 0;       // weight that came since the last refresh
    float total = 0;      // weight, with what is borrowed
    bool ranked = false;  // an event of it was opened: its curve is up to date
  };
  struct alignas(64) Counts {  // of a class, by age
    Bins returned{}, ends{};   // what returned, what was lost or waits; with the classes below, as they have told
    Bins told_returned{}, told_ends{};  // of that, what the parent knows
    Bins hazard{};
  };
  struct Stretch {  // of the index: a bin
    float index;    // at its lower edge
    float rise;     // to the lower edge of the next; none in the first and the last, which have no such edge
  };

  // In the order of a saved state; a class's indexes follow.
  template <class C>
  static auto bins_of(C& counts) {
    return std::array{&counts.returned, &counts.ends, &counts.told_returned, &counts.told_ends, &counts.hazard};
  }

  Counts& current(std::uint32_t cls) {
    if (classes_[cls].epoch != epoch_) forget(cls);
    return counts_[cls];
  }
  float kept(const Waiting& event) const { return kept_[std::min<std::size_t>(epoch_ - event.epoch, kEpochsKept - 1)]; }
  static bool is_due(const Class& known) { return known.news > kNews * known.total; }
  std::uint32_t find_class(const std::array<std::uint8_t, kLevels>& features);
  void add_class(std::uint32_t parent);
  void forget(std::uint32_t cls);
  void refresh(std::uint32_t cls);
  void tell(std::uint32_t cls);
  void rebuild(std::uint32_t cls);
  void begin_ranking(std::uint32_t cls);
  void rank(std::uint32_t cls);
  Bins indexes_of(const Bins& hazard) const;

  Options options_;
  std::vector<float> kept_;     // after so many epochs
  std::vector<Class> classes_;  // and of each:
  std::vector<Counts> counts_;
  std::vector<std::array<Stretch, kBins>> curves_;  // all that a victim's choice looks at
  std::vector<std::uint32_t> children_;             // class of (parent, value), or the root
  std::vector<std::uint16_t> leaves_;               // class of all features, or the root
  double returns_ = 0;
  std::uint32_t requests_ = 0;
  std::uint32_t epoch_ = 0;
  std::size_t next_ = 0;
};

}  // namespace kvopt
