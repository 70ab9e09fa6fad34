#include "engine/xxh3.hpp"

#include <array>
#include <bit>
#include <cstring>

namespace kvopt::xxh3 {

namespace {

// NOLINTBEGIN(readability-identifier-naming): the specification's names and numbers
constexpr std::uint32_t kPrime32_1 = 0x9E3779B1U;
constexpr std::uint32_t kPrime32_2 = 0x85EBCA77U;
constexpr std::uint32_t kPrime32_3 = 0xC2B2AE3DU;
constexpr std::uint64_t kPrime64_1 = 0x9E3779B185EBCA87U;
constexpr std::uint64_t kPrime64_2 = 0xC2B2AE3D27D4EB4FU;
constexpr std::uint64_t kPrime64_3 = 0x165667B19E3779F9U;
constexpr std::uint64_t kPrime64_4 = 0x85EBCA77C2B2AE63U;
constexpr std::uint64_t kPrime64_5 = 0x27D4EB2F165667C5U;
// NOLINTEND(readability-identifier-naming)
constexpr std::uint64_t kPrimeMx1 = 0x165667919E3779F9U;
constexpr std::uint64_t kPrimeMx2 = 0x9FB21C651E98DF25U;

constexpr std::size_t kSecretBytes = 192;
constexpr std::array<std::uint8_t, kSecretBytes> kSecret = {
    0xb8, 0xfe, 0x6c, 0x39, 0x23, 0xa4, 0x4b, 0xbe, 0x7c, 0x01, 0x81, 0x2c, 0xf7, 0x21, 0xad, 0x1c, 0xde, 0xd4,
    0x6d, 0xe9, 0x83, 0x90, 0x97, 0xdb, 0x72, 0x40, 0xa4, 0xa4, 0xb7, 0xb3, 0x67, 0x1f, 0xcb, 0x79, 0xe6, 0x4e,
    0xcc, 0xc0, 0xe5, 0x78, 0x82, 0x5a, 0xd0, 0x7d, 0xcc, 0xff, 0x72, 0x21, 0xb8, 0x08, 0x46, 0x74, 0xf7, 0x43,
    0x24, 0x8e, 0xe0, 0x35, 0x90, 0xe6, 0x81, 0x3a, 0x26, 0x4c, 0x3c, 0x28, 0x52, 0xbb, 0x91, 0xc3, 0x00, 0xcb,
    0x88, 0xd0, 0x65, 0x8b, 0x1b, 0x53, 0x2e, 0xa3, 0x71, 0x64, 0x48, 0x97, 0xa2, 0x0d, 0xf9, 0x4e, 0x38, 0x19,
    0xef, 0x46, 0xa9, 0xde, 0xac, 0xd8, 0xa8, 0xfa, 0x76, 0x3f, 0xe3, 0x9c, 0x34, 0x3f, 0xf9, 0xdc, 0xbb, 0xc7,
    0xc7, 0x0b, 0x4f, 0x1d, 0x8a, 0x51, 0xe0, 0x4b, 0xcd, 0xb4, 0x59, 0x31, 0xc8, 0x9f, 0x7e, 0xc9, 0xd9, 0x78,
    0x73, 0x64, 0xea, 0xc5, 0xac, 0x83, 0x34, 0xd3, 0xeb, 0xc3, 0xc5, 0x81, 0xa0, 0xff, 0xfa, 0x13, 0x63, 0xeb,
    0x17, 0x0d, 0xdd, 0x51, 0xb7, 0xf0, 0xda, 0x49, 0xd3, 0x16, 0x55, 0x26, 0x29, 0xd4, 0x68, 0x9e, 0x2b, 0x16,
    0xbe, 0x58, 0x7d, 0x47, 0xa1, 0xfc, 0x8f, 0xf8, 0xb8, 0xd1, 0x7a, 0xd0, 0x31, 0xce, 0x45, 0xcb, 0x3a, 0x8f,
    0x95, 0x16, 0x04, 0x28, 0xaf, 0xd7, 0xfb, 0xca, 0xbb, 0x4b, 0x40, 0x7e};

struct Wide {
  std::uint64_t low;
  std::uint64_t high;
};

template <class T>
T read(const std::uint8_t* p) {
  T value = 0;
  std::memcpy(&value, p, sizeof value);
  return value;
}
std::uint32_t read32(const std::uint8_t* p) { return read<std::uint32_t>(p); }
std::uint64_t read64(const std::uint8_t* p) { return read<std::uint64_t>(p); }
std::uint64_t secret64(std::size_t at) { return read64(kSecret.data() + at); }

Wide multiply(std::uint64_t a, std::uint64_t b) {
  __extension__ using Product = unsigned __int128;
  const Product product = static_cast<Product>(a) * b;
  return {static_cast<std::uint64_t>(product), static_cast<std::uint64_t>(product >> 64)};
}
std::uint64_t fold(std::uint64_t a, std::uint64_t b) {
  const Wide product = multiply(a, b);
  return product.low ^ product.high;
}

std::uint64_t avalanche(std::uint64_t h) {
  h ^= h >> 37;
  h *= kPrimeMx1;
  return h ^ (h >> 32);
}
std::uint64_t avalanche_64(std::uint64_t h) {  // that of XXH64
  h ^= h >> 33;
  h *= kPrime64_2;
  h ^= h >> 29;
  h *= kPrime64_3;
  return h ^ (h >> 32);
}

Wide hash_0() { return {avalanche_64(secret64(64) ^ secret64(72)), avalanche_64(secret64(80) ^ secret64(88))}; }

Wide hash_1_to_3(const std::uint8_t* p, std::size_t n) {
  const std::uint32_t low =
      (std::uint32_t{p[0]} << 16) | (std::uint32_t{p[n >> 1]} << 24) | p[n - 1] | (static_cast<std::uint32_t>(n) << 8);
  const std::uint32_t high = std::rotl(__builtin_bswap32(low), 13);
  return {avalanche_64(low ^ std::uint64_t{read32(kSecret.data()) ^ read32(kSecret.data() + 4)}),
          avalanche_64(high ^ std::uint64_t{read32(kSecret.data() + 8) ^ read32(kSecret.data() + 12)})};
}

Wide hash_4_to_8(const std::uint8_t* p, std::size_t n) {
  const std::uint64_t both = read32(p) | (std::uint64_t{read32(p + n - 4)} << 32);
  Wide m = multiply(both ^ (secret64(16) ^ secret64(24)), kPrime64_1 + (std::uint64_t{n} << 2));
  m.high += m.low << 1;
  m.low ^= m.high >> 3;
  m.low ^= m.low >> 35;
  m.low *= kPrimeMx2;
  m.low ^= m.low >> 28;
  return {m.low, avalanche(m.high)};
}

Wide hash_9_to_16(const std::uint8_t* p, std::size_t n) {
  const std::uint64_t flip_low = secret64(32) ^ secret64(40);
  const std::uint64_t flip_high = secret64(48) ^ secret64(56);
  const std::uint64_t low = read64(p);
  std::uint64_t high = read64(p + n - 8);
  Wide m = multiply(low ^ high ^ flip_low, kPrime64_1);
  m.low += std::uint64_t{n - 1} << 54;
  high ^= flip_high;
  m.high += high + (high & UINT32_MAX) * std::uint64_t{kPrime32_2 - 1};
  m.low ^= __builtin_bswap64(m.high);
  Wide h = multiply(m.low, kPrime64_2);
  h.high += m.high * kPrime64_2;
  return {avalanche(h.low), avalanche(h.high)};
}

std::uint64_t mix_16(const std::uint8_t* p, std::size_t secret) {
  return fold(read64(p) ^ secret64(secret), read64(p + 8) ^ secret64(secret + 8));
}

void mix_32(Wide& acc, const std::uint8_t* front, const std::uint8_t* back, std::size_t secret) {
  acc.low += mix_16(front, secret);
  acc.low ^= read64(back) + read64(back + 8);
  acc.high += mix_16(back, secret + 16);
  acc.high ^= read64(front) + read64(front + 8);
}

Wide finish(const Wide& acc, std::size_t n) {
  return {avalanche(acc.low + acc.high),
          0 - avalanche(acc.low * kPrime64_1 + acc.high * kPrime64_4 + std::uint64_t{n} * kPrime64_2)};
}

Wide hash_17_to_128(const std::uint8_t* p, std::size_t n) {
  Wide acc = {n * kPrime64_1, 0};
  for (std::size_t i = (n - 1) / 32 + 1; i-- > 0;) mix_32(acc, p + 16 * i, p + n - 16 * (i + 1), 32 * i);
  return finish(acc, n);
}

Wide hash_129_to_240(const std::uint8_t* p, std::size_t n) {
  Wide acc = {n * kPrime64_1, 0};
  for (std::size_t i = 32; i < 160; i += 32) mix_32(acc, p + i - 32, p + i - 16, i - 32);
  acc = {avalanche(acc.low), avalanche(acc.high)};
  for (std::size_t i = 160; i <= n; i += 32) mix_32(acc, p + i - 32, p + i - 16, 3 + i - 160);
  constexpr std::size_t kLast = 136 - 17 - 16;  // where the secret of the last 32 bytes begins
  mix_32(acc, p + n - 16, p + n - 32, kLast);
  return finish(acc, n);
}

// Above 240 bytes: eight lanes over stripes of 64 bytes.

constexpr std::size_t kLanes = 8;
constexpr std::size_t kStripe = 64;
constexpr std::size_t kStripesABlock = (kSecretBytes - kStripe) / 8;
using Lanes = std::array<std::uint64_t, kLanes>;

void accumulate(Lanes& acc, const std::uint8_t* p, std::size_t secret) {
  for (std::size_t i = 0; i < kLanes; ++i) {
    const std::uint64_t value = read64(p + 8 * i);
    const std::uint64_t keyed = value ^ secret64(secret + 8 * i);
    acc[i ^ 1] += value;
    acc[i] += (keyed & UINT32_MAX) * (keyed >> 32);
  }
}

void scramble(Lanes& acc) {
  for (std::size_t i = 0; i < kLanes; ++i) {
    acc[i] = (acc[i] ^ (acc[i] >> 47) ^ secret64(kSecretBytes - kStripe + 8 * i)) * kPrime32_1;
  }
}

std::uint64_t merge(const Lanes& acc, std::size_t secret, std::uint64_t start) {
  for (std::size_t i = 0; i < kLanes; i += 2) {
    start += fold(acc[i] ^ secret64(secret + 8 * i), acc[i + 1] ^ secret64(secret + 8 * i + 8));
  }
  return avalanche(start);
}

Wide hash_long(const std::uint8_t* p, std::size_t n) {
  Lanes acc = {kPrime32_3, kPrime64_1, kPrime64_2, kPrime64_3, kPrime64_4, kPrime32_2, kPrime64_5, kPrime32_1};
  const std::size_t stripes = (n - 1) / kStripe;
  for (std::size_t s = 0; s < stripes; ++s) {
    accumulate(acc, p + s * kStripe, s % kStripesABlock * 8);
    if (s % kStripesABlock == kStripesABlock - 1) scramble(acc);
  }
  constexpr std::size_t kLast = kSecretBytes - kStripe - 7;
  accumulate(acc, p + n - kStripe, kLast);
  constexpr std::size_t kMerge = 11;
  return {merge(acc, kMerge, n * kPrime64_1),
          merge(acc, kSecretBytes - kStripe - kMerge, ~(std::uint64_t{n} * kPrime64_2))};
}

Wide hash(const std::uint8_t* p, std::size_t n) {
  if (n > 240) return hash_long(p, n);
  if (n > 128) return hash_129_to_240(p, n);
  if (n > 16) return hash_17_to_128(p, n);
  if (n > 8) return hash_9_to_16(p, n);
  if (n >= 4) return hash_4_to_8(p, n);
  return n > 0 ? hash_1_to_3(p, n) : hash_0();
}

}  // namespace

void digest_128(const std::uint8_t* data, std::size_t size, std::uint8_t* out) {
  const Wide h = hash(data, size);
  for (std::size_t i = 0; i < 8; ++i) {
    out[i] = static_cast<std::uint8_t>(h.high >> (56 - 8 * i));
    out[8 + i] = static_cast<std::uint8_t>(h.low >> (56 - 8 * i));
  }
}

}  // namespace kvopt::xxh3
