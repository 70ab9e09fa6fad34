// The kernels of a selection of the k lowest.
//
// A candidate is an order key and an index in 64 bits, so all are different and the order of the integers is that of a
// stable argsort. A limit from a sorted sample lets one pass collect a few more than k candidates, which are sorted. A
// limit that let too few or too many through is replaced by the k-th lowest candidate itself, found by radix selection
// in six passes; those kernels are always queued and leave at once where they are not needed, as nothing may ask the
// device on the way.
#pragma once

#include <cstddef>
#include <cstdint>

#include "launch.cuh"
#include "scoring/target.hpp"

namespace kvopt::cuda {

using Candidate = unsigned long long;
inline constexpr Candidate kNone = ~Candidate{0};

inline constexpr unsigned kStretches = 8192;
inline constexpr unsigned kSamples = 4 * kStretches;
inline constexpr unsigned kDigitBits = 11;
inline constexpr unsigned kDigits = 1U << kDigitBits;
inline constexpr unsigned kPasses = 6;  // 6 * 11 bits cover 64

struct Selection {
  Candidate limit;          // what is above is not collected
  unsigned found;           // candidates that were not above it
  unsigned searching;       // whether the sample's limit was no use
  Candidate prefix;         // of the k-th lowest: the digits that are known
  unsigned long long rank;  // of it among those that share them
  unsigned histogram[kDigits];
};

__device__ inline Candidate candidate_of(float score, std::size_t i) {
  return Candidate{scoring::order_key(score)} << 32 | static_cast<Candidate>(i);
}
__device__ inline bool is_eligible(const std::uint8_t* eligible, std::size_t i) {
  return eligible == nullptr || eligible[i] != 0;
}

// Four neighbours from each of kStretches places; count is at least kSamples.
template <class Source>
__global__ void __launch_bounds__(kThreads)
    sample_scores(const __grid_constant__ Source source, std::size_t set, std::size_t count,
                  const std::uint8_t* eligible, Candidate* sample) {
  const auto bound = source.bind(set);
  const std::size_t stretch = std::size_t{blockIdx.x} * blockDim.x + threadIdx.x;
  if (stretch >= kStretches) return;
  const std::size_t begin = (count / 4 - 1) / (kStretches - 1) * stretch * 4;
  float s[4];
  bound.four(begin, s);
  for (std::size_t j = 0; j < 4; ++j) {
    const std::size_t i = begin + j;
    sample[4 * stretch + j] = is_eligible(eligible, i) ? candidate_of(s[j], i) : kNone;
  }
}

// Every eligible candidate that is not above the limit, in any order. In the second round only where it is needed.
template <class Source>
__global__ void __launch_bounds__(kThreads)
    collect(const __grid_constant__ Source source, std::size_t set, std::size_t count, const std::uint8_t* eligible,
            Selection* selection, Candidate* candidates, std::size_t capacity, bool second) {
  if (second && selection->searching == 0) return;
  const auto bound = source.bind(set);
  const Candidate limit = selection->limit;
  const auto offer = [&](float score, std::size_t i) {
    const Candidate candidate = candidate_of(score, i);
    if (candidate > limit || !is_eligible(eligible, i)) return;
    const unsigned place = atomicAdd(&selection->found, 1U);  // the compiler adds up a warp first
    if (place < capacity) candidates[place] = candidate;
  };
  for_each_four(
      count,
      [&](std::size_t i) {
        float s[4];
        bound.four(i, s);
        for (std::size_t j = 0; j < 4; ++j) offer(s[j], i + j);
      },
      [&](std::size_t i) { offer(bound.one(i), i); });
}

// How many candidates with the known prefix have each value of the next digit.
template <class Source>
__global__ void __launch_bounds__(kThreads)
    count_digits(const __grid_constant__ Source source, std::size_t set, std::size_t count,
                 const std::uint8_t* eligible, Selection* selection, unsigned pass) {
  if (selection->searching == 0) return;
  __shared__ unsigned histogram[kDigits];
  for (unsigned d = threadIdx.x; d < kDigits; d += blockDim.x) histogram[d] = 0;
  __syncthreads();
  const auto bound = source.bind(set);
  const unsigned above = 64 - kDigitBits * pass;  // bits that are not known yet; 64 at first
  const unsigned below = above > kDigitBits ? above - kDigitBits : 0;
  const Candidate prefix = selection->prefix;
  const auto offer = [&](float score, std::size_t i) {
    if (!is_eligible(eligible, i)) return;
    const Candidate candidate = candidate_of(score, i);
    if (above < 64 && candidate >> above != prefix) return;
    atomicAdd(&histogram[candidate >> below & ((Candidate{1} << (above - below)) - 1)], 1U);
  };
  for_each_four(
      count,
      [&](std::size_t i) {
        float s[4];
        bound.four(i, s);
        for (std::size_t j = 0; j < 4; ++j) offer(s[j], i + j);
      },
      [&](std::size_t i) { offer(bound.one(i), i); });
  __syncthreads();
  for (unsigned d = threadIdx.x; d < kDigits; d += blockDim.x) {
    if (histogram[d] != 0) atomicAdd(&selection->histogram[d], histogram[d]);
  }
}

static __global__ void begin_selection(Selection* selection) {
  for (unsigned d = threadIdx.x; d < kDigits; d += blockDim.x) selection->histogram[d] = 0;
  if (threadIdx.x != 0) return;
  selection->limit = kNone;
  selection->found = 0;
  selection->searching = 0;
}

// `sorted` holds the sample; beyond the eligible ones stands kNone.
static __global__ void limit_by_sample(Selection* selection, const Candidate* sorted, unsigned rank) {
  selection->limit = rank < kSamples ? sorted[rank] : kNone;
}

// Whether what was collected serves; where it does not, the search begins.
static __global__ void judge(Selection* selection, std::size_t k, std::size_t capacity) {
  const bool all = selection->limit == kNone;
  if (selection->found <= capacity && (all || selection->found >= k)) return;
  selection->searching = 1;
  selection->found = 0;
  selection->limit = kNone;
  selection->prefix = 0;
  selection->rank = k - 1;
}

// One digit more of the k-th lowest. One thread: 2,048 steps, in the rare case only.
static __global__ void narrow(Selection* selection, unsigned pass) {
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

static __global__ void clear_candidates(const Selection* selection, Candidate* candidates, std::size_t capacity) {
  if (selection->searching == 0) return;
  const std::size_t stride = std::size_t{gridDim.x} * blockDim.x;
  for (std::size_t i = std::size_t{blockIdx.x} * blockDim.x + threadIdx.x; i < capacity; i += stride) {
    candidates[i] = kNone;
  }
}

static __global__ void write_indices(const Candidate* sorted, std::size_t k, const Selection* selection,
                                     std::int64_t* out) {
  const std::size_t stride = std::size_t{gridDim.x} * blockDim.x;
  for (std::size_t i = std::size_t{blockIdx.x} * blockDim.x + threadIdx.x; i < k; i += stride) {
    out[i] = i < selection->found ? static_cast<std::int64_t>(sorted[i] & UINT32_MAX) : -1;
  }
}

}  // namespace kvopt::cuda
