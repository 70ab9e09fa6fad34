// Writes changed rows into the columns of a table; no row comes twice.
#pragma once

#include <cstddef>
#include <cstdint>

#include "launch.cuh"
#include "row_changes.hpp"

namespace kvopt::cuda {

struct Columns {
  float* last_use;
  float* cost;
  float* pace;
  std::uint32_t* hits;
  std::uint32_t* depth;
  std::uint8_t* cls;
};

static __global__ void __launch_bounds__(kThreads) scatter(const Change* changes, std::size_t count, Columns to) {
  const std::size_t stride = std::size_t{gridDim.x} * blockDim.x;
  for (std::size_t i = std::size_t{blockIdx.x} * blockDim.x + threadIdx.x; i < count; i += stride) {
    const Change change = changes[i];
    to.last_use[change.row] = change.values.last_use;
    to.cost[change.row] = change.values.cost;
    to.pace[change.row] = change.values.pace;
    to.hits[change.row] = change.values.hits;
    to.depth[change.row] = change.values.depth;
    to.cls[change.row] = static_cast<std::uint8_t>(change.values.cls);
  }
}

}  // namespace kvopt::cuda
