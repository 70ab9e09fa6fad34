// Open-addressing map from the key of a run's first block to the run.
//
// Linear probing over 32-bit run ids (4.8 bytes a block of the pool). Several runs may carry one key: they stand in the
// order of insertion, which erasing (backward shift) keeps. The key of a run comes from its owner, KeyOf(run).
#pragma once

#include <algorithm>
#include <cstdint>
#include <utility>
#include <vector>

#include "kvopt/types.hpp"

namespace kvopt {

template <class KeyOf>
class PrefixIndex {
 public:
  PrefixIndex(std::uint32_t capacity, KeyOf key_of)
      : key_of_(std::move(key_of)), places_(std::size_t{capacity} + capacity / 5 + 4, kNoRun) {}

  // First run with this key for which same(run) holds, or kNoRun.
  template <class Same>
  RunId find(std::uint64_t key, Same same) const {
    for (std::size_t p = home(key);; p = next(p)) {
      const RunId r = places_[p];
      if (r == kNoRun || (key_of_(r) == key && same(r))) return r;
    }
  }

  bool contains(RunId r) const {
    return find(key_of_(r), [r](RunId other) { return other == r; }) == r;
  }

  void insert(RunId r) {
    std::size_t p = home(key_of_(r));
    while (places_[p] != kNoRun) p = next(p);
    places_[p] = r;
    ++size_;
  }

  // `with` has the same key.
  void replace(RunId r, RunId with) { places_[place_of(r)] = with; }

  void erase(RunId r) {
    std::size_t hole = place_of(r);
    for (std::size_t p = next(hole); places_[p] != kNoRun; p = next(p)) {
      if (distance(home(key_of_(places_[p])), p) >= distance(hole, p)) {
        places_[hole] = places_[p];
        hole = p;
      }
    }
    places_[hole] = kNoRun;
    --size_;
  }

  void clear() {
    std::ranges::fill(places_, kNoRun);
    size_ = 0;
  }

  std::size_t size() const { return size_; }
  std::size_t bytes() const { return places_.size() * sizeof(RunId); }

 private:
  std::size_t next(std::size_t p) const { return p + 1 == places_.size() ? 0 : p + 1; }
  std::size_t distance(std::size_t from, std::size_t to) const {
    return to >= from ? to - from : to + places_.size() - from;
  }
  std::size_t place_of(RunId r) const {
    std::size_t p = home(key_of_(r));
    while (places_[p] != r) p = next(p);
    return p;
  }
  std::size_t home(std::uint64_t key) const {
    std::uint64_t x = key * 0x9E3779B97F4A7C15u;
    x ^= x >> 29;
    x *= 0xBF58476D1CE4E5B9u;
    return static_cast<std::size_t>(((x >> 32) * places_.size()) >> 32);
  }

  KeyOf key_of_;
  std::vector<RunId> places_;
  std::size_t size_ = 0;
};

}  // namespace kvopt
