// Results: memory that comes and goes in the order of a stream.
#include <cuda_runtime.h>

#include <mutex>
#include <vector>

#include "kvopt/error.hpp"
#include "runtime.cuh"
#include "scorer.hpp"

namespace kvopt::cuda {

namespace {

cudaStream_t to_stream(Stream stream) { return reinterpret_cast<cudaStream_t>(stream); }

struct Freed {
  int device;
  cudaStream_t stream;
  void* memory;
};

// A stream in a capture frees nothing but what the graph allocates; an attempt would spoil the capture. A destructor
// can come at any time, so what it meets there waits for the next one, or for the next allocation.
class Waiting {
 public:
  void add(const Freed& freed) {
    const std::lock_guard lock(mutex_);
    freed_.push_back(freed);
    free_all();
  }
  void retry() {
    const std::lock_guard lock(mutex_);
    free_all();
  }

 private:
  void free_all() {
    std::erase_if(freed_, [](const Freed& each) {
      int before = 0;
      ignore(cudaGetDevice(&before));
      ignore(cudaSetDevice(each.device));  // a default stream is that of the current device
      cudaStreamCaptureStatus status = cudaStreamCaptureStatusNone;
      const cudaError_t asked = cudaStreamIsCapturing(each.stream, &status);
      ignore(asked);
      const bool frees = asked == cudaSuccess && status == cudaStreamCaptureStatusNone;
      if (frees) ignore(cudaFreeAsync(each.memory, each.stream));
      ignore(cudaSetDevice(before));
      return frees;
    });
  }

  std::mutex mutex_;
  std::vector<Freed> freed_;
};

Waiting& waiting() {
  static Waiting all;
  return all;
}

}  // namespace

Memory::Memory(int device, std::size_t bytes, Stream stream) : device_(device), stream_(stream) {
  const CurrentDevice current(device);
  if (is_capturing(to_stream(stream))) throw CudaError("a result would be allocated during a capture; give out=");
  waiting().retry();
  void* memory = nullptr;
  check(cudaMallocAsync(&memory, bytes > 0 ? bytes : 1, to_stream(stream)), "cudaMallocAsync");
  pointer_ = reinterpret_cast<std::uintptr_t>(memory);
}

Memory::~Memory() {
  // Another thread's default stream has no name here; the legacy one waits for it.
  const bool of_thread = to_stream(stream_) == cudaStreamPerThread;
  waiting().add({device_, of_thread ? cudaStreamLegacy : to_stream(stream_), reinterpret_cast<void*>(pointer_)});
}

void copy_to_host(void* to, std::uintptr_t from, std::size_t bytes, int device, Stream stream) {
  const CurrentDevice current(device);
  check(cudaMemcpyAsync(to, reinterpret_cast<const void*>(from), bytes, cudaMemcpyDeviceToHost, to_stream(stream)),
        "cudaMemcpyAsync");
  check(cudaStreamSynchronize(to_stream(stream)), "cudaStreamSynchronize");
}

}  // namespace kvopt::cuda
