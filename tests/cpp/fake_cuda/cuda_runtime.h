// A CUDA runtime without a device, for what keeps memory between calls (cuda/workspace.cu): streams whose captures a
// test begins and ends, memory of which it knows what is still allocated, and nothing that runs later than it is
// called.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <set>

struct FakeStream {
  unsigned long long id = 0;
  unsigned long long capture = 0;
};
using cudaStream_t = FakeStream*;
// NOLINTBEGIN(performance-no-int-to-ptr): so they are in CUDA
inline const auto cudaStreamLegacy = reinterpret_cast<cudaStream_t>(std::uintptr_t{1});
inline const auto cudaStreamPerThread = reinterpret_cast<cudaStream_t>(std::uintptr_t{2});
// NOLINTEND(performance-no-int-to-ptr)

enum cudaError_t { cudaSuccess, cudaErrorInvalidValue };
enum cudaStreamCaptureStatus { cudaStreamCaptureStatusNone, cudaStreamCaptureStatusActive };
enum cudaMemcpyKind { cudaMemcpyHostToDevice, cudaMemcpyDeviceToHost };

struct FakeDevice {
  FakeStream legacy{1};
  FakeStream thread{100};  // behind cudaStreamPerThread, of the thread that a test plays
  std::set<void*> allocated;
  cudaStream_t last_free = nullptr;
  int spoiled_captures = 0;
  int waits = 0;            // for the whole device
  int frees_unordered = 0;  // since it was last waited for
};
inline FakeDevice fake;

inline FakeStream& stream_behind(cudaStream_t stream) {
  if (stream == nullptr || stream == cudaStreamLegacy) return fake.legacy;
  return stream == cudaStreamPerThread ? fake.thread : *stream;
}

inline const char* cudaGetErrorString(cudaError_t /*error*/) { return "refused"; }
inline const char* cudaGetErrorName(cudaError_t /*error*/) { return "cudaErrorInvalidValue"; }
inline cudaError_t cudaGetLastError() { return cudaSuccess; }
inline cudaError_t cudaGetDevice(int* device) { return *device = 0, cudaSuccess; }
inline cudaError_t cudaSetDevice(int /*device*/) { return cudaSuccess; }

inline cudaError_t cudaDeviceSynchronize() {
  ++fake.waits;
  fake.frees_unordered = 0;
  return cudaSuccess;
}

inline cudaError_t cudaStreamGetId(cudaStream_t stream, unsigned long long* id) {
  return *id = stream_behind(stream).id, cudaSuccess;
}

inline cudaError_t cudaStreamGetCaptureInfo(cudaStream_t stream, cudaStreamCaptureStatus* status,
                                            unsigned long long* id) {
  *id = stream_behind(stream).capture;
  *status = *id == 0 ? cudaStreamCaptureStatusNone : cudaStreamCaptureStatusActive;
  return cudaSuccess;
}

inline cudaError_t cudaStreamIsCapturing(cudaStream_t stream, cudaStreamCaptureStatus* status) {
  unsigned long long id = 0;
  return cudaStreamGetCaptureInfo(stream, status, &id);
}

inline cudaError_t cudaStreamSynchronize(cudaStream_t /*stream*/) { return cudaSuccess; }

inline cudaError_t cudaMallocAsync(void** memory, std::size_t bytes, cudaStream_t stream) {
  if (stream_behind(stream).capture != 0) return cudaErrorInvalidValue;
  fake.allocated.insert(*memory = std::malloc(bytes));
  return cudaSuccess;
}

inline cudaError_t cudaFreeAsync(void* memory, cudaStream_t stream) {
  fake.last_free = stream;
  if (stream_behind(stream).capture != 0) return ++fake.spoiled_captures, cudaErrorInvalidValue;
  if (fake.allocated.erase(memory) == 0) return cudaErrorInvalidValue;
  std::free(memory);
  return cudaSuccess;
}

inline cudaError_t cudaFree(void* memory) {
  ++fake.frees_unordered;
  return cudaFreeAsync(memory, nullptr);
}

inline cudaError_t cudaMemcpyAsync(void* to, const void* from, std::size_t bytes, cudaMemcpyKind /*kind*/,
                                   cudaStream_t stream) {
  if (stream_behind(stream).capture != 0) return cudaErrorInvalidValue;
  std::memcpy(to, from, bytes);
  return cudaSuccess;
}
