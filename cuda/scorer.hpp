// Scores and selection on a GPU. No CUDA type and no CUDA call at load time: a program that links this runs on machines
// without a driver too, where device_count() is 0 and everything else throws CudaError.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "kvopt/scoring.hpp"

namespace kvopt::cuda {

// A cudaStream_t as an integer, as arrays carry it over: 0 is the legacy default stream.
using Stream = std::uintptr_t;

// GPUs that the driver shows; 0 without a driver.
int device_count() noexcept;
// Why device_count() is 0, in words; empty when it is not.
std::string unavailable();
// The device whose memory this is, or -1 for memory that no GPU knows.
int device_of(const void* memory);

// Bytes on a device, allocated and freed in the order of a stream.
class Memory {
 public:
  Memory(int device, std::size_t bytes, Stream stream);
  ~Memory();
  Memory(const Memory&) = delete;
  Memory& operator=(const Memory&) = delete;
  Memory(Memory&&) = delete;
  Memory& operator=(Memory&&) = delete;

  std::uintptr_t pointer() const { return pointer_; }

 private:
  int device_;
  Stream stream_;
  std::uintptr_t pointer_ = 0;
};

// Copies from the device and waits for the stream.
void copy_to_host(void* to, std::uintptr_t from, std::size_t bytes, int device, Stream stream);

struct DeviceOptions {
  // Looks at all features first, as ScoringOptions::checked; waits for the stream.
  bool checked = false;
};

// The scores of kvopt/scoring.hpp for columns, results and eligible marks in one device's memory.
//
// Everything is queued on the caller's stream and nothing waits for the device; what it needs besides is kept for each
// stream and grows only. A call with the same shapes and parameters as an earlier one on its stream allocates and
// copies nothing, so it can be captured into a graph; one that would allocate during a capture throws CudaError, before
// it queues anything. A captured graph keeps the `now` of its capture. Threads may share a scorer.
//
// Where fewer than k blocks are eligible, the rest of the result is -1; in checked mode ConfigError is thrown.
// Otherwise functions throw as those of kvopt/scoring.hpp, and CudaError for what CUDA refuses.
class Scorer {
 public:
  explicit Scorer(int device);
  ~Scorer();
  Scorer(const Scorer&) = delete;
  Scorer& operator=(const Scorer&) = delete;
  Scorer(Scorer&&) = delete;
  Scorer& operator=(Scorer&&) = delete;

  void score(const BlockFeatures& features, const ScoreParams& params, Time now, float* out, Stream stream,
             const DeviceOptions& options = {});
  void select_k(const float* scores, std::size_t count, std::size_t k, const std::uint8_t* eligible, std::int64_t* out,
                Stream stream, const DeviceOptions& options = {});
  void score_select(const BlockFeatures& features, const ScoreParams& params, Time now, std::size_t k,
                    const std::uint8_t* eligible, std::int64_t* out, Stream stream, const DeviceOptions& options = {});

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace kvopt::cuda
