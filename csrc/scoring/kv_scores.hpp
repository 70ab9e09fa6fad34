// Scores of policies for KV caches: AsymCache, workload-aware, and the retention index from class tables.
#pragma once

#include "scoring/block.hpp"
#include "scoring/logarithm.hpp"
#include "scoring/prepared.hpp"

namespace kvopt::scoring::inline KVOPT_SCORING_TARGET {

// ln(cost) + min(-idle / alpha, -(idle - onset) / beta): the loss of csrc/policies/asymcache.cpp as a logarithm, which
// keeps its order where the loss itself is below the least float32.
struct AsymCache {
  static constexpr std::uint32_t kColumns = kLastUse | kCost;

  KVOPT_HOST_DEVICE AsymCache(const PreparedScore& prepared, std::size_t set)
      : now(prepared.now),
        slow(prepared.doubles_of(set)[0]),
        fast(prepared.doubles_of(set)[1]),
        onset(prepared.doubles_of(set)[2]) {}
  KVOPT_HOST_DEVICE double operator()(const Block& b) const {
    const double idle = idle_time(now, b.last_use, zero);
    const double a = idle * slow;
    const double c = (idle - onset) * fast;
    return natural_logarithm(b.cost) - (a > c ? a : c);
  }

  double now;
  double slow;   // 1 / alpha, 1/s
  double fast;   // 1 / beta, 1/s
  double onset;  // s
  double zero = hidden(0);
};

// ln(1 - exp(-rate life)) - rate * idle, by class: the chance of csrc/policies/workload_aware.cpp as a logarithm. A
// class without returns (rate 0) has -inf.
struct WorkloadAware {
  static constexpr std::uint32_t kColumns = kLastUse | kClass;

  KVOPT_HOST_DEVICE WorkloadAware(const PreparedScore& prepared, std::size_t set)
      : now(prepared.now), rate(prepared.doubles_of(set)), log_reach(rate + kMostClasses) {}
  KVOPT_HOST_DEVICE double operator()(const Block& b) const {
    return log_reach[b.cls] - rate[b.cls] * idle_time(now, b.last_use, zero);
  }

  double now;
  const double* rate;       // [kMostClasses], 1/s; NaN where there is no such class
  const double* log_reach;  // [kMostClasses]
  double zero = hidden(0);
};

// cost * pace * index(class, idle * pace): the value that cost-aware orders by, with the index as
// ReuseModel::indexes() has it: kAgeBins values a class, two an octave of age from 1/16 to 2^11, between the lower
// edges of two bins in proportion.
struct RetentionIndex {
  static constexpr std::uint32_t kColumns = kLastUse | kCost | kPace | kClass;

  KVOPT_HOST_DEVICE RetentionIndex(const PreparedScore& prepared, std::size_t set)
      : now(prepared.now), pairs(prepared.doubles_of(set)) {}
  KVOPT_HOST_DEVICE double operator()(const Block& b) const {
    const double age = idle_time(now, b.last_use, zero) * b.pace;
    const std::uint64_t bits = bits_of(age);
    const auto leading = static_cast<std::int32_t>(bits >> kShift) - kFirst;
    const std::int32_t low = leading < 0 ? 0 : leading;
    const std::int32_t bin = low > kLast ? kLast : low;
    const std::uint64_t pair = bits_of(pairs[b.cls * (kLast + 1) + bin]);
    const double here = float_of(static_cast<std::uint32_t>(pair));
    const double next = float_of(static_cast<std::uint32_t>(pair >> 32));
    const double within = from_bits(((bits << (64 - kShift)) >> 12) | kOne) - 1;
    const double past = leading > 0 ? within : 0;
    const double value = multiply_add(next - here, past, here);
    return is_nan(age) ? age : value * (static_cast<double>(b.cost) * b.pace);
  }

  // The index at the lower edges of a bin and of the next one, as float32 in the two halves of a float64: one load.
  KVOPT_HOST_DEVICE static double pair_of(float here, float next) {
    return from_bits(std::uint64_t{bits_of(next)} << 32 | bits_of(here));
  }

  static constexpr std::uint32_t kShift = 51;  // sign, exponent and one bit of the mantissa stay
  static constexpr std::int32_t kFirst = ((1023 - 4) << 1) - 1;
  static constexpr std::uint64_t kOne = 0x3FF0000000000000;

  static constexpr std::int32_t kLast = static_cast<std::int32_t>(kAgeBins) - 1;

  double now;
  const double* pairs;  // [kMostClasses][kAgeBins]: pair_of(); NaN where there is no such class
  double zero = hidden(0);
};

}  // namespace kvopt::scoring::inline KVOPT_SCORING_TARGET
