// A range of blocks in contiguous parts, one a thread.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <thread>
#include <vector>

#include "scoring/kernels.hpp"

namespace kvopt::scoring {

inline std::size_t parts_of(std::size_t count, std::uint32_t threads) {
  return std::clamp<std::size_t>((count + kTile - 1) / kTile, 1, threads);
}

// Calls work(part, begin, end) for each part at the same time, the first on this thread. `work` does not throw.
template <class Work>
void for_each_part(std::size_t count, std::size_t parts, const Work& work) {
  const std::size_t tiles = (count + kTile - 1) / kTile;
  const auto begin_of = [&](std::size_t part) { return std::min(count, tiles * part / parts * kTile); };
  std::vector<std::jthread> others;
  others.reserve(parts - 1);
  for (std::size_t part = 1; part < parts; ++part) {
    others.emplace_back([&, part] { work(part, begin_of(part), begin_of(part + 1)); });
  }
  work(0, 0, begin_of(1));
}

// Calls each(begin, end) for tiles of [begin, end).
template <class Each>
void for_each_tile(std::size_t begin, std::size_t end, const Each& each) {
  for (; begin < end; begin += kTile) each(begin, std::min(end, begin + kTile));
}

}  // namespace kvopt::scoring
