// A bounded map from a 64-bit key to a 32-bit value, of which each stands under one key: linear probing, sized once, no
// allocation afterwards.
//
// A place holds half of the key's hash; the key itself is the value's owner's to tell, key_of(value), and is asked for
// only where that half agrees. At most a quarter of the places are taken, since most keys that are looked for are not
// there. The last entry that was put stands by itself until another one comes: one that is taken back at once, as a key
// that moves on does, never enters the table.
#pragma once

#include <bit>
#include <cstdint>
#include <optional>

#include "kvopt/run_table.hpp"

namespace kvopt {

class KeyMap {
 public:
  // Room for `most` entries.
  explicit KeyMap(std::size_t most) : places_(std::bit_ceil(most * 4 + 2)) {}

  template <class KeyOf>
  std::optional<std::uint32_t> find(std::uint64_t key, KeyOf key_of) const {
    if (key == last_key_ && last_ != 0) return last_ - 1;
    const std::uint32_t tag = tag_of(key);
    for (std::size_t p = home(tag); places_[p].value != 0; p = next(p)) {
      if (places_[p].tag == tag && key_of(places_[p].value - 1) == key) return places_[p].value - 1;
    }
    return std::nullopt;
  }

  // The key leads nowhere yet.
  void put(std::uint64_t key, std::uint32_t value) {
    if (last_ != 0) {
      const std::uint32_t tag = tag_of(last_key_);
      std::size_t p = home(tag);
      while (places_[p].value != 0) p = next(p);
      places_[p] = {tag, last_};
    }
    last_key_ = key;
    last_ = value + 1;
  }

  // Nothing happens when the key leads elsewhere.
  void erase(std::uint64_t key, std::uint32_t value) {
    if (last_ == value + 1) {
      last_ = 0;
      return;
    }
    std::size_t hole = home(tag_of(key));
    while (places_[hole].value != 0 && places_[hole].value != value + 1) hole = next(hole);
    if (places_[hole].value == 0) return;
    const std::size_t mask = places_.size() - 1;
    for (std::size_t p = next(hole); places_[p].value != 0; p = next(p)) {
      if (((p - home(places_[p].tag)) & mask) >= ((p - hole) & mask)) {
        places_[hole] = places_[p];
        hole = p;
      }
    }
    places_[hole] = {};
  }

  std::size_t bytes() const { return places_.size() * sizeof(Place); }

 private:
  struct Place {
    std::uint32_t tag;
    std::uint32_t value;  // plus one; 0: empty
  };

  static std::uint32_t tag_of(std::uint64_t key) {
    const std::uint64_t x = key * 0x9E3779B97F4A7C15U;
    return static_cast<std::uint32_t>(x ^ x >> 32);
  }
  std::size_t home(std::uint32_t tag) const { return tag & (places_.size() - 1); }
  std::size_t next(std::size_t p) const { return (p + 1) & (places_.size() - 1); }

  LazyArray<Place> places_;
  std::uint64_t last_key_ = 0;
  std::uint32_t last_ = 0;  // value under it, plus one; 0: none
};

}  // namespace kvopt
