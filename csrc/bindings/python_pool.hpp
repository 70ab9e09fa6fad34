// A pool and what its requests hold, as Python objects. Python drops objects whenever it likes, also in the middle of a
// call, when a hook of a Python policy runs: what a dropped allocation held is let go of when no call is under way.
#pragma once

#include <pybind11/pybind11.h>

#include <memory>
#include <utility>
#include <vector>

#include "bindings/python_policy.hpp"
#include "kvopt/block_pool.hpp"
#include "kvopt/error.hpp"

namespace kvopt::bindings {

class PythonPool {
 public:
  PythonPool(const PoolOptions& options, std::unique_ptr<Policy> policy) : pool_(options, std::move(policy)) {}

  const BlockPool& pool() const { return pool_; }
  // For a native engine that serves a run from it. It calls out to Python between its calls to the pool only.
  BlockPool& served() { return pool_; }

  // Calls change(pool). Throws PoolError when a call is under way already.
  template <class Change>
  auto call(Change change) {
    if (busy_) throw PoolError("the pool is in the middle of another call; a policy must not call it from a hook");
    const Busy busy(*this);
    if constexpr (std::is_void_v<decltype(change(pool_))>) {
      change(pool_);
      raise_interrupt(pool_.policy());
    } else {
      auto result = change(pool_);
      raise_interrupt(pool_.policy());
      return result;
    }
  }

  // Lets go of what a dropped object held, at the latest time that the pool was told.
  void abandon(Allocation allocation) {
    abandoned_.push_back(std::move(allocation));
    if (!busy_) release_abandoned();
  }

 private:
  class Busy {
   public:
    explicit Busy(PythonPool& pool) : pool_(pool) { pool_.busy_ = true; }
    Busy(const Busy&) = delete;
    Busy& operator=(const Busy&) = delete;
    ~Busy() {
      if (!pool_.abandoned_.empty()) pool_.release_abandoned();
      pool_.busy_ = false;
    }

   private:
    PythonPool& pool_;
  };

  void release_abandoned() noexcept;

  BlockPool pool_;
  bool busy_ = false;
  std::vector<Allocation> abandoned_;
};

// What one request holds. It keeps the pool alive (py::keep_alive).
struct PythonAllocation {
  explicit PythonAllocation(PythonPool& owner) : pool(&owner) {}
  PythonAllocation(const PythonAllocation&) = delete;
  PythonAllocation& operator=(const PythonAllocation&) = delete;
  ~PythonAllocation();

  Allocation allocation;
  PythonPool* pool;
};

}  // namespace kvopt::bindings
