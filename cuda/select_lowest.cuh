// The order in which the kernels of a selection run. A queue takes them: the stream of a device (select.cu), or a test
// that runs each on the spot.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>

#include "launch.cuh"
#include "selection.cuh"

namespace kvopt::cuda {

// Candidates that there is room for: twice what is wanted; where k is small, the sample's limit lets through about
// 9 / share, share = kSamples / count, and seldom 36 / share.
inline std::size_t selection_capacity(std::size_t count, std::size_t k) {
  return std::min(std::max(count, std::size_t{kSamples}), 2 * k + 65'536 + 36 * (count / kSamples));
}

// About as many of the sample lie below the k-th lowest of all, and a few more: three times the deviation where the
// four neighbours of a stretch have scores alike.
inline unsigned sample_rank(std::size_t count, std::size_t k) {
  const double below = static_cast<double>(k) * kSamples / static_cast<double>(count);
  return static_cast<unsigned>(below + 6 * std::sqrt(below) + 8);
}

// Where a selection works: `candidates` and `sorted` have room for `capacity`.
struct SelectionParts {
  Selection* selection;
  Candidate* candidates;
  Candidate* sorted;
  std::size_t capacity;
};

// Queue: run(kernel, threads, arguments...) with one thread or with kThreads a block; fill(candidates, count) with
// kNone; sort(from, to, count); threads(count), as many as a pass over `count` scores takes.
template <class Queue, class Source>
void select_lowest(Queue& queue, const Source& source, std::size_t set, std::size_t count, std::size_t k,
                   const std::uint8_t* eligible, std::int64_t* out, const SelectionParts& parts) {
  Selection* selection = parts.selection;
  const std::size_t capacity = parts.capacity;
  const std::size_t pass_threads = queue.threads(count);
  queue.run(begin_selection, kThreads, selection);
  const bool sampled = count > capacity;
  if (sampled) {
    queue.run(sample_scores<Source>, kStretches, source, set, count, eligible, parts.candidates);
    queue.sort(parts.candidates, parts.sorted, kSamples);
    queue.run(limit_by_sample, 1, selection, parts.sorted, sample_rank(count, k));
  }
  queue.fill(parts.candidates, capacity);
  queue.run(collect<Source>, pass_threads, source, set, count, eligible, selection, parts.candidates, capacity, false);
  if (sampled) {
    queue.run(judge, 1, selection, k, capacity);
    for (unsigned pass = 0; pass < kPasses; ++pass) {
      queue.run(count_digits<Source>, pass_threads, source, set, count, eligible, selection, pass);
      queue.run(narrow, 1, selection, pass);
    }
    queue.run(clear_candidates, queue.threads(capacity), selection, parts.candidates, capacity);
    queue.run(collect<Source>, pass_threads, source, set, count, eligible, selection, parts.candidates, capacity, true);
  }
  queue.sort(parts.candidates, parts.sorted, capacity);
  queue.run(write_indices, queue.threads(k), parts.sorted, k, selection, out);
}

}  // namespace kvopt::cuda
