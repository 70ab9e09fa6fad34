// Reading the name of a rule.
#pragma once

#include <string>

#include "kvopt/error.hpp"
#include "kvopt/policy.hpp"

namespace kvopt::bindings {

inline Rule to_rule(const std::string& rule) {
  if (rule == "prefix") return Rule::kPrefix;
  if (rule == "flat") return Rule::kFlat;
  throw ConfigError("rule is '" + rule + "'; it must be 'prefix' or 'flat'");
}

}  // namespace kvopt::bindings
