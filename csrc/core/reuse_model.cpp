#include "core/reuse_model.hpp"

#include <algorithm>
#include <cmath>
#include <utility>

namespace kvopt {

namespace {

constexpr float kPriorReturns = 0.3F;  // the root's, per event that waits, a bin: uniform in log time
constexpr float kMostBorrowed = 2;     // returns a bin
constexpr float kLeast = 1e-20F;       // no division by nothing
constexpr std::uint32_t kTurn = 8;     // requests: then another class has its turn without news
// Seconds of each bin, in units.
constexpr auto kWidths = [] {
  std::array<float, ReuseModel::kBins> widths{};
  for (std::size_t b = 0; b < ReuseModel::kBins; ++b) {
    widths[b] = ReuseModel::lower_edge(b + 1 < ReuseModel::kBins ? b + 1 : b) -
                (b + 1 < ReuseModel::kBins ? ReuseModel::lower_edge(b) : 0);
  }
  return widths;
}();

constexpr auto kRootPrior = [] {
  std::array<float, ReuseModel::kBins> hazard{};
  for (std::size_t b = 0; b < ReuseModel::kBins; ++b) hazard[b] = kPriorReturns / kWidths[b];
  return hazard;
}();

// What says nothing of age leans to LRU: the index falls by one per cent a bin.
constexpr auto kLean = [] {
  std::array<float, ReuseModel::kBins> lean{};
  float x = 1;
  for (std::size_t b = 0; b < ReuseModel::kBins; ++b, x *= 0.99F) lean[b] = x;
  return lean;
}();

float at_least_zero(float x) { return x > 0 ? x : 0; }

// Each bin with its neighbours, as 1 4 6 4 1: the maximum over s would pick their noise. The ends stand for what is
// beyond them.
std::array<float, ReuseModel::kBins> smooth(const std::array<float, ReuseModel::kBins>& bins) {
  constexpr std::size_t n = ReuseModel::kBins;
  std::array<float, n + 4> wide{};
  for (std::size_t b = 0; b < n; ++b) wide[b + 2] = at_least_zero(bins[b]);
  wide[0] = wide[1] = wide[2];
  wide[n + 2] = wide[n + 3] = wide[n + 1];
  std::array<float, n> smoothed{};
  for (std::size_t b = 0; b < n; ++b) {
    smoothed[b] = (wide[b] + wide[b + 4] + 4 * (wide[b + 1] + wide[b + 3]) + 6 * wide[b + 2]) / 16;
  }
  return smoothed;
}

}  // namespace

ReuseModel::ReuseModel(const Options& options) : options_(options), kept_(kEpochsKept) {
  for (std::size_t k = 0; k < kEpochsKept; ++k) kept_[k] = std::pow(options.forgetting, static_cast<float>(k));
  classes_.reserve(kMostClasses);
  counts_.reserve(kMostClasses);
  curves_.reserve(kMostClasses);
  children_.assign(kMostClasses * kMostValues, kRoot);
  leaves_.assign(kLeaves, kRoot);
  add_class(kRoot);
}

void ReuseModel::add_class(std::uint32_t parent) {
  classes_.push_back({.parent = parent, .epoch = epoch_});
  counts_.emplace_back();
  curves_.emplace_back();
  rebuild(static_cast<std::uint32_t>(classes_.size()) - 1);
}

std::uint32_t ReuseModel::find_class(const std::array<std::uint8_t, kLevels>& features) {
  std::uint32_t cls = kRoot;
  for (const std::uint8_t value : features) {
    std::uint32_t& child = children_[std::size_t{cls} * kMostValues + value];
    if (child == kRoot) {
      if (classes_.size() == kMostClasses) return cls;
      child = static_cast<std::uint32_t>(classes_.size());
      add_class(cls);
    }
    cls = child;
  }
  return cls;
}

std::vector<std::uint8_t> ReuseModel::features_of(std::uint32_t cls) const {
  std::vector<std::uint8_t> features;
  for (std::uint32_t c = cls; c != kRoot; c = classes_[c].parent) {
    const std::size_t first = std::size_t{classes_[c].parent} * kMostValues;
    std::uint8_t value = 0;
    while (children_[first + value] != c) ++value;
    features.push_back(value);
  }
  std::ranges::reverse(features);
  return features;
}

void ReuseModel::end_request() {
  if (++requests_ % kEpoch == 0) ++epoch_;
  if (requests_ % kTurn != 0) return;
  next_ = next_ + 1 < classes_.size() ? next_ + 1 : 0;
  refresh(static_cast<std::uint32_t>(next_));
}

void ReuseModel::save(StateWriter& out) const {
  out.put(returns_);
  out.put(requests_);
  out.put(epoch_);
  out.put(static_cast<std::uint32_t>(next_));
  out.put(static_cast<std::uint32_t>(classes_.size()));
  for (std::uint32_t cls = 0; cls < classes_.size(); ++cls) {
    const Class& saved = classes_[cls];
    out.put(saved.parent);
    out.put(saved.epoch);
    out.put(saved.news);
    out.put(saved.total);
    for (const Bins* bins : bins_of(counts_[cls])) out.put(std::span<const float>(*bins));
    out.put(std::span<const float>(indexes(cls)));
  }
  out.put(std::span<const std::uint32_t>(children_.data(), classes_.size() * kMostValues));
}

void ReuseModel::load(StateReader& in) {
  ReuseModel loaded(options_);
  loaded.returns_ = in.get<double>();
  loaded.requests_ = in.get<std::uint32_t>();
  loaded.epoch_ = in.get<std::uint32_t>();
  loaded.next_ = in.get<std::uint32_t>();
  const auto classes = in.get<std::uint32_t>();
  StateReader::require(classes >= 1 && classes <= kMostClasses && loaded.next_ < classes, "too many classes");
  loaded.classes_.resize(classes);
  loaded.counts_.resize(classes);
  loaded.curves_.resize(classes);
  for (std::size_t cls = 0; cls < classes; ++cls) {
    Class& read = loaded.classes_[cls];
    read.parent = in.get<std::uint32_t>();
    read.epoch = in.get<std::uint32_t>();
    StateReader::require(read.parent == kRoot || read.parent < cls, "a class is no tree's");
    StateReader::require(read.epoch <= loaded.epoch_, "a class is ahead of time");
    read.news = in.get<float>();
    read.total = in.get<float>();
    for (Bins* bins : bins_of(loaded.counts_[cls])) in.get(std::span<float>(*bins));
    Bins indexes{};  // follow from the hazard
    in.get(std::span<float>(indexes));
  }
  const std::span<std::uint32_t> children(loaded.children_.data(), std::size_t{classes} * kMostValues);
  in.get(children);
  for (std::size_t i = 0; i < children.size(); ++i) {
    const std::uint32_t child = children[i];
    StateReader::require(child < classes && (child == 0 || loaded.classes_[child].parent == i / kMostValues),
                         "a class is not its parent's");
  }
  *this = std::move(loaded);
}

// The parents tell theirs first, as far as they have news themselves; then all draw on what they now know.
void ReuseModel::refresh(std::uint32_t cls) {
  std::array<std::uint32_t, kLevels + 1> path{};
  std::size_t length = 0;
  for (std::uint32_t c = cls;; c = classes_[c].parent) {
    path[length++] = c;
    current(c);
    tell(c);
    if (c == kRoot || !is_due(classes_[classes_[c].parent])) break;
  }
  while (length-- > 0) rebuild(path[length]);
}

void ReuseModel::forget(std::uint32_t cls) {
  Counts& counts = counts_[cls];
  const float kept = kept_[std::min<std::size_t>(epoch_ - classes_[cls].epoch, kEpochsKept - 1)];
  for (Bins* bins : {&counts.returned, &counts.ends, &counts.told_returned, &counts.told_ends}) {
    for (float& x : *bins) x *= kept;
  }
  classes_[cls].epoch = epoch_;
}

// Gives the parent what is new since the last time.
void ReuseModel::tell(std::uint32_t cls) {
  const float news = std::exchange(classes_[cls].news, 0.0F);
  if (cls == kRoot) return;
  Counts& counts = counts_[cls];
  Counts& parent = current(classes_[cls].parent);
  classes_[classes_[cls].parent].news += news;
  for (std::size_t b = 0; b < kBins; ++b) {
    parent.returned[b] += counts.returned[b] - counts.told_returned[b];
    parent.ends[b] += counts.ends[b] - counts.told_ends[b];
  }
  counts.told_returned = counts.returned;
  counts.told_ends = counts.ends;
}

// The hazard of each bin, with what the parent's is worth: a Gamma prior on a Poisson rate.
void ReuseModel::rebuild(std::uint32_t cls) {
  Counts& counts = counts_[cls];
  const Bins& prior = cls == kRoot ? kRootPrior : counts_[classes_[cls].parent].hazard;
  const float shrinkage = options_.shrinkage;
  const Bins returned = smooth(counts.returned);
  Bins here{};
  for (std::size_t b = 0; b < kBins; ++b) {
    here[b] = at_least_zero(counts.returned[b]) + at_least_zero(counts.ends[b]);  // taking away leaves a trace
  }
  Bins at_risk{};  // time
  float waiting = 0;
  for (std::size_t b = kBins; b-- > 0; waiting += here[b]) at_risk[b] = waiting;
  for (std::size_t b = 0; b < kBins; ++b) at_risk[b] = (at_risk[b] + here[b] / 2) * kWidths[b];
  at_risk = smooth(at_risk);
  Bins hazard{};
  for (std::size_t b = 0; b < kBins; ++b) {
    const float most = kMostBorrowed / prior[b];
    const float share = shrinkage * kWidths[b];
    const float borrowed = most < share ? most : share;  // time at risk
    hazard[b] = (returned[b] + borrowed * prior[b]) / (at_risk[b] + borrowed + kLeast);
  }
  counts.hazard = hazard;
  classes_[cls].total = waiting + shrinkage;
  if (classes_[cls].ranked) rank(cls);
}

void ReuseModel::begin_ranking(std::uint32_t cls) {
  classes_[cls].ranked = true;
  rank(cls);
}

void ReuseModel::rank(std::uint32_t cls) {
  const Bins indexes = indexes_of(counts_[cls].hazard);
  auto& curve = curves_[cls];
  for (std::size_t b = 0; b + 1 < kBins; ++b) curve[b] = {indexes[b], indexes[b + 1] - indexes[b]};
  curve[0].rise = 0;
  curve[kBins - 1] = {indexes[kBins - 1], 0};
}

// What the curve of such hazards gives for one event that begins to wait.
ReuseModel::Bins ReuseModel::indexes_of(const Bins& hazard) const {
  Bins still{};  // of those that wait at its beginning, how many do at its end
  for (std::size_t b = 0; b < kBins; ++b) still[b] = 1 / (1 + hazard[b] * kWidths[b]);
  Bins left{};  // at the end of each
  float waits = 1;
  for (std::size_t b = 0; b < kBins; ++b) left[b] = waits *= still[b];
  Bins returns{};
  Bins at_risk{};  // time
  returns[0] = 1 - left[0];
  for (std::size_t b = 1; b < kBins; ++b) returns[b] = left[b - 1] - left[b];
  for (std::size_t b = 0; b < kBins; ++b) at_risk[b] = left[b] * kWidths[b];
  // From the oldest bin down: a bin and the stretches after it merge as long as that raises returns over time at risk.
  // A stretch is kept where it begins; the next one begins at next[].
  const bool endless = !options_.bounded_horizon;
  std::array<std::uint8_t, kBins> next{};
  for (std::size_t b = kBins; b-- > 0;) {
    float sum = returns[b];
    float time = at_risk[b];
    std::size_t n = b + 1;
    while (n < kBins && (endless || returns[n] * time >= sum * at_risk[n])) {
      sum += returns[n];
      time += at_risk[n];
      n = next[n];
    }
    returns[b] = sum;
    at_risk[b] = time;
    next[b] = static_cast<std::uint8_t>(n);
  }
  for (std::size_t b = 0; b < kBins; ++b) returns[b] *= kLean[b] / (at_risk[b] + kLeast);
  return returns;
}

}  // namespace kvopt
