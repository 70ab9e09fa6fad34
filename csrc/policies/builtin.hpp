// The built-in policies: one function a policy, defined in the policy's own file.
#pragma once

#include <memory>
#include <optional>
#include <span>

#include "kvopt/policy.hpp"

namespace kvopt {

using BuiltinPolicy = PolicyEntry;

// A policy without parameters.
template <class P>
std::unique_ptr<Policy> make_plain(std::span<const double> /*parameters*/) {
  return std::make_unique<P>();
}

// A policy that is made from its parameters.
template <class P>
std::unique_ptr<Policy> make_with(std::span<const double> parameters) {
  return std::make_unique<P>(parameters);
}

namespace builtin {

BuiltinPolicy lru();
BuiltinPolicy fifo();
BuiltinPolicy lfu();
BuiltinPolicy clock();
BuiltinPolicy slru();
BuiltinPolicy two_q();
BuiltinPolicy mq();
BuiltinPolicy arc();
BuiltinPolicy s3_fifo();
BuiltinPolicy sieve();
BuiltinPolicy lirs();
BuiltinPolicy lfu_da();
BuiltinPolicy lru_k();
BuiltinPolicy w_tinylfu();
BuiltinPolicy lecar();
BuiltinPolicy cacheus();
BuiltinPolicy gdsf();
BuiltinPolicy lhd();
BuiltinPolicy hyperbolic();
BuiltinPolicy random();
BuiltinPolicy priority();
BuiltinPolicy t_lru();
BuiltinPolicy workload_aware();
BuiltinPolicy asymcache();
BuiltinPolicy pensieve();
BuiltinPolicy pgdsf();
BuiltinPolicy marconi();
BuiltinPolicy kvflow();
BuiltinPolicy lpc();
BuiltinPolicy dummy();
BuiltinPolicy cost_aware();

}  // namespace builtin

}  // namespace kvopt
