// A Policy whose hooks are methods of a Python object (kvopt.policies.Policy).
#pragma once

#include <pybind11/pybind11.h>

#include <memory>

#include "kvopt/policy.hpp"

namespace kvopt::bindings {

// From "lru" or a Python policy object. Throws ConfigError for anything else.
std::unique_ptr<Policy> to_policy(const pybind11::object& policy);

bool is_python_policy(const pybind11::object& policy);

// Raises a KeyboardInterrupt, or whatever else is no Exception, that came up in a hook of a Python policy.
void raise_interrupt(const Policy& policy);

}  // namespace kvopt::bindings
