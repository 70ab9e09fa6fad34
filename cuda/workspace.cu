#include "workspace.cuh"

#include <cstring>
#include <utility>
#include <vector>

namespace kvopt::cuda {

namespace {

template <class T>
std::size_t bytes_of(const std::vector<T>& values) {
  return values.size() * sizeof(T);
}

// Bit by bit, as tables hold NaN where there is no class.
template <class T>
bool same(const std::vector<T>& a, const std::vector<T>& b) {
  return a.size() == b.size() && (a.empty() || std::memcmp(a.data(), b.data(), bytes_of(a)) == 0);
}

}  // namespace

DeviceParams::DeviceParams(scoring::PreparedParams params, cudaStream_t stream) : params_(std::move(params)) {
  const std::size_t doubles = bytes_of(params_.doubles);
  const std::size_t floats = bytes_of(params_.floats);
  const std::size_t numbers = bytes_of(params_.numbers);
  memory_.reserve(doubles + floats + numbers + 1, stream);
  // Pageable memory: CUDA has taken it over when the call returns.
  const auto copy = [&](const void* from, std::size_t offset, std::size_t bytes) {
    if (bytes == 0) return;
    check(cudaMemcpyAsync(memory_.as<char>(offset), from, bytes, cudaMemcpyHostToDevice, stream), "cudaMemcpyAsync");
  };
  copy(params_.doubles.data(), 0, doubles);
  copy(params_.floats.data(), doubles, floats);
  copy(params_.numbers.data(), doubles + floats, numbers);
}

bool DeviceParams::holds(const scoring::PreparedParams& params) const {
  const scoring::PreparedScore& a = params_.view;
  const scoring::PreparedScore& b = params.view;
  return a.score == b.score && a.sets == b.sets && a.classes == b.classes && a.forest.trees == b.forest.trees &&
         a.forest.depth == b.forest.depth && a.network.inputs == b.network.inputs &&
         a.network.hidden == b.network.hidden && same(params_.doubles, params.doubles) &&
         same(params_.floats, params.floats) && same(params_.numbers, params.numbers);
}

scoring::PreparedScore DeviceParams::view(double now) const {
  scoring::PreparedScore view = params_.view;
  view.now = now;
  view.doubles = memory_.as<double>();
  view.floats = memory_.as<float>(bytes_of(params_.doubles));
  view.numbers = memory_.as<std::int32_t>(bytes_of(params_.doubles) + bytes_of(params_.floats));
  return view;
}

const DeviceParams& Workspace::params(scoring::PreparedParams params, cudaStream_t stream) {
  const bool capturing = is_capturing(stream);
  for (auto known = params_.begin(); known != params_.end(); ++known) {
    if (!known->holds(params)) continue;
    known->captured |= capturing;
    params_.splice(params_.begin(), params_, known);
    return params_.front();
  }
  if (capturing) {
    throw CudaError("parameters would be copied to the device during a capture; make the same call once before it");
  }
  params_.emplace_front(std::move(params), stream);
  std::size_t kept = 0;
  for (auto each = params_.begin(); each != params_.end();) {
    if (each->captured || ++kept <= kKept) {
      ++each;
      continue;
    }
    each->release(stream);
    each = params_.erase(each);
  }
  return params_.front();
}

Workspace& Workspaces::of(cudaStream_t stream) {
  unsigned long long id = 0;
  check(cudaStreamGetId(stream, &id), "cudaStreamGetId");
  const auto handle = reinterpret_cast<std::uintptr_t>(stream);
  const bool special = stream == nullptr || stream == cudaStreamLegacy || stream == cudaStreamPerThread;
  const auto [entry, is_new] = known_.try_emplace(special ? std::pair{std::uintptr_t{0}, id} : std::pair{handle, 0ULL});
  Workspace& workspace = entry->second;
  if (!is_new && workspace.stream_ != id) {
    if (is_capturing(stream))
      throw CudaError("the first call on a stream is in a capture; make the same call before it");
    check(cudaDeviceSynchronize(), "cudaDeviceSynchronize");
  }
  workspace.stream_ = id;
  return workspace;
}

}  // namespace kvopt::cuda
