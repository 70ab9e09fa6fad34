#include <cuda_runtime.h>

#include <mutex>
#include <string>
#include <utility>

#include "kernels.cuh"
#include "kvopt/error.hpp"
#include "runtime.cuh"
#include "scorer.hpp"
#include "scoring/block.hpp"
#include "workspace.cuh"

namespace kvopt::cuda {

int device_count() noexcept {
  int count = 0;
  if (cudaGetDeviceCount(&count) == cudaSuccess) return count;
  cudaGetLastError();
  return 0;
}

std::string unavailable() {
  int count = 0;
  const cudaError_t error = cudaGetDeviceCount(&count);
  if (error == cudaSuccess) return count > 0 ? "" : "the driver shows no GPU";
  cudaGetLastError();
  return cudaGetErrorString(error);
}

int device_of(const void* memory) {
  cudaPointerAttributes attributes{};
  if (cudaPointerGetAttributes(&attributes, memory) != cudaSuccess) {
    cudaGetLastError();
    return -1;
  }
  const bool on_device = attributes.type == cudaMemoryTypeDevice || attributes.type == cudaMemoryTypeManaged;
  return on_device ? attributes.device : -1;
}

namespace {

void require_k(std::size_t count, std::size_t k) {
  if (count > kMostBlocks) {
    throw ConfigError(std::to_string(count) + " scores; at most " + std::to_string(kMostBlocks) + " can be compared");
  }
  if (k > count) throw ConfigError("k is " + std::to_string(k) + "; there are " + std::to_string(count) + " blocks");
}

// One word from the device, when everything before it on the stream is done.
unsigned fetch(const unsigned* from, cudaStream_t stream) {
  unsigned value = 0;
  check(cudaMemcpyAsync(&value, from, sizeof(value), cudaMemcpyDeviceToHost, stream), "cudaMemcpyAsync");
  check(cudaStreamSynchronize(stream), "cudaStreamSynchronize");
  return value;
}

void require_no_capture(cudaStream_t stream) {
  if (is_capturing(stream)) throw CudaError("checked mode waits for its stream, which a capture forbids");
}

class ValueCheck {
 public:
  ValueCheck(Workspace& workspace, std::size_t count, const Launch& launch) : count_(count), launch_(launch) {
    workspace.checks.reserve(sizeof(unsigned), launch.stream);
    first_ = workspace.checks.as<unsigned>();
  }

  void floats(const float* column, const std::string& name) {
    begin();
    launch_first_nan(column, count_, first_, launch_);
    const unsigned at = fetch(first_, launch_.stream);
    if (at < count_) throw ConfigError("feature '" + name + "' of block " + std::to_string(at) + " is NaN");
  }

  void classes(const std::uint8_t* column, std::uint32_t classes) {
    begin();
    launch_first_class(column, count_, classes, first_, launch_);
    const unsigned at = fetch(first_, launch_.stream);
    if (at >= count_) return;
    std::uint8_t value = 0;
    check(cudaMemcpyAsync(&value, column + at, 1, cudaMemcpyDeviceToHost, launch_.stream), "cudaMemcpyAsync");
    check(cudaStreamSynchronize(launch_.stream), "cudaStreamSynchronize");
    throw ConfigError("feature 'class' of block " + std::to_string(at) + " is " + std::to_string(value) +
                      "; the tables have " + std::to_string(classes) + " classes");
  }

 private:
  void begin() { check(cudaMemsetAsync(first_, 0xFF, sizeof(unsigned), launch_.stream), "cudaMemsetAsync"); }

  std::size_t count_;
  const Launch& launch_;
  unsigned* first_ = nullptr;
};

void require_values(const BlockFeatures& features, const PreparedScore& prepared, Workspace& workspace,
                    const Launch& launch) {
  ValueCheck values(workspace, features.count, launch);
  if ((prepared.columns & scoring::kLastUse) != 0) values.floats(features.last_use, "last_use");
  if ((prepared.columns & scoring::kCost) != 0) values.floats(features.cost, "cost");
  if ((prepared.columns & scoring::kPace) != 0) values.floats(features.pace, "pace");
  for (std::uint32_t e = 0; e < features.extra_columns; ++e) {
    if ((prepared.inputs_used >> (static_cast<std::uint32_t>(Input::kExtra) + e) & 1) == 0) continue;
    values.floats(features.extra + e * features.count, "extra' column '" + std::to_string(e));
  }
  if (prepared.score == Score::kWorkloadAware || prepared.score == Score::kRetentionIndex) {
    values.classes(features.cls, prepared.classes);
  }
}

}  // namespace

struct Scorer::Impl {
  explicit Impl(int device) : device(device) {
    const int count = device_count();
    if (count == 0) throw CudaError("no GPU can be used: " + unavailable());
    if (device < 0 || device >= count) {
      throw CudaError("there is no GPU " + std::to_string(device) + "; the driver shows " + std::to_string(count));
    }
    int processors = 0;
    check(cudaDeviceGetAttribute(&processors, cudaDevAttrMultiProcessorCount, device), "cudaDeviceGetAttribute");
    this->processors = static_cast<unsigned>(processors);
  }

  ~Impl() { wait_for_device(device); }
  Impl(const Impl&) = delete;
  Impl& operator=(const Impl&) = delete;

  Launch launch(Stream stream) const { return {reinterpret_cast<cudaStream_t>(stream), processors}; }

  void require_eligible(const unsigned* found, std::size_t k, const Launch& launch) const {
    const unsigned eligible = fetch(found, launch.stream);
    if (eligible < k) {
      throw ConfigError("k is " + std::to_string(k) + "; " + std::to_string(eligible) + " blocks are eligible");
    }
  }

  int device;
  unsigned processors = 0;
  std::mutex mutex;  // one caller queues at a time
  Workspaces workspaces;
};

Scorer::Scorer(int device) : impl_(std::make_unique<Impl>(device)) {}
Scorer::~Scorer() = default;

void Scorer::score(const BlockFeatures& features, const ScoreParams& params, Time now, float* out, Stream stream,
                   const DeviceOptions& options) {
  scoring::PreparedParams prepared = scoring::prepare(params, now);
  require_columns(features, prepared.view);
  if (features.count == 0) return;
  const std::lock_guard lock(impl_->mutex);
  const CurrentDevice current(impl_->device);
  const Launch launch = impl_->launch(stream);
  if (options.checked) require_no_capture(launch.stream);
  Workspace& workspace = impl_->workspaces.of(launch.stream);
  const PreparedScore view = workspace.params(std::move(prepared), launch.stream).view(now);
  if (options.checked) require_values(features, view, workspace, launch);
  launch_score(features, view, out, launch);
}

void Scorer::select_k(const float* scores, std::size_t count, std::size_t k, const std::uint8_t* eligible,
                      std::int64_t* out, Stream stream, const DeviceOptions& options) {
  require_k(count, k);
  if (k == 0) return;
  const std::lock_guard lock(impl_->mutex);
  const CurrentDevice current(impl_->device);
  const Launch launch = impl_->launch(stream);
  if (options.checked) require_no_capture(launch.stream);
  Workspace& workspace = impl_->workspaces.of(launch.stream);
  workspace.room.reserve(SelectionRoom(count, k).bytes, launch.stream);
  const unsigned* found = launch_select(scores, count, k, eligible, out, workspace.room.as<void>(), launch);
  if (options.checked) impl_->require_eligible(found, k, launch);
}

void Scorer::score_select(const BlockFeatures& features, const ScoreParams& params, Time now, std::size_t k,
                          const std::uint8_t* eligible, std::int64_t* out, Stream stream,
                          const DeviceOptions& options) {
  scoring::PreparedParams prepared = scoring::prepare(params, now);
  require_columns(features, prepared.view);
  require_k(features.count, k);
  if (k == 0) return;
  const std::lock_guard lock(impl_->mutex);
  const CurrentDevice current(impl_->device);
  const Launch launch = impl_->launch(stream);
  if (options.checked) require_no_capture(launch.stream);
  Workspace& workspace = impl_->workspaces.of(launch.stream);
  const PreparedScore view = workspace.params(std::move(prepared), launch.stream).view(now);
  workspace.room.reserve(SelectionRoom(features.count, k).bytes, launch.stream);
  if (options.checked) require_values(features, view, workspace, launch);
  for (std::size_t set = 0; set < view.sets; ++set) {
    const unsigned* found =
        launch_score_select(features, view, set, k, eligible, out + set * k, workspace.room.as<void>(), launch);
    if (options.checked) impl_->require_eligible(found, k, launch);
  }
}

}  // namespace kvopt::cuda
