// The possible victims, and one of the least value, where values change with time.
//
// The value of a leaf is index(class, age / scale) × weight, so it moves without any event; queues and heaps cannot
// hold it, and queues by class cannot either, since each session has a scale and each depth a weight of its own. Leaves
// are few (one a chain, not one a block). They lie side by side, eight a cell, valued together in vector instructions;
// of each cell the least value is known, as of when it was last looked at. The victim comes from the cell that promises
// the least, which is looked at again before anything of it is named. Besides, each choice looks at the next cells in
// turn: two, and so many more that all have had their turn when victims would be an eighth older. New and changed
// leaves tell their cell at once.
//
// So no choice looks at more than 64 cells (1.5 microseconds), however many leaves there are; and the victim has the
// least value of all, each as of the last look. Up to 32 leaves are all looked at for every victim. Complexity: O(1) an
// insertion or removal; O(1) a victim, but for the highest of one number in 128 leaves. 37 bytes a run.
#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <cstdint>
#include <string>
#include <utility>

#include "core/highest_key.hpp"
#include "core/random.hpp"
#include "core/reuse_model.hpp"
#include "kvopt/run_table.hpp"

namespace kvopt {

class VictimScan {
 public:
  VictimScan(const RunTable& runs, const ReuseModel& model)
      : runs_(runs), model_(model), cells_(cells(runs.capacity)), place_(runs.capacity), keys_(cells(runs.capacity)) {}

  struct Leaf {
    Time released;
    float pace;    // units of age a second
    float weight;  // value of a block-second at index 1
    float favour;  // by retention priority; 1 by default
    std::uint32_t cls;
    RunId run;
    std::uint32_t number;  // of its release, running
  };

  static constexpr Leaf kNone{0, 0, 0, 0, 0, kNoRun, 0};
  static constexpr std::size_t kScanAlways = 32;  // so many leaves are all looked at for every victim

  bool contains(RunId r) const { return place_[r] != 0; }
  std::size_t size() const { return size_; }

  void add(const Leaf& leaf) {
    if (is_before(latest_, leaf.number)) latest_ = leaf.number;
    put(size_, leaf);
    place_[leaf.run] = ++size_;
    tell(size_ - 1, leaf);
  }

  void remove(RunId r) {
    const std::uint32_t place = place_[r];
    if (place == 0) return;
    place_[r] = 0;
    const std::size_t cell = (place - 1) / kCell;
    if (place - 1 == named_.place && keys_[cell] == named_.key) keys_.set(cell, named_.next_key);
    if (--size_ % kCell == 0) keys_.set(size_ / kCell, 0);
    if (place > size_) return;
    const Leaf last = leaf_at(size_);
    put(place - 1, last);
    place_[last.run] = place;
    tell(place - 1, last);
  }

  void set_weight(RunId r, float weight, float favour) {
    const std::size_t place = place_[r] - 1;
    cells_[place / kCell].weight[place % kCell] = weight;
    cells_[place / kCell].favour[place % kCell] = favour;
    tell(place, leaf_at(place));
  }

  void set_class(RunId r, std::uint32_t cls) {
    const std::size_t place = place_[r] - 1;
    cells_[place / kCell].cls[place % kCell] = cls;
    tell(place, leaf_at(place));
  }

  // By the order of releases alone, the oldest first, but for retention priorities: LRU.
  void order_by_time(bool on) {
    if (on == by_time_) return;
    by_time_ = on;
    order_anew();
  }

  // What a leaf would be worth, whether it is one or not.
  double value(const Leaf& leaf, Time now) const {
    if (by_time_) return leaf.favour / (1.0 + (latest_ - leaf.number));
    return model_.index(leaf.cls, static_cast<float>(now - leaf.released) * leaf.pace) * leaf.weight;
  }

  // A leaf of the least value; there must be one. It stays.
  RunId least(Time now) {
    look_around(now);
    std::size_t cell = promising();
    Found best{};
    for (std::size_t tries = 0; tries < kMostTries; ++tries) {
      const std::uint32_t promised = keys_[cell];
      const Found found = first_in(cell, look(cell, now));
      if (found.key > best.key) best = found;
      if (found.key >= promised) break;
      const std::size_t next = promising();
      if (next == cell) break;
      cell = next;
    }
    const Cell& found_in = cells_[best.place / kCell];
    const double fresh_for = kFreshFor * (now - found_in.released[best.place % kCell]) + kInstant;
    fresh_for_ += (fresh_for - fresh_for_) / 16;
    named_ = best;
    return found_in.run[best.place % kCell];
  }

  // Of some leaves that are drawn at random, except those that `skip` says, the one that goes first by value and the
  // one that does by time. Equal runs where they agree, or there are none.
  template <class Skip>
  std::pair<Leaf, Leaf> draw(Random& random, Time now, Skip skip) const {
    Leaf least = kNone;
    Leaf oldest = kNone;
    float value = 0;
    double waited = 0;
    for (std::size_t k = 0; k < kDrawn; ++k) {
      const std::size_t c = random.below(static_cast<std::uint32_t>(cells(size_)));
      const Each<float> values = values_of(cells_[c], now);
      for (std::size_t i = 0; i < std::min<std::size_t>(kCell, size_ - c * kCell); ++i) {
        const Leaf leaf = leaf_at(c * kCell + i);
        if (skip(leaf.run)) continue;
        if (least.run == kNoRun || values[i] < value) {
          least = leaf;
          value = values[i];
        }
        const double wait = (latest_ - leaf.number) / leaf.favour;
        if (oldest.run == kNoRun || wait > waited) {
          oldest = leaf;
          waited = wait;
        }
      }
    }
    return {least, oldest};
  }

  std::string verify() const {
    std::size_t leaves = 0;
    for (RunId r = 0; r < runs_.used; ++r) {
      leaves += runs_.is_victim(r) ? 1 : 0;
      if (runs_.is_victim(r) != contains(r))
        return "run " + std::to_string(r) + " is missing among the leaves, or too much";
    }
    return leaves == size_ ? std::string() : "the leaves are miscounted";
  }

  std::size_t bytes() const {
    return place_.size() * sizeof(std::uint32_t) + cells_.size() * sizeof(Cell) + keys_.bytes();
  }

 private:
  static constexpr std::size_t kCell = 8;                        // leaves
  static constexpr double kStep = 2;                             // cells a choice
  static constexpr std::size_t kMostLooks = 32;                  // cells a choice, in turn
  static constexpr std::size_t kMostTries = 32;                  // cells a choice, for what they promise
  static constexpr std::size_t kDrawn = 4;                       // cells
  static constexpr double kInstant = 1e-9;                       // seconds
  static constexpr double kFreshFor = 0.125;                     // of the age of the least
  static constexpr std::uint32_t kFar = std::uint32_t{1} << 31;  // releases

  template <class T>
  using Each = std::array<T, kCell>;

  // Leaves by their parts, so that they are valued together.
  struct Cell {
    Each<Time> released;
    Each<float> pace, weight, favour;
    Each<std::uint32_t> cls;
    Each<RunId> run;
    Each<std::uint32_t> number;
  };

  // The leaf of the least value in its cell, as a key, and what the key of the cell is without it.
  struct Found {
    std::uint32_t key;
    std::uint32_t next_key;
    std::size_t place;
  };

  static std::size_t cells(std::size_t leaves) { return (leaves + kCell - 1) / kCell; }

  void put(std::size_t place, const Leaf& leaf) {
    Cell& cell = cells_[place / kCell];
    const std::size_t i = place % kCell;
    cell.released[i] = leaf.released;
    cell.pace[i] = leaf.pace;
    cell.weight[i] = leaf.weight;
    cell.favour[i] = leaf.favour;
    cell.cls[i] = leaf.cls;
    cell.run[i] = leaf.run;
    cell.number[i] = leaf.number;
  }

  Leaf leaf_at(std::size_t place) const {
    const Cell& cell = cells_[place / kCell];
    const std::size_t i = place % kCell;
    return {cell.released[i], cell.pace[i], cell.weight[i], cell.favour[i], cell.cls[i], cell.run[i], cell.number[i]};
  }

  // All that cells have promised is void; they are looked at again in turn.
  void order_anew() {
    first_ = latest_ - kFar;
    keys_.clear(cells(size_));
    owed_ = static_cast<double>(cells(size_));
  }

  // The lower the value, the higher; above 0. Values are not negative, so their bits are in their order.
  static std::uint32_t key_of(float value) { return ~std::bit_cast<std::uint32_t>(value); }

  // The same for LRU's order, without priorities the same at all times: the number that it would have with none.
  std::uint32_t key_by_order(std::uint32_t number, float favour) const {
    const double place = (latest_ - first_) - (latest_ - number) / static_cast<double>(favour);
    return ~static_cast<std::uint32_t>(std::max(place, 0.0));
  }

  // Numbers start again after 2^32, so they are compared by how far they are apart.
  static bool is_before(std::uint32_t a, std::uint32_t b) { return static_cast<std::int32_t>(a - b) < 0; }

  // Not inlined: in the loops of its callers its own would be unrolled before they become vector instructions.
  [[gnu::noinline]] Each<float> values_of(const Cell& cell, Time now) const {
    Each<float> age{};
    for (std::size_t i = 0; i < kCell; ++i) age[i] = static_cast<float>(now - cell.released[i]) * cell.pace[i];
    Each<float> values = model_.index(cell.cls, age);
    for (std::size_t i = 0; i < kCell; ++i) values[i] *= cell.weight[i];
    return values;
  }

  Each<std::uint32_t> keys_of(const Cell& cell, Time now) const {
    Each<std::uint32_t> keys{};
    if (by_time_) {
      for (std::size_t i = 0; i < kCell; ++i) keys[i] = key_by_order(cell.number[i], cell.favour[i]);
      return keys;
    }
    const Each<float> values = values_of(cell, now);
    for (std::size_t i = 0; i < kCell; ++i) keys[i] = key_of(values[i]);
    return keys;
  }

  // At this place there is now this leaf, which is new or not what it was.
  void tell(std::size_t place, const Leaf& leaf) {
    const Time now = std::max(leaf.released, looked_);
    const std::uint32_t key =
        by_time_ ? key_by_order(leaf.number, leaf.favour) : key_of(static_cast<float>(value(leaf, now)));
    keys_.raise(place / kCell, key);
    if (place / kCell == named_.place / kCell) named_.next_key = std::max(named_.next_key, key);
  }

  std::size_t promising() const {
    return keys_.highest(cells(size_), [this](std::size_t a, std::size_t b) {
      return is_before(cells_[a].number[0], cells_[b].number[0]);
    });
  }

  // Values the leaves of a cell, and makes its key that of the least.
  Each<std::uint32_t> look(std::size_t c, Time now) {
    Each<std::uint32_t> keys = keys_of(cells_[c], now);
    if (c == size_ / kCell) std::fill(keys.begin() + size_ % kCell, keys.end(), 0);
    keys_.set(c, highest_of(keys));
    return keys;
  }

  static std::uint32_t highest_of(const Each<std::uint32_t>& keys) {
    std::uint32_t highest = 0;
    for (const std::uint32_t key : keys) highest = std::max(highest, key);
    return highest;
  }

  // The leaf of the least value in a cell that was just looked at; of equals the oldest, then the first.
  Found first_in(std::size_t c, const Each<std::uint32_t>& keys) const {
    const Cell& cell = cells_[c];
    const std::uint32_t highest = keys_[c];
    std::uint32_t equal = HighestKey::where_equal<kCell>(keys.data(), highest);
    auto best = static_cast<std::uint32_t>(std::countr_zero(equal));
    while ((equal &= equal - 1) != 0) {
      const auto other = static_cast<std::uint32_t>(std::countr_zero(equal));
      if (is_before(cell.number[other], cell.number[best]) ||
          (cell.number[other] == cell.number[best] && cell.run[other] < cell.run[best])) {
        best = other;
      }
    }
    Each<std::uint32_t> others = keys;
    others[best] = 0;
    const std::uint32_t next = highest_of(others);
    return {highest, next, c * kCell + best};
  }

  void look_around(Time now) {
    if (by_time_ && latest_ - first_ > kFar + kFar / 2) order_anew();
    const std::size_t all = cells(size_);
    std::size_t due = all;
    if (size_ > kScanAlways) {
      owed_ += kStep;
      if (now > looked_) owed_ += static_cast<double>(all) * ((now - looked_) / fresh_for_);
      owed_ = std::min(owed_, static_cast<double>(all));
      due = std::min(static_cast<std::size_t>(owed_), kMostLooks);
      owed_ -= static_cast<double>(due);
    }
    looked_ = std::max(looked_, now);
    std::size_t cell = next_;
    for (; due > 0; --due) {
      cell = cell + 1 < all ? cell + 1 : 0;
      look(cell, now);
    }
    next_ = cell;
  }

  const RunTable& runs_;
  const ReuseModel& model_;
  LazyArray<Cell> cells_;
  LazyArray<std::uint32_t> place_;  // of a leaf in the cells, plus one; 0: outside
  HighestKey keys_;                 // of each cell, by the least value in it
  Found named_{};                   // last
  std::uint32_t size_ = 0;
  std::size_t next_ = 0;  // cell whose turn it was last
  double owed_ = 0;       // cells whose turn has come
  double fresh_for_ = kInstant;
  bool by_time_ = false;
  std::uint32_t latest_ = 0;     // number
  std::uint32_t first_ = -kFar;  // of LRU's order; so far from the latest that nothing is older
  Time looked_ = 0;
};

}  // namespace kvopt
