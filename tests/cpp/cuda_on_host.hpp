// What kernels need to run on the host, one thread after another: the words of CUDA that cuda/*.cuh use. Each block has
// one thread, so nothing waits at a barrier.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

#define __global__
#define __device__
#define __shared__ static
#define __grid_constant__
#define __launch_bounds__(threads)

struct float4 {
  float x, y, z, w;
};
struct uint4 {
  unsigned x, y, z, w;
};
struct uchar4 {
  unsigned char x, y, z, w;
};

struct Place {
  unsigned x = 0;
};
inline Place blockIdx;
inline Place threadIdx;
inline Place blockDim{1};
inline Place gridDim{1};

inline void __syncthreads() {}

template <class T>
T __ldcs(const T* from) {
  return *from;
}

template <class T>
T atomicAdd(T* to, T value) {
  const T before = *to;
  *to = before + value;
  return before;
}

using std::min;

namespace kvopt::test {

// A queue for cuda/select_lowest.cuh: every kernel runs at once, with as many blocks of one thread.
struct HostQueue {
  std::size_t pass_threads = 37;

  std::size_t threads(std::size_t /*count*/) const { return pass_threads; }

  template <class... Parameters, class... Arguments>
  void run(void (*kernel)(Parameters...), std::size_t threads, const Arguments&... arguments) {
    gridDim.x = static_cast<unsigned>(threads);
    for (blockIdx.x = 0; blockIdx.x < threads; ++blockIdx.x) kernel(arguments...);
  }

  template <class T>
  void fill(T* values, std::size_t count) {
    std::fill_n(values, count, ~T{0});
  }

  template <class T>
  void sort(const T* from, T* to, std::size_t count) {
    std::copy_n(from, count, to);
    std::sort(to, to + count);
  }
};

}  // namespace kvopt::test
