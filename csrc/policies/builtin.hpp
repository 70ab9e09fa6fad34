// Factories of the built-in policies; parameters come checked, in the order of PolicyInfo::parameters.
#pragma once

#include <memory>
#include <optional>
#include <span>

#include "kvopt/policy.hpp"

namespace kvopt {

std::unique_ptr<Policy> make_lru(std::span<const double> parameters);
std::unique_ptr<Policy> make_fifo(std::span<const double> parameters);
std::unique_ptr<Policy> make_lfu(std::span<const double> parameters);
std::unique_ptr<Policy> make_priority(std::span<const double> parameters);
std::unique_ptr<Policy> make_dummy(std::span<const double> parameters);

}  // namespace kvopt
