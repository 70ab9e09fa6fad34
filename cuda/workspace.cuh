// What calls on one stream keep between them: parameters in the device's memory, and room for selections.
#pragma once

#include <cuda_runtime.h>

#include <cstddef>
#include <cstdint>
#include <list>
#include <map>
#include <utility>

#include "runtime.cuh"
#include "scoring/prepared.hpp"

namespace kvopt::cuda {

// Prepared parameters and their copy on the device; they do not change.
class DeviceParams {
 public:
  DeviceParams(scoring::PreparedParams params, cudaStream_t stream);

  bool holds(const scoring::PreparedParams& params) const;
  // With pointers into the device's memory.
  scoring::PreparedScore view(double now) const;
  // Before it is destroyed: see DeviceBuffer.
  void release(cudaStream_t stream) { memory_.release(stream); }

  bool captured = false;  // a graph points to it: it stays

 private:
  scoring::PreparedParams params_;
  DeviceBuffer memory_;
};

class Workspace {
 public:
  // The parameters on the device, copied when none of the last few calls had them. Throws CudaError where that would be
  // during a capture.
  const DeviceParams& params(scoring::PreparedParams params, cudaStream_t stream);

  DeviceBuffer room;    // of selections
  DeviceBuffer checks;  // of checked mode

 private:
  friend class Workspaces;

  static constexpr std::size_t kKept = 8;  // that no graph points to

  std::list<DeviceParams> params_;  // the latest first
  unsigned long long stream_ = 0;   // cudaStreamGetId of the stream that it is of
};

// The workspace of each stream, so that two streams never share one.
//
// A handle is not enough to tell streams apart: the legacy default stream has two of them, each thread has a stream
// behind cudaStreamPerThread, and the handle of a stream that was destroyed can come back with a new one. In that last
// case work of the former stream may still run, so the device is waited for, once.
class Workspaces {
 public:
  Workspace& of(cudaStream_t stream);

 private:
  // Streams that were made by a program: handle and 0; the special ones: 0 and their id.
  std::map<std::pair<std::uintptr_t, unsigned long long>, Workspace> known_;
};

}  // namespace kvopt::cuda
