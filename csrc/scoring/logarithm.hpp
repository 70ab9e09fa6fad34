// The natural logarithm in float64 without a call or a table, so that it vectorises: to about two units in the last
// place of float64.
//
// x = 2^e m with m in [sqrt(1/2), sqrt(2)); ln m = 2 atanh(s), s = (m - 1) / (m + 1), by its series to s^21, whose rest
// is below 2^-58 of it.
#pragma once

#include "scoring/target.hpp"

namespace kvopt::scoring::inline KVOPT_SCORING_TARGET {

// Of 0: -inf; of what is negative: NaN. Numbers below 2^-1022, which no float32 is, are taken for 0.
KVOPT_HOST_DEVICE inline double natural_logarithm(double x) {
  constexpr std::uint64_t kOne = 0x3FF0000000000000;
  constexpr std::uint64_t kRoot = 0x3FE6A09E667F3BCD;  // sqrt(1/2)
  constexpr std::uint64_t kFraction = 0x000FFFFFFFFFFFFF;
  constexpr std::uint64_t kTwo52 = 0x4330000000000000;
  // Its last 11 bits are 0, so that e times it is exact.
  constexpr double kLn2High = 0x1.62e42fefa3800p-1;  // NOLINT(modernize-use-std-numbers)
  constexpr double kLn2Low = 0x1.ef35793c76730p-45;
  const std::uint64_t shifted = bits_of(x) + (kOne - kRoot);
  const double exponent = from_bits((shifted >> 52) | kTwo52) - (0x1p52 + 1023);
  const double m = from_bits((shifted & kFraction) + kRoot);
  const double f = m - 1;
  const double s = f / (2 + f);
  const double z = s * s;
  const double z2 = z * z;
  const double z4 = z2 * z2;
  const double low = multiply_add(multiply_add(z, 1.0 / 9, 1.0 / 7), z2, multiply_add(z, 1.0 / 5, 1.0 / 3));
  const double middle = multiply_add(multiply_add(z, 1.0 / 17, 1.0 / 15), z2, multiply_add(z, 1.0 / 13, 1.0 / 11));
  const double high = multiply_add(z, 1.0 / 21, 1.0 / 19);
  const double series = multiply_add(multiply_add(high, z4, middle), z4, low) * z;
  const double rest = multiply_add(2 * s, series, exponent * kLn2Low);
  const double finite = multiply_add(exponent, kLn2High, 2 * s + rest);
  const double infinity = from_bits(0x7FF0000000000000);
  const double above = x < infinity ? finite : x;  // and NaN
  const double positive = x < 0x1p-1022 ? -infinity : above;
  return x < 0 ? from_bits(0x7FF8000000000000) : positive;
}

// ln(1 + x), exact for small x too: what rounding 1 + x lost is added again.
KVOPT_HOST_DEVICE inline double logarithm_of_1_plus(double x) {
  const double u = 1 + x;
  const double lost = x - (u - 1);
  return natural_logarithm(u) + (x < 1 ? lost : 0);
}

}  // namespace kvopt::scoring::inline KVOPT_SCORING_TARGET
