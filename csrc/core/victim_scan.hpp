// The possible victims, and those of the least value, found by scanning values that change with time.
//
// The value of a leaf is index(class, age / scale) × weight, so it moves without any event; queues and heaps cannot
// hold it. Leaves are few (one a chain, not one a block) and lie side by side, so a scan costs about two nanoseconds
// each. A scan keeps the lowest sixteenth, which serves the next victims: the cost of a scan is constant a victim. A
// kept one is looked at again before it is named, a new leaf of low value joins, and when time has moved on, the next
// victim scans afresh. With few leaves every victim is the least of all.
#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "core/reuse_model.hpp"
#include "kvopt/run_table.hpp"

namespace kvopt {

class VictimScan {
 public:
  VictimScan(const RunTable& runs, const ReuseModel& model) : runs_(runs), model_(model), place_(runs.capacity) {
    leaves_.reserve(runs.capacity);  // takes memory only as it is used
    kept_.reserve(std::size_t{runs.capacity} + 1);
  }

  struct Leaf {
    Time released;
    float pace;    // units of age a second
    float weight;  // value of a block-second at index 1
    float favour;  // by retention priority; 1 by default
    std::uint32_t cls;
    RunId run;
  };

  bool contains(RunId r) const { return place_[r] != 0; }
  std::size_t size() const { return leaves_.size(); }

  void add(const Leaf& leaf) {
    leaves_.push_back(leaf);
    place_[leaf.run] = static_cast<std::uint32_t>(leaves_.size());
    if (!kept_.empty()) join(leaf.run, value(leaf, leaf.released >= scanned_ ? leaf.released : scanned_));
  }

  void remove(RunId r) {
    const std::uint32_t place = place_[r];
    if (place == 0) return;
    place_[r] = 0;
    leaves_[place - 1] = leaves_.back();
    leaves_.pop_back();
    if (place <= leaves_.size()) place_[leaves_[place - 1].run] = place;
  }

  void set_weight(RunId r, float weight, float favour) {
    leaves_[place_[r] - 1].weight = weight;
    leaves_[place_[r] - 1].favour = favour;
  }

  void set_class(RunId r, std::uint32_t cls) {
    leaves_[place_[r] - 1].cls = cls;
    if (!kept_.empty()) join(r, value(leaves_[place_[r] - 1], scanned_));
  }

  // By time alone, the oldest first, but for retention priorities: LRU.
  void order_by_time(bool on) {
    if (on == by_time_) return;
    by_time_ = on;
    kept_.clear();
  }

  // What a leaf would be worth, whether it is one or not.
  double value(const Leaf& leaf, Time now) const {
    if (by_time_) return leaf.favour / (now - leaf.released + kMoment);
    return model_.index(leaf.cls, static_cast<float>(now - leaf.released) * leaf.pace) * leaf.weight;
  }

  // A leaf of the least value; there must be one. It stays.
  RunId least(Time now) {
    if (leaves_.size() <= kScanAlways) return scan_all(now);
    while (now < stale_ && !kept_.empty()) {
      const Kept top = kept_.back();
      kept_.pop_back();
      if (place_[top.run] == 0) continue;
      const double current = value(top.run, now);
      if (current > highest_kept_) continue;
      kept_.push_back({current, top.run});
      return top.run;
    }
    scan(now);
    return kept_.back().run;
  }

  std::string verify() const {
    std::size_t leaves = 0;
    for (RunId r = 0; r < runs_.used; ++r) {
      leaves += runs_.is_victim(r) ? 1 : 0;
      if (runs_.is_victim(r) != contains(r))
        return "run " + std::to_string(r) + " is missing among the leaves, or too much";
    }
    return leaves == leaves_.size() ? std::string() : "the leaves are miscounted";
  }

  std::size_t bytes() const { return place_.size() * (sizeof(std::uint32_t) + sizeof(Leaf) + sizeof(Kept)); }

 private:
  static constexpr std::size_t kScanAlways = 64;
  static constexpr std::size_t kKeep = 16;    // one in so many leaves is kept
  static constexpr double kMoment = 1e-3;     // seconds
  static constexpr double kFreshFor = 0.125;  // of the age of the least

  struct Kept {
    double value;
    RunId run;
  };

  double value(RunId r, Time now) const { return value(leaves_[place_[r] - 1], now); }

  RunId scan_all(Time now) const {
    const Leaf* best = &leaves_.front();
    double least = value(*best, now);
    for (const Leaf& leaf : leaves_) {
      const double v = value(leaf, now);
      if (v < least || (v == least && (leaf.released < best->released ||
                                       (leaf.released == best->released && leaf.run < best->run)))) {
        least = v;
        best = &leaf;
      }
    }
    return best->run;
  }

  void scan(Time now) {
    kept_.clear();
    for (const Leaf& leaf : leaves_) kept_.push_back({value(leaf, now), leaf.run});
    const auto before = [this](const Kept& a, const Kept& b) {  // the least last
      if (a.value != b.value) return a.value > b.value;
      const Time ta = leaves_[place_[a.run] - 1].released;
      const Time tb = leaves_[place_[b.run] - 1].released;
      return ta != tb ? ta > tb : a.run > b.run;
    };
    const std::size_t keep = kept_.size() / kKeep + 1;
    const auto cut = kept_.end() - static_cast<std::ptrdiff_t>(keep);
    std::ranges::nth_element(kept_, cut, std::greater<>(), &Kept::value);
    kept_.erase(kept_.begin(), cut);
    std::ranges::sort(kept_, before);
    highest_kept_ = kept_.front().value;
    scanned_ = now;
    stale_ = now + kFreshFor * (now - leaves_[place_[kept_.back().run] - 1].released) + 1e-9;
  }

  void join(RunId r, double v) {
    if (v >= highest_kept_) return;
    if (kept_.size() == kept_.capacity()) {
      kept_.clear();
      return;
    }
    const auto at = std::ranges::lower_bound(kept_, v, std::greater<>(), &Kept::value);
    kept_.insert(at, {v, r});
  }

  const RunTable& runs_;
  const ReuseModel& model_;
  std::vector<Leaf> leaves_;
  std::vector<Kept> kept_;
  LazyArray<std::uint32_t> place_;  // index in leaves_, plus one; 0: outside
  double highest_kept_ = 0;
  bool by_time_ = false;
  Time scanned_ = 0;
  Time stale_ = 0;
};

}  // namespace kvopt
