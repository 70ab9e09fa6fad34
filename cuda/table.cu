#include "table.hpp"

#include <cuda_runtime.h>

#include <algorithm>
#include <array>
#include <cstring>

#include "runtime.cuh"
#include "scatter.cuh"

namespace kvopt::cuda {

namespace {

constexpr std::size_t kBatch = 1U << 16;  // rows a copy: 1.75 MiB of pinned memory

std::size_t padded(std::size_t bytes) { return (bytes + 255) / 256 * 256; }

// Pinned memory on the host and its copy on the device, with the event after which both may be written again.
class Staging {
 public:
  Staging() {
    check(cudaMallocHost(&host_, kBatch * sizeof(Change)), "cudaMallocHost");
    check(cudaEventCreateWithFlags(&taken_, cudaEventDisableTiming), "cudaEventCreate");
  }
  ~Staging() {
    if (taken_ != nullptr) ignore(cudaEventDestroy(taken_));
    ignore(cudaFreeHost(host_));
  }
  Staging(const Staging&) = delete;
  Staging& operator=(const Staging&) = delete;

  void send(std::span<const Change> changes, const Columns& to, cudaStream_t stream) {
    check(cudaEventSynchronize(taken_), "cudaEventSynchronize");
    device_.reserve(kBatch * sizeof(Change), stream);
    std::memcpy(host_, changes.data(), changes.size_bytes());
    check(cudaMemcpyAsync(device_.as<void>(), host_, changes.size_bytes(), cudaMemcpyHostToDevice, stream),
          "cudaMemcpyAsync");
    const auto grid = static_cast<unsigned>((changes.size() + kThreads - 1) / kThreads);
    scatter<<<grid, kThreads, 0, stream>>>(device_.as<const Change>(), changes.size(), to);
    check_launch("scatter");
    check(cudaEventRecord(taken_, stream), "cudaEventRecord");
  }

 private:
  void* host_ = nullptr;
  DeviceBuffer device_;
  cudaEvent_t taken_ = nullptr;
};

}  // namespace

struct Table::Impl {
  Impl(int device, std::size_t rows, cudaStream_t stream) : device(device), changes(rows) {
    const CurrentDevice current(device);
    const std::size_t words = padded(4 * rows);
    const std::size_t bytes = 5 * words + padded(rows);
    memory.reserve(bytes, stream);
    check(cudaMemsetAsync(memory.as<void>(), 0, bytes, stream), "cudaMemsetAsync");
    columns = {memory.as<float>(),
               memory.as<float>(words),
               memory.as<float>(2 * words),
               memory.as<std::uint32_t>(3 * words),
               memory.as<std::uint32_t>(4 * words),
               memory.as<std::uint8_t>(5 * words)};
    for (auto& each : staging) each = std::make_unique<Staging>();
    check(cudaEventCreateWithFlags(&written, cudaEventDisableTiming), "cudaEventCreate");
    check(cudaEventRecord(written, stream), "cudaEventRecord");
  }
  ~Impl() {
    wait_for_device(device);
    if (written != nullptr) ignore(cudaEventDestroy(written));
  }
  Impl(const Impl&) = delete;
  Impl& operator=(const Impl&) = delete;

  int device;
  RowChanges changes;
  DeviceBuffer memory;
  Columns columns{};
  std::array<std::unique_ptr<Staging>, 2> staging;
  std::size_t turn = 0;
  cudaEvent_t written = nullptr;  // the columns, by the last stream that did
};

Table::Table(int device, std::size_t rows, Stream stream)
    : impl_(std::make_unique<Impl>(device, rows, reinterpret_cast<cudaStream_t>(stream))) {}
Table::~Table() = default;

void Table::set(const std::uint32_t* rows, const Row* values, std::size_t count) {
  for (std::size_t i = 0; i < count; ++i) impl_->changes.require(rows[i]);
  for (std::size_t i = 0; i < count; ++i) impl_->changes.set(rows[i], values[i]);
}

std::size_t Table::pending() const { return impl_->changes.pending().size(); }

std::size_t Table::flush(Stream stream) {
  const CurrentDevice current(impl_->device);
  const auto on = reinterpret_cast<cudaStream_t>(stream);
  if (is_capturing(on)) throw CudaError("a flush sends what changes later, which a capture cannot keep");
  const std::span<const Change> all = impl_->changes.pending();
  if (all.empty()) return 0;
  check(cudaStreamWaitEvent(on, impl_->written, 0), "cudaStreamWaitEvent");
  std::size_t sent = 0;
  try {
    while (sent < all.size()) {
      const std::span<const Change> batch = all.subspan(sent, std::min(kBatch, all.size() - sent));
      impl_->staging[impl_->turn++ % 2]->send(batch, impl_->columns, on);
      sent += batch.size();
      check(cudaEventRecord(impl_->written, on), "cudaEventRecord");
    }
  } catch (...) {
    impl_->changes.sent(sent);
    throw;
  }
  impl_->changes.sent(sent);
  return sent;
}

BlockFeatures Table::features() const {
  const Columns& columns = impl_->columns;
  BlockFeatures features;
  features.count = impl_->changes.rows();
  features.last_use = columns.last_use;
  features.cost = columns.cost;
  features.pace = columns.pace;
  features.hits = columns.hits;
  features.depth = columns.depth;
  features.cls = columns.cls;
  return features;
}

int Table::device() const { return impl_->device; }

}  // namespace kvopt::cuda
