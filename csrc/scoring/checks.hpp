// What score() and score_select() look at before they write anything. All throw ConfigError.
#pragma once

#include <cstdint>

#include "scoring/kernels.hpp"

namespace kvopt::scoring {

inline constexpr std::uint32_t kMostThreads = 1024;

void require_threads(std::uint32_t threads);
// NaN in a feature that the score reads, and classes without a row in its tables.
void require_values(const BlockFeatures& features, const PreparedScore& prepared, const Kernels& kernels);

}  // namespace kvopt::scoring
