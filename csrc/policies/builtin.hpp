// The built-in policies: what each is, and how it is made. One function a policy, defined in the policy's own file.
#pragma once

#include <memory>
#include <optional>
#include <span>

#include "kvopt/policy.hpp"

namespace kvopt {

struct BuiltinPolicy {
  PolicyInfo info;
  // Parameters come checked, in the order of PolicyInfo::parameters. Null: offline.
  std::unique_ptr<Policy> (*make)(std::span<const double> parameters) = nullptr;
};

// A policy without parameters.
template <class P>
std::unique_ptr<Policy> make_plain(std::span<const double> /*parameters*/) {
  return std::make_unique<P>();
}

namespace builtin {

BuiltinPolicy lru();
BuiltinPolicy fifo();
BuiltinPolicy lfu();
BuiltinPolicy priority();
BuiltinPolicy dummy();
BuiltinPolicy cost_aware();

}  // namespace builtin

}  // namespace kvopt
