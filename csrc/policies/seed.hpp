// The parameter that all randomised policies share.
#pragma once

#include <cstdint>

#include "kvopt/policy.hpp"

namespace kvopt {

inline PolicyParameter seed_parameter() {
  return {"seed", 1, 0, 4'294'967'295, "of the random numbers; the same seed repeats a run exactly"};
}

inline std::uint64_t seed_of(double value) { return static_cast<std::uint64_t>(value); }

}  // namespace kvopt
