// The blocks of an EnginePool as Python objects, and the pool that they share.
//
// A block is a CPython object of its own type, not a pybind11 one: engines walk lists of thousands of them, so it is 32
// bytes, has no garbage-collector header, and its id is a slot that the interpreter reads without a call. Its state
// lives in the pool; all blocks of a pool lie in one array, so that a block's address is its id.
#pragma once

#include <pybind11/pybind11.h>

#include <chrono>
#include <memory>
#include <vector>

#include "kvopt/engine_pool.hpp"

namespace kvopt::bindings {

struct EngineCore;

struct EngineBlock {
  PyObject_HEAD PyObject* block_id;
  EngineCore* core;
};

// Lives as long as the pool or any of its blocks.
struct EngineCore {
  EngineCore(const EngineOptions& options, std::unique_ptr<Policy> policy, PyObject* clock);
  EngineCore(const EngineCore&) = delete;
  EngineCore& operator=(const EngineCore&) = delete;

  static EngineCore* make(const EngineOptions& options, std::unique_ptr<Policy> policy, PyObject* clock);
  void drop_blocks();  // the pool goes
  void unref();

  BlockId id_of(const EngineBlock* block) const { return static_cast<BlockId>(block - blocks); }
  // What the caller said of the request, at the present time.
  const RequestInfo& at_present();

  EnginePool pool;
  EngineBlock* blocks = nullptr;  // pool.size() of them
  std::size_t users = 1;
  PyObject* clock;            // owned; None: time does not matter
  PyObject* owner = nullptr;  // owned weak reference to what a block names as its pool
  RequestInfo info;
  double decision_seconds = 0.0;            // that calls took in which the policy decides or is told
  std::vector<BlockId> ids;                 // scratch
  std::vector<const std::uint8_t*> hashes;  // scratch

 private:
  ~EngineCore();
};

// Adds the time until it goes to the core's decision_seconds; none where no policy decides.
class DecisionTimer {
 public:
  explicit DecisionTimer(EngineCore& core) : core_(core), counts_(core.pool.runs() != nullptr) {
    if (counts_) begin_ = std::chrono::steady_clock::now();
  }
  DecisionTimer(const DecisionTimer&) = delete;
  DecisionTimer& operator=(const DecisionTimer&) = delete;
  ~DecisionTimer() {
    if (counts_)
      core_.decision_seconds += std::chrono::duration<double>(std::chrono::steady_clock::now() - begin_).count();
  }

 private:
  EngineCore& core_;
  bool counts_;
  std::chrono::steady_clock::time_point begin_;
};

// Makes the type, once.
PyTypeObject* engine_block_type();

// The block, or null for anything else (also for another pool's).
inline EngineBlock* as_block(PyObject* object, const EngineCore& core) {
  if (Py_TYPE(object) != engine_block_type()) return nullptr;
  auto* block = reinterpret_cast<EngineBlock*>(object);
  return block->core == &core ? block : nullptr;
}

// A key or hash given as bytes. Throws ConfigError.
BlockKey as_key(PyObject* bytes);

}  // namespace kvopt::bindings
