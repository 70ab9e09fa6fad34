// The live pools of a kind, and taking turns at them.
//
// A call finds its pool under the registry's lock and works under the pool's own, so calls to different pools do not
// wait for each other. A pool that is destroyed while others wait for it goes when the last of them has been refused.
#pragma once

#include <atomic>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <utility>

#include "capi/handle_table.hpp"
#include "capi/status.hpp"

namespace kvopt::capi {

// A lock that refuses the thread that has it, which a policy that calls its pool would be.
class Turns {
 public:
  void take() {
    if (holder_.load(std::memory_order_relaxed) == std::this_thread::get_id()) {
      throw Refusal(KVOPT_BUSY, "the pool is in the middle of another call; a policy must not call its pool");
    }
    mutex_.lock();
    holder_.store(std::this_thread::get_id(), std::memory_order_relaxed);
  }

  void give_back() {
    holder_.store({}, std::memory_order_relaxed);
    mutex_.unlock();
  }

 private:
  std::mutex mutex_;
  std::atomic<std::thread::id> holder_;
};

class Turn {
 public:
  explicit Turn(Turns& turns) : turns_(turns) { turns_.take(); }
  Turn(const Turn&) = delete;
  Turn& operator=(const Turn&) = delete;
  ~Turn() { turns_.give_back(); }

 private:
  Turns& turns_;
};

// State: has Turns `turns`, bool `closed`, and kKind, what a message calls it.
template <class State>
class Registry {
 public:
  // Never destroyed: an engine may end its pools in destructors that run when the process exits.
  static Registry& instance() {
    static auto& registry = *new Registry;
    return registry;
  }

  std::uint64_t add(std::shared_ptr<State> state) {
    const std::scoped_lock lock(mutex_);
    const std::uint64_t id = pools_.add();
    *pools_.find(id) = std::move(state);
    return id;
  }

  // change(state), when it is this thread's turn. Throws Refusal for a handle of none.
  template <class Change>
  void call(std::uint64_t id, Change change) {
    const std::shared_ptr<State> state = find(id);
    const Turn turn(state->turns);
    if (state->closed) refuse(id);
    change(*state);
  }

  void close(std::uint64_t id) {
    const std::shared_ptr<State> state = find(id);
    const Turn turn(state->turns);
    if (state->closed) refuse(id);
    state->closed = true;
    const std::scoped_lock lock(mutex_);
    pools_.find(id)->reset();
    pools_.remove(id);
  }

 private:
  std::shared_ptr<State> find(std::uint64_t id) {
    const std::scoped_lock lock(mutex_);
    const std::shared_ptr<State>* found = pools_.find(id);
    if (found == nullptr) refuse(id);
    return *found;
  }

  [[noreturn]] static void refuse(std::uint64_t id) {
    throw Refusal(KVOPT_INVALID_HANDLE, "handle " + std::to_string(id) + " is no live " + State::kKind);
  }

  std::mutex mutex_;
  HandleTable<std::shared_ptr<State>> pools_;
};

}  // namespace kvopt::capi
