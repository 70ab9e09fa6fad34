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

inline void check_launch(const char* kernel) { check(cudaGetLastError(), kernel); }

// Makes `device` the current one of this thread, until the end of the scope.
class CurrentDevice {
 public:
  explicit CurrentDevice(int device) {
    check(cudaGetDevice(&before_), "cudaGetDevice");
    if (before_ != device) check(cudaSetDevice(device), "cudaSetDevice");
  }
  ~CurrentDevice() { cudaSetDevice(before_); }
  CurrentDevice(const CurrentDevice&) = delete;
  CurrentDevice& operator=(const CurrentDevice&) = delete;

 private:
  int before_ = 0;
};

inline bool is_capturing(cudaStream_t stream) {
  cudaStreamCaptureStatus status = cudaStreamCaptureStatusNone;
  check(cudaStreamIsCapturing(stream, &status), "cudaStreamIsCapturing");
  return status != cudaStreamCaptureStatusNone;
}

// Memory that grows and never shrinks. Growing is ordered on the stream that uses it and waits for nothing. What a
// graph has captured stays where it is.
class DeviceBuffer {
 public:
  DeviceBuffer() = default;
  ~DeviceBuffer() {
    for (void* memory : captured_) cudaFree(memory);
    if (data_ != nullptr) cudaFree(data_);
  }
  DeviceBuffer(const DeviceBuffer&) = delete;
  DeviceBuffer& operator=(const DeviceBuffer&) = delete;

  void reserve(std::size_t bytes, cudaStream_t stream) {
    const bool capturing = is_capturing(stream);
    if (bytes <= bytes_) {
      is_captured_ |= capturing;
      return;
    }
    if (capturing) {
      throw CudaError("a capture needs " + std::to_string(bytes) + " bytes of workspace and has " +
                      std::to_string(bytes_) + "; make the same call once before it");
    }
    void* grown = nullptr;
    check(cudaMallocAsync(&grown, bytes, stream), "cudaMallocAsync");
    if (is_captured_) {
      captured_.push_back(data_);
    } else if (data_ != nullptr) {
      check(cudaFreeAsync(data_, stream), "cudaFreeAsync");
    }
    data_ = grown;
    bytes_ = bytes;
    is_captured_ = false;
  }

  template <class T>
  T* as(std::size_t offset = 0) const {
    return reinterpret_cast<T*>(static_cast<char*>(data_) + offset);
  }

 private:
  void* data_ = nullptr;
  std::size_t bytes_ = 0;
  bool is_captured_ = false;
  std::vector<void*> captured_;  // former memory that graphs point to
};

}  // namespace kvopt::cuda
