// The k lowest, of scores in memory or of scores that are computed on the way and forgotten.
#include <cub/device/device_radix_sort.cuh>

#include <algorithm>
#include <cmath>

#include "kernels.cuh"
#include "runtime.cuh"
#include "selection.cuh"
#include "sources.cuh"

namespace kvopt::cuda {

namespace {

__global__ void begin_selection(Selection* selection) {
  for (unsigned d = threadIdx.x; d < kDigits; d += blockDim.x) selection->histogram[d] = 0;
  if (threadIdx.x != 0) return;
  selection->limit = kNone;
  selection->found = 0;
  selection->searching = 0;
}

// `sorted` holds the sample; beyond the eligible ones stands kNone.
__global__ void limit_by_sample(Selection* selection, const Candidate* sorted, unsigned rank) {
  selection->limit = rank < kSamples ? sorted[rank] : kNone;
}

// Whether what was collected serves; where it does not, the search begins.
__global__ void judge(Selection* selection, std::size_t k, std::size_t capacity) {
  const bool all = selection->limit == kNone;
  if (selection->found <= capacity && (all || selection->found >= k)) return;
  selection->searching = 1;
  selection->found = 0;
  selection->limit = kNone;
  selection->prefix = 0;
  selection->rank = k - 1;
}

// One digit more of the k-th lowest. One thread: 2,048 steps, in the rare case only.
__global__ void narrow(Selection* selection, unsigned pass) {
  if (selection->searching == 0 || selection->searching > kPasses) return;
  const unsigned above = 64 - kDigitBits * pass;
  const unsigned bits = min(above, kDigitBits);
  unsigned long long rank = selection->rank;
  unsigned digit = 0;
  while (digit < kDigits && rank >= selection->histogram[digit]) rank -= selection->histogram[digit++];
  for (unsigned d = 0; d < kDigits; ++d) selection->histogram[d] = 0;
  if (digit == kDigits) {  // fewer than k are eligible: all are taken
    selection->searching = kPasses + 1;
    return;
  }
  selection->prefix = selection->prefix << bits | digit;
  selection->rank = rank;
  if (above <= kDigitBits) selection->limit = selection->prefix;
}

__global__ void clear_candidates(const Selection* selection, Candidate* candidates, std::size_t capacity) {
  if (selection->searching == 0) return;
  const std::size_t stride = std::size_t{gridDim.x} * blockDim.x;
  for (std::size_t i = std::size_t{blockIdx.x} * blockDim.x + threadIdx.x; i < capacity; i += stride) {
    candidates[i] = kNone;
  }
}

__global__ void write_indices(const Candidate* sorted, std::size_t k, const Selection* selection, std::uint32_t* out) {
  const std::size_t stride = std::size_t{gridDim.x} * blockDim.x;
  for (std::size_t i = std::size_t{blockIdx.x} * blockDim.x + threadIdx.x; i < k; i += stride) {
    out[i] = i < selection->found ? static_cast<std::uint32_t>(sorted[i]) : UINT32_MAX;
  }
}

std::size_t padded(std::size_t bytes) { return (bytes + 255) / 256 * 256; }

struct Parts {
  Parts(void* room, const SelectionRoom& sizes)
      : selection(static_cast<Selection*>(room)),
        candidates(reinterpret_cast<Candidate*>(static_cast<char*>(room) + padded(sizeof(Selection)))),
        sorted(candidates + sizes.capacity),
        sort(static_cast<void*>(sorted + sizes.capacity)) {}

  Selection* selection;
  Candidate* candidates;
  Candidate* sorted;
  void* sort;
};

void sort(const Parts& parts, const SelectionRoom& sizes, std::size_t count, cudaStream_t stream) {
  std::size_t bytes = sizes.sort_bytes;
  check(cub::DeviceRadixSort::SortKeys(parts.sort, bytes, parts.candidates, parts.sorted, count, 0, 64, stream),
        "cub::DeviceRadixSort");
}

// About as many of the sample lie below the k-th lowest of all, and a few more.
unsigned sample_rank(std::size_t count, std::size_t k) {
  const double below = static_cast<double>(k) * kSamples / static_cast<double>(count);
  return static_cast<unsigned>(below + 4 * std::sqrt(below) + 8);
}

template <class Source>
const unsigned* select(const Source& source, std::size_t set, std::size_t count, std::size_t k,
                       const std::uint8_t* eligible, std::uint32_t* out, void* room, const Launch& launch) {
  const SelectionRoom sizes(count, k);
  const Parts parts(room, sizes);
  const unsigned grid = grid_for(count, launch.processors);
  const cudaStream_t stream = launch.stream;
  begin_selection<<<1, kThreads, 0, stream>>>(parts.selection);
  const bool sampled = count > sizes.capacity;
  if (sampled) {
    sample_scores<<<kStretches / kThreads, kThreads, 0, stream>>>(source, set, count, eligible, parts.candidates);
    sort(parts, sizes, kSamples, stream);
    limit_by_sample<<<1, 1, 0, stream>>>(parts.selection, parts.sorted, sample_rank(count, k));
  }
  check(cudaMemsetAsync(parts.candidates, 0xFF, sizes.capacity * sizeof(Candidate), stream), "cudaMemsetAsync");
  collect<<<grid, kThreads, 0, stream>>>(source, set, count, eligible, parts.selection, parts.candidates,
                                         sizes.capacity, false);
  if (sampled) {
    judge<<<1, 1, 0, stream>>>(parts.selection, k, sizes.capacity);
    for (unsigned pass = 0; pass < kPasses; ++pass) {
      count_digits<<<grid, kThreads, 0, stream>>>(source, set, count, eligible, parts.selection, pass);
      narrow<<<1, 1, 0, stream>>>(parts.selection, pass);
    }
    clear_candidates<<<grid_for(sizes.capacity, launch.processors), kThreads, 0, stream>>>(
        parts.selection, parts.candidates, sizes.capacity);
    collect<<<grid, kThreads, 0, stream>>>(source, set, count, eligible, parts.selection, parts.candidates,
                                           sizes.capacity, true);
  }
  sort(parts, sizes, sizes.capacity, stream);
  write_indices<<<grid_for(k, launch.processors), kThreads, 0, stream>>>(parts.sorted, k, parts.selection, out);
  check_launch("selection");
  return &parts.selection->found;
}

}  // namespace

SelectionRoom::SelectionRoom(std::size_t count, std::size_t k)
    // Twice what is wanted; where k is small, the sample's limit lets through 9 / share and seldom 36 / share.
    : capacity(std::min(std::max(count, std::size_t{kSamples}), 2 * k + 65'536 + 36 * (count / kSamples))),
      sort_bytes(0) {
  check(cub::DeviceRadixSort::SortKeys(nullptr, sort_bytes, static_cast<const Candidate*>(nullptr),
                                       static_cast<Candidate*>(nullptr), capacity),
        "cub::DeviceRadixSort");
  bytes = padded(sizeof(Selection)) + 2 * capacity * sizeof(Candidate) + 256 + sort_bytes;
}

const unsigned* launch_select(const float* scores, std::size_t count, std::size_t k, const std::uint8_t* eligible,
                              std::uint32_t* out, void* room, const Launch& launch) {
  return select(StoredSource{scores, is_aligned(scores)}, 0, count, k, eligible, out, room, launch);
}

const unsigned* launch_score_select(const BlockFeatures& features, const PreparedScore& prepared, std::size_t set,
                                    std::size_t k, const std::uint8_t* eligible, std::uint32_t* out, void* room,
                                    const Launch& launch) {
  const unsigned* found = nullptr;
  with_source(features, prepared,
              [&](const auto& source) { found = select(source, set, features.count, k, eligible, out, room, launch); });
  return found;
}

}  // namespace kvopt::cuda
