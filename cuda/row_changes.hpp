// Rows of a table that changed since they were last sent to a device: each once, with its latest values. Std-only.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "kvopt/error.hpp"
#include "kvopt/scoring.hpp"

namespace kvopt::cuda {

// One block's features, as they lie in a batch of changes; 24 bytes.
struct Row {
  float last_use;
  float cost;
  float pace;
  std::uint32_t hits;
  std::uint32_t depth;
  std::uint32_t cls;
};

struct Change {
  std::uint32_t row;
  Row values;
};

class RowChanges {
 public:
  explicit RowChanges(std::size_t rows) : place_(rows, kNowhere) {
    if (rows == 0 || rows > kMostBlocks) {
      throw ConfigError("a table has " + std::to_string(rows) + " rows; it must have 1 to " +
                        std::to_string(kMostBlocks));
    }
  }

  std::size_t rows() const { return place_.size(); }

  // Throws ConfigError for a row that the table does not have.
  void require(std::size_t row) const {
    if (row < place_.size()) return;
    throw ConfigError("row " + std::to_string(row) + " of a table of " + std::to_string(place_.size()));
  }

  // `row` has been required.
  void set(std::uint32_t row, const Row& values) {
    std::uint32_t& place = place_[row];
    if (place == kNowhere) {
      place = static_cast<std::uint32_t>(changes_.size());
      changes_.push_back({row, values});
    } else {
      changes_[place].values = values;
    }
  }

  std::span<const Change> pending() const { return changes_; }

  // The first `count` changes have been sent.
  void sent(std::size_t count) {
    for (std::size_t i = 0; i < count; ++i) place_[changes_[i].row] = kNowhere;
    changes_.erase(changes_.begin(), changes_.begin() + static_cast<std::ptrdiff_t>(count));
    for (std::size_t i = 0; i < changes_.size(); ++i) place_[changes_[i].row] = static_cast<std::uint32_t>(i);
  }

 private:
  static constexpr std::uint32_t kNowhere = UINT32_MAX;

  std::vector<std::uint32_t> place_;  // of each row in changes_
  std::vector<Change> changes_;
};

}  // namespace kvopt::cuda
