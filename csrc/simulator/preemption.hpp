// Who gives way when a running request needs a block and none can be had.
#pragma once

#include <cstdint>

namespace kvopt::simulator {

enum class Preemption : std::uint8_t {
  kLast,      // the request admitted last, as vLLM under first come, first served
  kPriority,  // the highest priority value, then the latest arrival, as vLLM under priority scheduling
  kCost,      // whose tokens take the least prefill to compute again, of equals the one admitted last
};

}  // namespace kvopt::simulator
