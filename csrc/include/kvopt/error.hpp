// What the core throws. Each is thrown before any state changes; the message names the value and the limit.
#pragma once

#include <stdexcept>

#include "kvopt/export.h"

namespace kvopt {

struct KVOPT_API Error : std::runtime_error {
  using std::runtime_error::runtime_error;
};

// A parameter is outside what it may be.
struct KVOPT_API ConfigError : Error {
  using Error::Error;
};

// No policy has this name.
struct KVOPT_API UnknownPolicyError : ConfigError {
  using ConfigError::ConfigError;
};

// A shared library of policies cannot be used.
struct KVOPT_API PolicyLibraryError : ConfigError {
  using ConfigError::ConfigError;
};

// A saved state of a policy is foreign, damaged, or of another version or other settings; or the policy learns nothing.
struct KVOPT_API PolicyStateError : ConfigError {
  using ConfigError::ConfigError;
};

// A workload breaks its own format.
struct KVOPT_API TraceError : Error {
  using Error::Error;
};

// Base of what a pool refuses.
struct KVOPT_API PoolError : Error {
  using Error::Error;
};

// More blocks were asked for than can be freed.
struct KVOPT_API NotEnoughBlocksError : PoolError {
  using PoolError::PoolError;
};

// A block id is out of range, or its block no longer holds what the caller thinks.
struct KVOPT_API StaleBlockError : PoolError {
  using PoolError::PoolError;
};

// A release without a reference, or more references than the counter holds.
struct KVOPT_API ReferenceCountError : PoolError {
  using PoolError::PoolError;
};

// A lease is unknown, over, or beyond the budget.
struct KVOPT_API LeaseError : PoolError {
  using PoolError::PoolError;
};

// CUDA, a driver or a GPU is missing, or refused what was asked of it.
struct KVOPT_API CudaError : Error {
  using Error::Error;
};

// A policy broke its side of the contract.
struct KVOPT_API PolicyError : Error {
  using Error::Error;
};

// A scheduler broke its side of the contract.
struct KVOPT_API SchedulerError : Error {
  using Error::Error;
};

// A simulation cannot go on, or its books do not balance.
struct KVOPT_API SimulationError : Error {
  using Error::Error;
};

}  // namespace kvopt
