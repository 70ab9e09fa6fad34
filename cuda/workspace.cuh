// What calls on one stream keep between them: parameters in the device's memory, and room for selections.
#pragma once

#include <cuda_runtime.h>

#include <cstddef>
#include <list>

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
  static constexpr std::size_t kKept = 8;  // that no graph points to

  std::list<DeviceParams> params_;  // the latest first
};

}  // namespace kvopt::cuda
