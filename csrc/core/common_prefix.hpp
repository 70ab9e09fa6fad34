// How far two stretches of keys agree.
#pragma once

#include <cstddef>
#include <cstdint>

namespace kvopt {

// Of `most` keys each, how many are the same from the first on.
inline std::size_t common_prefix(const std::uint64_t* a, const std::uint64_t* b, std::size_t most) {
  std::size_t same = 0;
  constexpr std::size_t kStride = 8;
  for (; same + kStride <= most; same += kStride) {  // a whole stride without a branch: this vectorises
    std::uint64_t differs = 0;
    for (std::size_t j = 0; j < kStride; ++j) differs |= a[same + j] ^ b[same + j];
    if (differs != 0) break;
  }
  while (same < most && a[same] == b[same]) ++same;
  return same;
}

}  // namespace kvopt
