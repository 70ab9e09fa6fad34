// The loop over blocks for scores of their own columns. Part of kernels.cpp, whose rules hold here.
//
// It asks for columns well before it comes to them: processors do so themselves, but stop at every page of 4 KiB.
// Scores that are too many for the caches are written past them, as else the memory that they replace would be read
// first.
#pragma once

#include "scoring/block.hpp"
#include "scoring/prepared.hpp"

#ifdef __x86_64__
#include <immintrin.h>
#endif

namespace kvopt::scoring::inline KVOPT_SCORING_TARGET {

// NOLINTBEGIN(modernize-avoid-c-arrays): the members of std::array would be shared functions

inline constexpr std::size_t kLine = 16;     // float32s of a cache line
inline constexpr std::size_t kPiece = 64;    // blocks between two looks ahead
inline constexpr std::size_t kAhead = 1024;  // blocks; processors themselves do not look beyond a page of 4 KiB

// Writes kPiece scores past the caches; `to` lies at the begin of a cache line.
inline void stream_piece(const float* from, float* to) {
#if defined(__AVX512F__)
  for (std::size_t i = 0; i < kPiece; i += 16) _mm512_stream_ps(to + i, _mm512_load_ps(from + i));
#elif defined(__AVX2__)
  for (std::size_t i = 0; i < kPiece; i += 8) _mm256_stream_ps(to + i, _mm256_load_ps(from + i));
#elif defined(__x86_64__)
  for (std::size_t i = 0; i < kPiece; i += 4) _mm_stream_ps(to + i, _mm_load_ps(from + i));
#else
  __builtin_memcpy(to, from, kPiece * sizeof(float));
#endif
}

// Later loads of any processor see what was streamed.
inline void finish_streaming() {
#if defined(__x86_64__)
  _mm_sfence();
#endif
}

template <class S, bool Streamed>
void score_blocks(const BlockFeatures& all, const PreparedScore& prepared, std::size_t set, std::size_t begin,
                  std::size_t end, float* __restrict out) {
  const BlockFeatures features = all;  // a copy, so that a store cannot change it
  const S score(prepared, set);
  const auto score_to = [&](float* __restrict to, std::size_t first, std::size_t count) {
    for (std::size_t j = 0; j < count; ++j) to[j] = static_cast<float>(score(load<S::kColumns>(features, first + j)));
  };
  std::size_t i = begin;
  if constexpr (Streamed) {
    const std::size_t past = reinterpret_cast<std::uintptr_t>(out) / sizeof(float) % kLine;
    const std::size_t head = past == 0 ? 0 : kLine - past;
    const std::size_t count = head < end - i ? head : end - i;
    score_to(out, i, count);
    i += count, out += count;
  }
  for (; i + kPiece <= end; i += kPiece, out += kPiece) {
    if (i + kAhead + kPiece <= features.count) {
      for (std::size_t line = 0; line < kPiece; line += kLine) prefetch<S::kColumns>(features, i + kAhead + line);
    }
    if constexpr (Streamed) {
      alignas(64) float piece[kPiece];
      score_to(piece, i, kPiece);
      stream_piece(piece, out);
    } else {
      score_to(out, i, kPiece);
    }
  }
  score_to(out, i, end - i);
  if constexpr (Streamed) finish_streaming();
}

template <class S>
void score_blocks(const BlockFeatures& features, const PreparedScore& prepared, std::size_t set, std::size_t begin,
                  std::size_t end, float* out, bool streamed) {
  if (streamed) {
    score_blocks<S, true>(features, prepared, set, begin, end, out);
  } else {
    score_blocks<S, false>(features, prepared, set, begin, end, out);
  }
}

// NOLINTEND(modernize-avoid-c-arrays)

}  // namespace kvopt::scoring::inline KVOPT_SCORING_TARGET
