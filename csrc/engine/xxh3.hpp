// XXH3 with 128 bits, seed 0 and the default secret (specification: xxhash.com, "XXH3 algorithm").
#pragma once

#include <cstddef>
#include <cstdint>

namespace kvopt::xxh3 {

// 16 bytes in canonical order: the high half first, both big-endian.
void digest_128(const std::uint8_t* data, std::size_t size, std::uint8_t* out);

}  // namespace kvopt::xxh3
