// Small types that every public header shares.
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>

namespace kvopt {

// Index of a block in the pool that owns it. Dense, 0 <= id < capacity.
using BlockId = std::uint32_t;
inline constexpr BlockId kNoBlock = std::numeric_limits<BlockId>::max();

// Index of a run of cached blocks (run_table.hpp).
using RunId = std::uint32_t;
inline constexpr RunId kNoRun = std::numeric_limits<RunId>::max();

// Seconds on the caller's monotonic clock. The core never reads a clock.
using Time = double;
inline constexpr Time kNever = std::numeric_limits<Time>::infinity();

}  // namespace kvopt
