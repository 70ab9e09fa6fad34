#include "engine/sha256.hpp"

#include <bit>
#include <cstring>

#if defined(__x86_64__)
#include <cpuid.h>
#include <immintrin.h>
#elif defined(__aarch64__) && defined(__linux__)
#include <arm_neon.h>
#include <asm/hwcap.h>
#include <sys/auxv.h>
#endif

namespace kvopt::sha256 {

namespace {

constexpr std::size_t kRounds = 64;

alignas(16) constexpr std::array<std::uint32_t, kRounds> kRoundConstants = {
    0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1, 0x923f82a4, 0xab1c5ed5,
    0xd807aa98, 0x12835b01, 0x243185be, 0x550c7dc3, 0x72be5d74, 0x80deb1fe, 0x9bdc06a7, 0xc19bf174,
    0xe49b69c1, 0xefbe4786, 0x0fc19dc6, 0x240ca1cc, 0x2de92c6f, 0x4a7484aa, 0x5cb0a9dc, 0x76f988da,
    0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7, 0xc6e00bf3, 0xd5a79147, 0x06ca6351, 0x14292967,
    0x27b70a85, 0x2e1b2138, 0x4d2c6dfc, 0x53380d13, 0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85,
    0xa2bfe8a1, 0xa81a664b, 0xc24b8b70, 0xc76c51a3, 0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070,
    0x19a4c116, 0x1e376c08, 0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a, 0x5b9cca4f, 0x682e6ff3,
    0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208, 0x90befffa, 0xa4506ceb, 0xbef9a3f7, 0xc67178f2};

std::uint32_t from_big_endian(const std::uint8_t* bytes) {
  std::uint32_t word = 0;
  for (int i = 0; i < 4; ++i) word = word << 8 | bytes[i];
  return word;
}

void to_big_endian(std::uint64_t word, std::size_t size, std::uint8_t* out) {
  for (std::size_t i = size; i-- > 0; word >>= 8) out[i] = static_cast<std::uint8_t>(word);
}

#if defined(__x86_64__)

// The instructions keep the state as (a, b, e, f) and (c, d, g, h), and do two rounds each.
__attribute__((target("sha,sse4.1,ssse3"))) void compress_sha_ni(State& state, const std::uint8_t* data,
                                                                 std::size_t chunks) {
  const __m128i byte_order = _mm_set_epi64x(0x0c0d0e0f08090a0bLL, 0x0405060700010203LL);
  auto* words = reinterpret_cast<__m128i*>(state.data());
  const __m128i badc = _mm_shuffle_epi32(_mm_loadu_si128(words), 0xB1);
  const __m128i hgfe = _mm_shuffle_epi32(_mm_loadu_si128(words + 1), 0x1B);
  __m128i abef = _mm_alignr_epi8(badc, hgfe, 8);
  __m128i cdgh = _mm_blend_epi16(hgfe, badc, 0xF0);
  for (; chunks > 0; --chunks, data += kChunkBytes) {
    const __m128i abef_before = abef;
    const __m128i cdgh_before = cdgh;
    // NOLINTNEXTLINE(modernize-avoid-c-arrays): std::array<__m128i> loses the vector's alignment attributes
    __m128i w[4];
    const auto* in = reinterpret_cast<const __m128i*>(data);
    for (int i = 0; i < 4; ++i) w[i] = _mm_shuffle_epi8(_mm_loadu_si128(in + i), byte_order);
#pragma GCC unroll 16
    for (std::size_t i = 0; i < kRounds / 4; ++i) {
      __m128i& now = w[i % 4];
      const __m128i sum =
          _mm_add_epi32(now, _mm_load_si128(reinterpret_cast<const __m128i*>(kRoundConstants.data()) + i));
      cdgh = _mm_sha256rnds2_epu32(cdgh, abef, sum);
      abef = _mm_sha256rnds2_epu32(abef, cdgh, _mm_shuffle_epi32(sum, 0x0E));
      if (i >= kRounds / 4 - 4) continue;
      // The words that take the place of these, four groups on.
      const __m128i& next = w[(i + 1) % 4];
      const __m128i& third = w[(i + 2) % 4];
      const __m128i& last = w[(i + 3) % 4];
      const __m128i partial = _mm_add_epi32(_mm_sha256msg1_epu32(now, next), _mm_alignr_epi8(last, third, 4));
      now = _mm_sha256msg2_epu32(partial, last);
    }
    abef = _mm_add_epi32(abef, abef_before);
    cdgh = _mm_add_epi32(cdgh, cdgh_before);
  }
  const __m128i feba = _mm_shuffle_epi32(abef, 0x1B);
  const __m128i dchg = _mm_shuffle_epi32(cdgh, 0xB1);
  _mm_storeu_si128(words, _mm_blend_epi16(feba, dchg, 0xF0));
  _mm_storeu_si128(words + 1, _mm_alignr_epi8(dchg, feba, 8));
}

bool has_instructions() {
  unsigned a = 0;
  unsigned b = 0;
  unsigned c = 0;
  unsigned d = 0;
  return __get_cpuid_count(7, 0, &a, &b, &c, &d) != 0 && (b >> 29 & 1) != 0;
}

#elif defined(__aarch64__) && defined(__linux__)

__attribute__((target("+sha2"))) void compress_armv8(State& state, const std::uint8_t* data, std::size_t chunks) {
  uint32x4_t abcd = vld1q_u32(state.data());
  uint32x4_t efgh = vld1q_u32(state.data() + 4);
  for (; chunks > 0; --chunks, data += kChunkBytes) {
    const uint32x4_t abcd_before = abcd;
    const uint32x4_t efgh_before = efgh;
    uint32x4_t w[4];
    for (std::size_t i = 0; i < 4; ++i) w[i] = vreinterpretq_u32_u8(vrev32q_u8(vld1q_u8(data + 16 * i)));
    for (std::size_t i = 0; i < kRounds / 4; ++i) {
      uint32x4_t& now = w[i % 4];
      const uint32x4_t sum = vaddq_u32(now, vld1q_u32(kRoundConstants.data() + 4 * i));
      const uint32x4_t abcd_old = abcd;
      abcd = vsha256hq_u32(abcd, efgh, sum);
      efgh = vsha256h2q_u32(efgh, abcd_old, sum);
      if (i >= kRounds / 4 - 4) continue;
      now = vsha256su1q_u32(vsha256su0q_u32(now, w[(i + 1) % 4]), w[(i + 2) % 4], w[(i + 3) % 4]);
    }
    abcd = vaddq_u32(abcd, abcd_before);
    efgh = vaddq_u32(efgh, efgh_before);
  }
  vst1q_u32(state.data(), abcd);
  vst1q_u32(state.data() + 4, efgh);
}

bool has_instructions() { return (getauxval(AT_HWCAP) & HWCAP_SHA2) != 0; }

#endif

struct Choice {
  Compress compress;
  std::string_view name;
};

Choice choose() {
#if defined(__x86_64__)
  if (has_instructions()) return {compress_sha_ni, "sha-ni"};
#elif defined(__aarch64__) && defined(__linux__)
  if (has_instructions()) return {compress_armv8, "armv8"};
#endif
  return {compress_portable, "portable"};
}

const Choice& choice() {
  static const Choice kChoice = choose();
  return kChoice;
}

}  // namespace

void compress_portable(State& state, const std::uint8_t* data, std::size_t chunks) {
  for (; chunks > 0; --chunks, data += kChunkBytes) {
    std::array<std::uint32_t, kRounds> w{};
    for (std::size_t i = 0; i < 16; ++i) w[i] = from_big_endian(data + 4 * i);
    for (std::size_t i = 16; i < kRounds; ++i) {
      const std::uint32_t s0 = std::rotr(w[i - 15], 7) ^ std::rotr(w[i - 15], 18) ^ (w[i - 15] >> 3);
      const std::uint32_t s1 = std::rotr(w[i - 2], 17) ^ std::rotr(w[i - 2], 19) ^ (w[i - 2] >> 10);
      w[i] = w[i - 16] + s0 + w[i - 7] + s1;
    }
    auto [a, b, c, d, e, f, g, h] = state;
    for (std::size_t i = 0; i < kRounds; ++i) {
      const std::uint32_t s1 = std::rotr(e, 6) ^ std::rotr(e, 11) ^ std::rotr(e, 25);
      const std::uint32_t t1 = h + s1 + ((e & f) ^ (~e & g)) + kRoundConstants[i] + w[i];
      const std::uint32_t s0 = std::rotr(a, 2) ^ std::rotr(a, 13) ^ std::rotr(a, 22);
      const std::uint32_t t2 = s0 + ((a & b) ^ (a & c) ^ (b & c));
      h = g;
      g = f;
      f = e;
      e = d + t1;
      d = c;
      c = b;
      b = a;
      a = t1 + t2;
    }
    const State done = {a, b, c, d, e, f, g, h};
    for (std::size_t i = 0; i < state.size(); ++i) state[i] += done[i];
  }
}

Compress fastest() { return choice().compress; }
std::string_view implementation() { return choice().name; }

void digest_in_place(Compress compress, std::uint8_t* data, std::size_t size, std::uint8_t* out) {
  const std::size_t chunks = (size + 9 + kChunkBytes - 1) / kChunkBytes;
  data[size] = 0x80;
  std::memset(data + size + 1, 0, chunks * kChunkBytes - size - 9);
  to_big_endian(size * 8, 8, data + chunks * kChunkBytes - 8);
  State state = kInitial;
  compress(state, data, chunks);
  for (std::size_t i = 0; i < state.size(); ++i) to_big_endian(state[i], 4, out + 4 * i);
}

}  // namespace kvopt::sha256
