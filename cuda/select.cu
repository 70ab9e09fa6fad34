// The k lowest, of scores in memory or of scores that are computed on the way and forgotten.
#include <cub/device/device_radix_sort.cuh>

#include <algorithm>

#include "kernels.cuh"
#include "runtime.cuh"
#include "select_lowest.cuh"
#include "sources.cuh"

namespace kvopt::cuda {

namespace {

std::size_t padded(std::size_t bytes) { return (bytes + 255) / 256 * 256; }

// The stream of a device, for select_lowest().
class StreamQueue {
 public:
  StreamQueue(const Launch& launch, void* sort_room, std::size_t sort_bytes)
      : launch_(launch), sort_room_(sort_room), sort_bytes_(sort_bytes) {}

  std::size_t threads(std::size_t count) const { return std::size_t{grid_for(count, launch_.processors)} * kThreads; }

  template <class... Parameters, class... Arguments>
  void run(void (*kernel)(Parameters...), std::size_t threads, const Arguments&... arguments) {
    const auto block = static_cast<unsigned>(std::min<std::size_t>(threads, kThreads));
    const auto grid = static_cast<unsigned>((threads + block - 1) / block);
    kernel<<<grid, block, 0, launch_.stream>>>(arguments...);
    check_launch("a kernel of select_k");
  }

  void fill(Candidate* candidates, std::size_t count) {
    check(cudaMemsetAsync(candidates, 0xFF, count * sizeof(Candidate), launch_.stream), "cudaMemsetAsync");
  }

  void sort(const Candidate* from, Candidate* to, std::size_t count) {
    check(cub::DeviceRadixSort::SortKeys(sort_room_, sort_bytes_, from, to, count, 0, 64, launch_.stream),
          "cub::DeviceRadixSort");
  }

 private:
  const Launch& launch_;
  void* sort_room_;
  std::size_t sort_bytes_;
};

template <class Source>
const unsigned* select(const Source& source, std::size_t set, std::size_t count, std::size_t k,
                       const std::uint8_t* eligible, std::int64_t* out, void* room, const Launch& launch) {
  const SelectionRoom sizes(count, k);
  auto* selection = static_cast<Selection*>(room);
  auto* candidates = reinterpret_cast<Candidate*>(static_cast<char*>(room) + padded(sizeof(Selection)));
  Candidate* sorted = candidates + sizes.capacity;
  // CUB wants its room on a boundary of 256 bytes.
  void* sort_room = reinterpret_cast<char*>(candidates) + padded(2 * sizes.capacity * sizeof(Candidate));
  StreamQueue queue(launch, sort_room, sizes.sort_bytes);
  select_lowest(queue, source, set, count, k, eligible, out, {selection, candidates, sorted, sizes.capacity});
  return &selection->found;
}

}  // namespace

SelectionRoom::SelectionRoom(std::size_t count, std::size_t k) : capacity(selection_capacity(count, k)), sort_bytes(0) {
  check(cub::DeviceRadixSort::SortKeys(nullptr, sort_bytes, static_cast<const Candidate*>(nullptr),
                                       static_cast<Candidate*>(nullptr), capacity),
        "cub::DeviceRadixSort");
  bytes = padded(sizeof(Selection)) + padded(2 * capacity * sizeof(Candidate)) + sort_bytes;
}

const unsigned* launch_select(const float* scores, std::size_t count, std::size_t k, const std::uint8_t* eligible,
                              std::int64_t* out, void* room, const Launch& launch) {
  return select(StoredSource{scores, is_aligned(scores)}, 0, count, k, eligible, out, room, launch);
}

const unsigned* launch_score_select(const BlockFeatures& features, const PreparedScore& prepared, std::size_t set,
                                    std::size_t k, const std::uint8_t* eligible, std::int64_t* out, void* room,
                                    const Launch& launch) {
  const unsigned* found = nullptr;
  with_source(features, prepared,
              [&](const auto& source) { found = select(source, set, features.count, k, eligible, out, room, launch); });
  return found;
}

}  // namespace kvopt::cuda
