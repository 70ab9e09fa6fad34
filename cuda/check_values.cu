// The look at all features of checked mode: where the first value stands that no score may see.
#include "kernels.cuh"
#include "launch.cuh"
#include "runtime.cuh"

namespace kvopt::cuda {

namespace {

template <class T, class Bad>
__device__ inline void find_first(const T* column, std::size_t count, const Bad& bad, unsigned* first) {
  const std::size_t stride = std::size_t{gridDim.x} * blockDim.x;
  for (std::size_t i = std::size_t{blockIdx.x} * blockDim.x + threadIdx.x; i < count; i += stride) {
    if (!bad(column[i])) continue;
    atomicMin(first, static_cast<unsigned>(i));
    return;  // what this thread sees later is later
  }
}

__global__ void __launch_bounds__(kThreads) first_nan(const float* column, std::size_t count, unsigned* first) {
  find_first(column, count, [](float x) { return x != x; }, first);
}

__global__ void __launch_bounds__(kThreads)
    first_class(const std::uint8_t* column, std::size_t count, std::uint32_t classes, unsigned* first) {
  find_first(column, count, [classes](std::uint8_t c) { return c >= classes; }, first);
}

}  // namespace

void launch_first_nan(const float* column, std::size_t count, unsigned* first, const Launch& launch) {
  first_nan<<<grid_for(count, launch.processors), kThreads, 0, launch.stream>>>(column, count, first);
  check_launch("first_nan");
}

void launch_first_class(const std::uint8_t* column, std::size_t count, std::uint32_t classes, unsigned* first,
                        const Launch& launch) {
  first_class<<<grid_for(count, launch.processors), kThreads, 0, launch.stream>>>(column, count, classes, first);
  check_launch("first_class");
}

}  // namespace kvopt::cuda
