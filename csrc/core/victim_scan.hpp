// The possible victims, and one of the least value, where values change with time.
//
// The value of a leaf is index(class, age / scale) × weight, so it moves without any event; queues and heaps cannot
// hold it, and queues by class cannot either, since each session has a scale and each depth a weight of its own. Leaves
// are few (one a chain, not one a block) and lie side by side, eight a cell; of each cell the least value is known, as
// of when it was last looked at. The victim comes from the cell that promises the least, which is looked at again before
// anything of it is named. Besides, each choice looks at the next cells in turn: two at least, and so many that all have
// had their turn when the oldest is an eighth older. New leaves and changed ones tell their cell at once.
//
// So no choice looks at more than 64 cells, about a microsecond, however many leaves there are; and the victim has the
// least value of all as of when they were looked at. Up to 64 leaves all are looked at every time, and the victim is the
// least. Complexity: O(1) an insertion or removal, O(1) a victim but for a pass over one number in 512 leaves. 37 bytes
// a leaf.
#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <cstdint>
#include <string>

#include "core/highest_key.hpp"
#include "core/reuse_model.hpp"
#include "kvopt/run_table.hpp"

namespace kvopt {

class VictimScan {
 public:
  VictimScan(const RunTable& runs, const ReuseModel& model)
      : runs_(runs), model_(model), leaves_(runs.capacity), place_(runs.capacity), keys_(cells(runs.capacity)) {}

  struct Leaf {
    Time released;
    float pace;    // units of age a second
    float weight;  // value of a block-second at index 1
    float favour;  // by retention priority; 1 by default
    std::uint32_t cls;
    RunId run;
  };

  // More leaves are looked at in turn, fewer all at once.
  static constexpr std::size_t kScanAlways = 32;

  bool contains(RunId r) const { return place_[r] != 0; }
  std::size_t size() const { return size_; }

  void add(const Leaf& leaf) {
    leaves_[size_] = leaf;
    place_[leaf.run] = ++size_;
    tell(size_ - 1);
  }

  void remove(RunId r) {
    const std::uint32_t place = place_[r];
    if (place == 0) return;
    place_[r] = 0;
    if (place - 1 == named_.place && keys_[named_.place / kCell] == named_.key) {
      keys_.set(named_.place / kCell, named_.next_key);
    }
    if (--size_ % kCell == 0) keys_.set(size_ / kCell, 0);
    if (place > size_) return;
    leaves_[place - 1] = leaves_[size_];
    place_[leaves_[place - 1].run] = place;
    tell(place - 1);
  }

  void set_weight(RunId r, float weight, float favour) {
    leaves_[place_[r] - 1].weight = weight;
    leaves_[place_[r] - 1].favour = favour;
    tell(place_[r] - 1);
  }

  void set_class(RunId r, std::uint32_t cls) {
    leaves_[place_[r] - 1].cls = cls;
    tell(place_[r] - 1);
  }

  // By time alone, the oldest first, but for retention priorities: LRU.
  void order_by_time(bool on) {
    if (on == by_time_) return;
    by_time_ = on;
    keys_.clear(cells(size_));
    owed_ = static_cast<double>(cells(size_));
  }

  // What a leaf would be worth, whether it is one or not.
  double value(const Leaf& leaf, Time now) const {
    return by_time_ ? value<true>(leaf, now) : value<false>(leaf, now);
  }

  // A leaf of the least value; there must be one. It stays.
  RunId least(Time now) { return by_time_ ? least<true>(now) : least<false>(now); }

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
    return place_.size() * sizeof(std::uint32_t) + leaves_.size() * sizeof(Leaf) + keys_.bytes();
  }

 private:
  static constexpr std::size_t kCell = 8;        // leaves
  static constexpr double kStep = 1;             // cells a choice
  static constexpr std::size_t kMostLooks = 32;  // cells a choice, in turn
  static constexpr std::size_t kMostTries = 32;  // cells a choice, for what they promise
  static constexpr double kMoment = 1e-3;        // seconds
  static constexpr double kInstant = 1e-9;
  static constexpr double kFreshFor = 0.125;  // of the age of the least

  // The leaf of the least value in its cell, as a key, and what the key of the cell is without it.
  struct Found {
    std::uint32_t key;
    std::uint32_t next_key;
    std::size_t place;
  };

  static std::size_t cells(std::size_t leaves) { return (leaves + kCell - 1) / kCell; }

  template <bool kByTime>
  double value(const Leaf& leaf, Time now) const {
    if constexpr (kByTime) return leaf.favour / (now - leaf.released + kMoment);
    return model_.index(leaf.cls, static_cast<float>(now - leaf.released) * leaf.pace) * leaf.weight;
  }

  // The lower the value, the higher; above 0. Values are not negative, so their bits are in their order.
  template <bool kByTime>
  std::uint32_t key_of(const Leaf& leaf, Time now) const {
    return ~std::bit_cast<std::uint32_t>(static_cast<float>(value<kByTime>(leaf, now)));
  }

  // The leaf at this place is new, or not what it was.
  void tell(std::size_t place) {
    const Leaf& leaf = leaves_[place];
    const Time now = std::max(leaf.released, looked_);
    const std::uint32_t key = by_time_ ? key_of<true>(leaf, now) : key_of<false>(leaf, now);
    keys_.raise(place / kCell, key);
    if (place / kCell == named_.place / kCell) named_.next_key = std::max(named_.next_key, key);
  }

  template <bool kByTime>
  RunId least(Time now) {
    look_around<kByTime>(now);
    std::size_t cell = promising();
    Found best{};
    for (std::size_t tries = 0; tries < kMostTries; ++tries) {
      const std::uint32_t promised = keys_[cell];
      const Found found = look<kByTime>(cell, now);
      if (found.key > best.key) best = found;
      if (found.key >= promised) break;
      const std::size_t next = promising();
      if (next == cell) break;
      cell = next;
    }
    const Leaf& leaf = leaves_[best.place];
    fresh_for_ = kFreshFor * (now - leaf.released) + kInstant;
    named_ = best;
    return leaf.run;
  }

  std::size_t promising() const {
    return keys_.highest(cells(size_), [this](std::size_t a, std::size_t b) {
      return leaves_[a * kCell].released < leaves_[b * kCell].released;
    });
  }

  // Makes the key of a cell that of its leaf of the least value, which it returns; of equals the oldest, the first.
  template <bool kByTime>
  Found look(std::size_t cell, Time now) {
    const std::size_t begin = cell * kCell;
    const std::size_t count = std::min(kCell, size_ - begin);
    std::uint64_t first = 0;  // keys with their place, so that neither is had by a branch
    std::uint64_t second = 0;
    for (std::size_t i = 0; i < count; ++i) {
      const std::uint64_t key = std::uint64_t{key_of<kByTime>(leaves_[begin + i], now)} * kCell + i;
      second = std::max(second, std::min(first, key));
      first = std::max(first, key);
    }
    Found found{static_cast<std::uint32_t>(first / kCell), static_cast<std::uint32_t>(second / kCell),
                begin + first % kCell};
    if (found.key == found.next_key) found.place = first_of_equals<kByTime>(begin, begin + count, found.key, now);
    keys_.set(cell, found.key);
    return found;
  }

  template <bool kByTime>
  std::size_t first_of_equals(std::size_t begin, std::size_t end, std::uint32_t key, Time now) const {
    std::size_t best = end;
    for (std::size_t i = begin; i < end; ++i) {
      if (key_of<kByTime>(leaves_[i], now) != key) continue;
      const Leaf& leaf = leaves_[i];
      if (best == end || leaf.released < leaves_[best].released ||
          (leaf.released == leaves_[best].released && leaf.run < leaves_[best].run)) {
        best = i;
      }
    }
    return best;
  }

  template <bool kByTime>
  void look_around(Time now) {
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
    for (; due > 0; --due) {
      next_ = next_ + 1 < all ? next_ + 1 : 0;
      look<kByTime>(next_, now);
    }
  }

  const RunTable& runs_;
  const ReuseModel& model_;
  LazyArray<Leaf> leaves_;
  LazyArray<std::uint32_t> place_;  // index in leaves_, plus one; 0: outside
  HighestKey keys_;                 // of each cell, by the least value in it
  Found named_{};                   // last
  std::uint32_t size_ = 0;
  std::size_t next_ = 0;  // cell whose turn it was last
  double owed_ = 0;       // cells whose turn has come
  double fresh_for_ = kInstant;
  bool by_time_ = false;
  Time looked_ = 0;
};

}  // namespace kvopt
