// A bounded map from a 64-bit key to a 32-bit value: linear probing, sized once, no allocation afterwards.
//
// The last entry that was put stands by itself until another one comes: one that is taken back at once, as a key that
// moves on does, never enters the table.
#pragma once

#include <bit>
#include <cstdint>
#include <optional>
#include <vector>

#include "kvopt/run_table.hpp"

namespace kvopt {

class KeyMap {
 public:
  // Room for `most` entries.
  explicit KeyMap(std::size_t most) : places_(std::bit_ceil(most * 2 + 2)) {}

  std::optional<std::uint32_t> find(std::uint64_t key) const {
    if (last_.value != 0 && last_.key == key) return last_.value - 1;
    for (std::size_t p = home(key); places_[p].value != 0; p = next(p)) {
      if (places_[p].key == key) return places_[p].value - 1;
    }
    return std::nullopt;
  }

  // The key leads nowhere yet.
  void put(std::uint64_t key, std::uint32_t value) {
    if (last_.value != 0) {
      std::size_t p = home(last_.key);
      while (places_[p].value != 0) p = next(p);
      places_[p] = last_;
    }
    last_ = {key, value + 1};
  }

  // Nothing happens when the key leads elsewhere.
  void erase(std::uint64_t key, std::uint32_t value) {
    if (last_.value == value + 1 && last_.key == key) {
      last_ = {};
      return;
    }
    std::size_t hole = home(key);
    while (places_[hole].value != 0 && places_[hole].key != key) hole = next(hole);
    if (places_[hole].value != value + 1) return;
    for (std::size_t p = next(hole); places_[p].value != 0; p = next(p)) {
      const std::size_t mask = places_.size() - 1;
      if (((p - home(places_[p].key)) & mask) >= ((p - hole) & mask)) {
        places_[hole] = places_[p];
        hole = p;
      }
    }
    places_[hole] = {};
  }

  std::size_t bytes() const { return places_.size() * sizeof(Place); }

 private:
  struct Place {
    std::uint64_t key;
    std::uint32_t value;  // plus one; 0: empty
  };

  std::size_t next(std::size_t p) const { return (p + 1) & (places_.size() - 1); }
  std::size_t home(std::uint64_t key) const {
    std::uint64_t x = key * 0x9E3779B97F4A7C15U;
    x ^= x >> 32;
    return x & (places_.size() - 1);
  }

  LazyArray<Place> places_;
  Place last_{};
};

}  // namespace kvopt
