// SHA-256 (FIPS 180-4), with the processor's own instructions where it has them.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>

namespace kvopt::sha256 {

using State = std::array<std::uint32_t, 8>;
inline constexpr std::size_t kDigestBytes = 32;
inline constexpr std::size_t kChunkBytes = 64;
inline constexpr State kInitial = {0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a,
                                   0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19};

// Takes in `chunks` × 64 bytes.
using Compress = void (*)(State& state, const std::uint8_t* data, std::size_t chunks);

void compress_portable(State& state, const std::uint8_t* data, std::size_t chunks);
// The fastest that this processor runs, chosen once.
Compress fastest();
// Its name: "sha-ni", "armv8" or "portable".
std::string_view implementation();

// The digest of `size` bytes in a buffer that has room for 72 bytes of padding behind them.
void digest_in_place(Compress compress, std::uint8_t* data, std::size_t size, std::uint8_t* out);

}  // namespace kvopt::sha256
