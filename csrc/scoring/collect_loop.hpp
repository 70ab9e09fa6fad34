// The loop that picks the low ones of stored scores. Part of kernels.cpp, whose rules hold here.
#pragma once

#include "scoring/block_loops.hpp"
#include "scoring/kernels.hpp"

#ifdef __x86_64__
#include <immintrin.h>
#endif

namespace kvopt::scoring::inline KVOPT_SCORING_TARGET {

// NOLINTBEGIN(modernize-avoid-c-arrays): the members of std::array would be shared functions

// Bit i: whether x[i] counts, for 16 scores.
template <Bound::Kind Kind>
std::uint32_t mask_of_16(const float* x, float limit) {
  constexpr bool kStrict = Kind == Bound::Kind::kBelow;
  if constexpr (Kind == Bound::Kind::kNone) return 0xFFFF;
#if defined(__AVX512F__)
  return _mm512_cmp_ps_mask(_mm512_loadu_ps(x), _mm512_set1_ps(limit), kStrict ? _CMP_LT_OQ : _CMP_LE_OQ);
#elif defined(__x86_64__)
  const __m128 limits = _mm_set1_ps(limit);
  std::uint32_t mask = 0;
  for (std::uint32_t k = 0; k < 4; ++k) {
    const __m128 scores = _mm_loadu_ps(x + std::size_t{4} * k);
    const __m128 low = kStrict ? _mm_cmplt_ps(scores, limits) : _mm_cmple_ps(scores, limits);
    mask |= static_cast<std::uint32_t>(_mm_movemask_ps(low)) << (4 * k);
  }
  return mask;
#else
  std::uint32_t mask = 0;
  for (std::uint32_t i = 0; i < 16; ++i) {
    mask |= static_cast<std::uint32_t>(kStrict ? x[i] < limit : x[i] <= limit) << i;
  }
  return mask;
#endif
}

// Bit i: whether byte i of 16 is 0.
inline std::uint32_t mask_of_zeros(const std::uint8_t* bytes) {
#if defined(__x86_64__)
  const __m128i zeros = _mm_cmpeq_epi8(_mm_loadu_si128(reinterpret_cast<const __m128i*>(bytes)), _mm_setzero_si128());
  return static_cast<std::uint32_t>(_mm_movemask_epi8(zeros));
#else
  std::uint32_t mask = 0;
  for (std::uint32_t i = 0; i < 16; ++i) mask |= static_cast<std::uint32_t>(bytes[i] == 0) << i;
  return mask;
#endif
}

inline constexpr std::size_t kWord = 64;          // scores of one mask
inline constexpr std::size_t kGroup = 4 * kWord;  // that are passed over at once where none counts

template <Bound::Kind Kind>
std::uint64_t mask_of_64(const float* scores, float limit) {
  std::uint64_t mask = 0;
  for (std::size_t q = 0; q < kWord; q += 16) {
    mask |= static_cast<std::uint64_t>(mask_of_16<Kind>(scores + q, limit)) << q;
  }
  return mask;
}

inline std::uint64_t mask_of_64(const std::uint8_t* eligible) {
  if (eligible == nullptr) return UINT64_MAX;
  std::uint64_t zeros = 0;
  for (std::size_t q = 0; q < kWord; q += 16) zeros |= static_cast<std::uint64_t>(mask_of_zeros(eligible + q)) << q;
  return ~zeros;
}

template <Bound::Kind Kind>
std::size_t collect_where(const float* scores, std::size_t count, const std::uint8_t* eligible, std::uint32_t first,
                          float limit, Candidate* to) {
  std::size_t found = 0;
  const auto candidate = [&](std::size_t i) {
    return static_cast<Candidate>(order_key(scores[i])) << 32 | (first + i);
  };
  std::size_t i = 0;
  for (; i + kGroup <= count; i += kGroup) {
    std::uint64_t masks[kGroup / kWord];
    std::uint64_t any = 0;
    for (std::size_t w = 0; w < kGroup / kWord; ++w) {
      masks[w] = mask_of_64<Kind>(scores + i + w * kWord, limit);
      any |= masks[w];
    }
    for (std::size_t line = 0; line < kGroup; line += kLine) __builtin_prefetch(scores + i + kAhead + line);
    if (any == 0) continue;
    for (std::size_t w = 0; w < kGroup / kWord; ++w) {
      const std::size_t word = i + w * kWord;
      std::uint64_t mask = masks[w] & mask_of_64(eligible == nullptr ? nullptr : eligible + word);
      // Two are written whether they are there or not: a jump that depends on it would be guessed wrong too often.
      const auto most = found + static_cast<std::size_t>(__builtin_popcountll(mask));
      constexpr std::uint64_t kLast = std::uint64_t{1} << (kWord - 1);
      to[found] = candidate(word + static_cast<std::size_t>(__builtin_ctzll(mask | kLast)));
      mask &= mask - 1;
      to[found + 1] = candidate(word + static_cast<std::size_t>(__builtin_ctzll(mask | kLast)));
      mask &= mask - 1;
      for (found += 2; mask != 0; mask &= mask - 1) {
        to[found++] = candidate(word + static_cast<std::size_t>(__builtin_ctzll(mask)));
      }
      found = most;
    }
  }
  for (; i < count; ++i) {
    const float x = scores[i];
    const bool counts = Kind == Bound::Kind::kNone || (Kind == Bound::Kind::kBelow ? x < limit : x <= limit);
    if (counts && (eligible == nullptr || eligible[i] != 0)) to[found++] = candidate(i);
  }
  return found;
}

inline std::size_t collect(const float* scores, std::size_t count, const std::uint8_t* eligible, std::uint32_t first,
                           Bound bound, Candidate* to) {
  switch (bound.kind) {
    case Bound::Kind::kAtMost:
      return collect_where<Bound::Kind::kAtMost>(scores, count, eligible, first, bound.limit, to);
    case Bound::Kind::kBelow:
      return collect_where<Bound::Kind::kBelow>(scores, count, eligible, first, bound.limit, to);
    default:
      return collect_where<Bound::Kind::kNone>(scores, count, eligible, first, bound.limit, to);
  }
}

// NOLINTEND(modernize-avoid-c-arrays)

}  // namespace kvopt::scoring::inline KVOPT_SCORING_TARGET
