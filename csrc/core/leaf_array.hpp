// The possible victims of a pool (evictable runs without children) in an array, in no order, to draw samples from.
//
// O(1) an insertion or removal: the last entry fills the gap. 8 bytes a run, no allocation after construction.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>

#include "kvopt/policy.hpp"
#include "kvopt/run_table.hpp"

namespace kvopt {

class LeafArray {
 public:
  explicit LeafArray(const RunTable& runs) : runs_(runs), leaves_(runs.capacity), place_(runs.capacity) {}

  std::uint32_t size() const { return size_; }
  RunId operator[](std::uint32_t i) const { return leaves_[i]; }

  void add(std::span<const RunId> evictable) {
    for (const RunId r : evictable) {
      if (runs_.children[r] == 0) add(r);
    }
  }

  void add(RunId leaf) {
    leaves_[size_] = leaf;
    place_[leaf] = ++size_;
  }

  void remove(std::span<const RunId> runs) {
    for (const RunId r : runs) {
      const std::uint32_t place = place_[r];
      if (place == 0) continue;
      const RunId last = leaves_[--size_];
      leaves_[place - 1] = last;
      place_[last] = place;
      place_[r] = 0;
    }
  }

  std::string verify() const {
    std::uint32_t victims = 0;
    for (RunId r = 0; r < runs_.used; ++r) {
      if (!runs_.is_victim(r)) continue;
      ++victims;
      if (place_[r] == 0 || place_[r] > size_ || leaves_[place_[r] - 1] != r) {
        return "run " + std::to_string(r) + " is a victim outside the array";
      }
    }
    if (victims == size_) return {};
    return std::to_string(size_) + " runs in the array, " + std::to_string(victims) + " victims";
  }

  std::size_t bytes() const { return leaves_.size() * sizeof(RunId) + place_.size() * sizeof(std::uint32_t); }

 private:
  const RunTable& runs_;
  LazyArray<RunId> leaves_;
  LazyArray<std::uint32_t> place_;  // index in leaves_, plus one; 0: outside
  std::uint32_t size_ = 0;
};

// A policy whose candidates are a LeafArray. Derived classes override attach(), call sample_from() in it, and choose().
class LeafArrayPolicy : public Policy {
 public:
  void on_referenced(std::span<const RunId> runs) override { leaves_->remove(runs); }
  void on_evictable(std::span<const RunId> runs, const RequestInfo& /*info*/) override { leaves_->add(runs); }
  void on_dropped(std::span<const RunId> runs) override { leaves_->remove(runs); }
  void on_uncovered(RunId run) override { leaves_->add(run); }
  std::string verify() const override { return leaves_->verify(); }
  std::size_t bytes() const override { return leaves_->bytes(); }

 protected:
  void sample_from(const RunTable& runs) { leaves_.emplace(runs); }

  std::optional<LeafArray> leaves_;
};

}  // namespace kvopt
