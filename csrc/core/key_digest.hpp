// A 64-bit digest of a byte-string key, for the index. Keys are still compared in full, so a collision costs time only.
#pragma once

#include <cstdint>
#include <cstring>

namespace kvopt {

inline std::uint64_t key_digest(const std::uint8_t* key, std::size_t n) {
  constexpr std::uint64_t kOdd = 0x9E3779B97F4A7C15u;
  std::uint64_t digest = n * kOdd;
  for (std::size_t i = 0; i < n; i += 8) {
    std::uint64_t word = 0;
    std::memcpy(&word, key + i, n - i < 8 ? n - i : 8);
    digest = (digest ^ word) * kOdd;
    digest ^= digest >> 32;
  }
  return digest;
}

}  // namespace kvopt
