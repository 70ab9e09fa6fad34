// How many threads a pass over blocks takes, and the loop that each of them runs.
#pragma once

#include <algorithm>
#include <cstddef>

namespace kvopt::cuda {

inline constexpr unsigned kThreads = 256;
inline constexpr unsigned kBlocksAProcessor = 8;

// A grid that fills the device, and no more than there is work for: the threads stride over the rest.
inline unsigned grid_for(std::size_t count, unsigned processors) {
  const std::size_t needed = (count + 4 * kThreads - 1) / (4 * kThreads);
  return static_cast<unsigned>(std::clamp<std::size_t>(needed, 1, std::size_t{processors} * kBlocksAProcessor));
}

// Calls four(i) for multiples of 4 with four blocks each, and one(i) for the up to three that are left.
template <class Four, class One>
__device__ inline void for_each_four(std::size_t count, const Four& four, const One& one) {
  const std::size_t thread = std::size_t{blockIdx.x} * blockDim.x + threadIdx.x;
  const std::size_t fours = count / 4;
  for (std::size_t q = thread; q < fours; q += std::size_t{gridDim.x} * blockDim.x) four(4 * q);
  if (thread < count % 4) one(4 * fours + thread);
}

}  // namespace kvopt::cuda
