// What lets one source serve every processor: the functors of this folder are compiled by nvcc for host and device, and
// by the C++ compiler once for each set of vector instructions, each time into a namespace of its own, so that the
// linker cannot give a plain processor the code of a better one. Everything here is std-only.
#pragma once

#include <cstdint>

#ifdef __CUDACC__
#define KVOPT_HOST_DEVICE __host__ __device__
#else
#define KVOPT_HOST_DEVICE
#endif

#ifndef KVOPT_SCORING_TARGET
#define KVOPT_SCORING_TARGET baseline
#endif

namespace kvopt::scoring::inline KVOPT_SCORING_TARGET {

KVOPT_HOST_DEVICE inline std::uint64_t bits_of(double x) { return __builtin_bit_cast(std::uint64_t, x); }
KVOPT_HOST_DEVICE inline std::uint32_t bits_of(float x) { return __builtin_bit_cast(std::uint32_t, x); }
KVOPT_HOST_DEVICE inline double from_bits(std::uint64_t bits) { return __builtin_bit_cast(double, bits); }
KVOPT_HOST_DEVICE inline float float_of(std::uint32_t bits) { return __builtin_bit_cast(float, bits); }

KVOPT_HOST_DEVICE inline bool is_nan(double x) { return x != x; }  // NOLINT(misc-redundant-expression)
KVOPT_HOST_DEVICE inline bool is_nan(float x) { return x != x; }   // NOLINT(misc-redundant-expression)

// a * b + c, rounded once where the processor can. The results differ by less than float32 shows, but for terms that
// cancel.
KVOPT_HOST_DEVICE inline double multiply_add(double a, double b, double c) {
#if defined(__CUDACC__) || defined(__FMA__) || defined(__aarch64__)
  return __builtin_fma(a, b, c);
#else
  return a * b + c;
#endif
}

// x, of which the compiler does not know the value: it makes one instruction of a minimum or maximum with such a bound,
// and several of one with a constant, which it follows into what comes after.
KVOPT_HOST_DEVICE inline double hidden(double x) {
#ifndef __CUDA_ARCH__
  asm("" : "+m"(x));
#endif
  return x;
}

// 1 / x to a relative 2^-38, far below a unit in the last place of float32, for x from 2^-1000 to 2^1000: two
// steps of third order from what its bits, taken for a logarithm, say. A vector division takes three times as long.
KVOPT_HOST_DEVICE inline double reciprocal(double x) {
  constexpr std::uint64_t kMagic = 0x7FDE623822FC16E6;  // the first guess is off by 5.1% at most
  const double guess = from_bits(kMagic - bits_of(x));
  const double e = multiply_add(-x, guess, 1.0);
  const double better = multiply_add(guess, multiply_add(e, e, e), guess);
  const double rest = multiply_add(-x, better, 1.0);
  return multiply_add(better, multiply_add(rest, rest, rest), better);
}

// A float32 as a key of which the unsigned order is the order of selection: -0 is 0, NaN is the greatest.
KVOPT_HOST_DEVICE inline std::uint32_t order_key(float x) {
  const std::uint32_t bits = bits_of(x + 0.0F);
  const std::uint32_t key = bits & 0x80000000U ? ~bits : bits | 0x80000000U;
  return is_nan(x) ? UINT32_MAX : key;
}

// The float32 of a key that is not NaN's.
KVOPT_HOST_DEVICE inline float score_of(std::uint32_t key) {
  return float_of((key & 0x80000000U) != 0 ? key & 0x7FFFFFFFU : ~key);
}

}  // namespace kvopt::scoring::inline KVOPT_SCORING_TARGET
