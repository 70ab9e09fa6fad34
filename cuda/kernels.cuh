// What Scorer queues. All of it is asynchronous on the stream and allocates nothing.
#pragma once

#include <cuda_runtime.h>

#include <cstddef>
#include <cstdint>

#include "kvopt/scoring.hpp"
#include "scoring/prepared.hpp"

namespace kvopt::cuda {

using scoring::PreparedScore;

struct Launch {
  cudaStream_t stream;
  unsigned processors;  // of the device
};

// `prepared` points into the device's memory, as do the columns. out[set * count + block].
void launch_score(const BlockFeatures& features, const PreparedScore& prepared, float* out, const Launch& launch);

// Parts of the memory that a selection of k of `count` scores works in.
struct SelectionRoom {
  SelectionRoom(std::size_t count, std::size_t k);

  std::size_t capacity;    // candidates
  std::size_t sort_bytes;  // that CUB asks for
  std::size_t bytes;       // in all
};

// The k lowest of stored scores, or of the scores of set `set`; `room` has SelectionRoom(...).bytes. `out`: k indices,
// -1 beyond the eligible ones. Returns where the device will have the number of eligible blocks, if that is
// less than k, or else any number not below k.
const unsigned* launch_select(const float* scores, std::size_t count, std::size_t k, const std::uint8_t* eligible,
                              std::int64_t* out, void* room, const Launch& launch);
const unsigned* launch_score_select(const BlockFeatures& features, const PreparedScore& prepared, std::size_t set,
                                    std::size_t k, const std::uint8_t* eligible, std::int64_t* out, void* room,
                                    const Launch& launch);

// first[0]: the first index of a NaN in `column`, if it is below what is there already.
void launch_first_nan(const float* column, std::size_t count, unsigned* first, const Launch& launch);
// first[0]: the first index of a class that is not below `classes`.
void launch_first_class(const std::uint8_t* column, std::size_t count, std::uint32_t classes, unsigned* first,
                        const Launch& launch);

}  // namespace kvopt::cuda
