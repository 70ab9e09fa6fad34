// A mirror of a block table in a GPU's memory, kept up to date by batches of changed rows.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

#include "kvopt/scoring.hpp"
#include "row_changes.hpp"
#include "scorer.hpp"

namespace kvopt::cuda {

// Changes gather on the host and go over in one copy and one kernel a flush; nothing waits but for the batch before the
// last, if the device has not taken it yet. Not for several threads at once; not during a capture.
class Table {
 public:
  // All features are 0. Throws ConfigError for a number of rows that cannot be, CudaError.
  Table(int device, std::size_t rows, Stream stream);
  ~Table();
  Table(const Table&) = delete;
  Table& operator=(const Table&) = delete;
  Table(Table&&) = delete;
  Table& operator=(Table&&) = delete;

  // Rows may repeat; the last counts. Throws ConfigError before any changes.
  void set(const std::uint32_t* rows, const Row* values, std::size_t count);
  // Rows that changed and were not sent.
  std::size_t pending() const;
  // Queues what changed on the stream; returns how many rows.
  std::size_t flush(Stream stream);
  // Columns on the device.
  BlockFeatures features() const;
  int device() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace kvopt::cuda
