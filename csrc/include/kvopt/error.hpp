// What the core throws. Each is thrown before any state changes; the message names the value and the limit.
#pragma once

#include <stdexcept>

namespace kvopt {

struct Error : std::runtime_error {
  using std::runtime_error::runtime_error;
};

// A parameter is outside what it may be.
struct ConfigError : Error {
  using Error::Error;
};

// No policy has this name.
struct UnknownPolicyError : ConfigError {
  using ConfigError::ConfigError;
};

// A shared library of policies cannot be used.
struct PolicyLibraryError : ConfigError {
  using ConfigError::ConfigError;
};

// A saved state of a policy is foreign, damaged, or of another version or other settings; or the policy learns nothing.
struct PolicyStateError : ConfigError {
  using ConfigError::ConfigError;
};

// A workload breaks its own format.
struct TraceError : Error {
  using Error::Error;
};

// Base of what a pool refuses.
struct PoolError : Error {
  using Error::Error;
};

// More blocks were asked for than can be freed.
struct NotEnoughBlocksError : PoolError {
  using PoolError::PoolError;
};

// A block id is out of range, or its block no longer holds what the caller thinks.
struct StaleBlockError : PoolError {
  using PoolError::PoolError;
};

// A release without a reference, or more references than the counter holds.
struct ReferenceCountError : PoolError {
  using PoolError::PoolError;
};

// A lease is unknown, over, or beyond the budget.
struct LeaseError : PoolError {
  using PoolError::PoolError;
};

// A policy broke its side of the contract.
struct PolicyError : Error {
  using Error::Error;
};

// A scheduler broke its side of the contract.
struct SchedulerError : Error {
  using Error::Error;
};

// A simulation cannot go on, or its books do not balance.
struct SimulationError : Error {
  using Error::Error;
};

}  // namespace kvopt
