// What both pools take: what is known of a request, and a policy.
#pragma once

#include <memory>

#include "kvopt/kvopt.h"
#include "kvopt/policy.hpp"

namespace kvopt::capi {

// Throws Refusal, or ConfigError for a value that there is none of.
RequestInfo to_info(const kvopt_request_info* given);

// From functions where there are any, else by name. Null where both are null.
std::unique_ptr<Policy> to_policy(const char* policy, const kvopt_policy_functions* functions);

// A field that is 0 or 1. Throws ConfigError.
bool to_bool(std::uint32_t value, const char* name);

}  // namespace kvopt::capi
