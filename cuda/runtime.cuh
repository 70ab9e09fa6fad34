// CUDA's errors as exceptions, the device of a call, and memory that belongs to a stream.
#pragma once

#include <cuda_runtime.h>

#include <cstddef>
#include <string>
#include <vector>

#include "kvopt/error.hpp"

namespace kvopt::cuda {

inline void check(cudaError_t error, const char* what) {
  if (error == cudaSuccess) return;
  cudaGetLastError();  // so that the next call does not report this one
  throw CudaError(std::string(what) + ": " + cudaGetErrorString(error) + " (" + cudaGetErrorName(error) + ")");
}

// For destructors. The next call does not report it either.
inline void ignore(cudaError_t error) {
  if (error != cudaSuccess) cudaGetLastError();
}

inline void check_launch(const char* kernel) { check(cudaGetLastError(), kernel); }

// Makes `device` the current one of this thread, until the end of the scope.
class CurrentDevice {
 public:
  explicit CurrentDevice(int device) {
    check(cudaGetDevice(&before_), "cudaGetDevice");
    if (before_ != device) check(cudaSetDevice(device), "cudaSetDevice");
  }
  ~CurrentDevice() { ignore(cudaSetDevice(before_)); }
  CurrentDevice(const CurrentDevice&) = delete;
  CurrentDevice& operator=(const CurrentDevice&) = delete;

 private:
  int before_ = 0;
};

// For destructors of what holds a DeviceBuffer.
inline void wait_for_device(int device) {
  int before = 0;
  ignore(cudaGetDevice(&before));
  ignore(cudaSetDevice(device));
  ignore(cudaDeviceSynchronize());
  ignore(cudaSetDevice(before));
}

// The capture that the stream is in, or 0.
inline unsigned long long capture_of(cudaStream_t stream) {
  cudaStreamCaptureStatus status = cudaStreamCaptureStatusNone;
  unsigned long long id = 0;
  check(cudaStreamGetCaptureInfo(stream, &status, &id), "cudaStreamGetCaptureInfo");
  return status == cudaStreamCaptureStatusNone ? 0 : id;
}

inline bool is_capturing(cudaStream_t stream) { return capture_of(stream) != 0; }

// Memory that grows and never shrinks. Growing is ordered on the stream that uses it and waits for nothing.
//
// What a capture has used belongs to its graph from then on, as the graph may run on another stream, beside later calls
// or other graphs: it stays where it is, and what comes later takes other memory.
//
// CUDA frees such memory at once when it is not told the stream: whoever destroys a buffer has waited for the device,
// or has called release().
class DeviceBuffer {
 public:
  DeviceBuffer() = default;
  ~DeviceBuffer() {
    for (void* memory : captured_) ignore(cudaFree(memory));
    if (data_ != nullptr) ignore(cudaFree(data_));
  }
  DeviceBuffer(const DeviceBuffer&) = delete;
  DeviceBuffer& operator=(const DeviceBuffer&) = delete;

  void reserve(std::size_t bytes, cudaStream_t stream) {
    const unsigned long long capture = capture_of(stream);
    if (bytes <= bytes_ && (capture_ == 0 || capture_ == capture)) {
      capture_ = capture;
      return;
    }
    if (capture != 0) {
      throw CudaError("a capture needs " + std::to_string(bytes) + " bytes of workspace and has " +
                      std::to_string(capture_ == 0 ? bytes_ : 0) + "; make the same call once before it");
    }
    void* grown = nullptr;
    check(cudaMallocAsync(&grown, bytes, stream), "cudaMallocAsync");
    if (capture_ != 0) {
      captured_.push_back(data_);
    } else if (data_ != nullptr) {
      ignore(cudaFreeAsync(data_, stream));
    }
    data_ = grown;
    bytes_ = bytes;
    capture_ = 0;
  }

  // Gives the memory back when what the stream has queued is done. No graph has it.
  void release(cudaStream_t stream) {
    if (data_ != nullptr) ignore(cudaFreeAsync(data_, stream));
    data_ = nullptr;
    bytes_ = 0;
  }

  template <class T>
  T* as(std::size_t offset = 0) const {
    return reinterpret_cast<T*>(static_cast<char*>(data_) + offset);
  }

 private:
  void* data_ = nullptr;
  std::size_t bytes_ = 0;
  unsigned long long capture_ = 0;  // whose graph points to it
  std::vector<void*> captured_;     // former memory that graphs point to
};

}  // namespace kvopt::cuda
