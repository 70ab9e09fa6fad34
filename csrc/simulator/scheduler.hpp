// The order of the requests that wait. kvopt/scheduler/base.py has both sides' duties.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>

#include "simulator/request.hpp"

namespace kvopt::simulator {

// What a scheduler may ask the engine.
class SchedulerView {
 public:
  virtual ~SchedulerView() = default;
  virtual Time now() const = 0;
  virtual std::int64_t version() const = 0;  // changes whenever what is cached may have changed
  virtual std::int64_t cached_tokens(const Request& request) const = 0;
};

class Scheduler {
 public:
  virtual ~Scheduler() = default;
  virtual void add(const RequestPtr& request) = 0;
  virtual void prepend(const RequestPtr& request) = 0;
  virtual RequestPtr peek(SchedulerView& view) = 0;
  // Gives out the request that peek() named last; throws SchedulerError when it gives another.
  virtual void pop(const RequestPtr& named) = 0;
  virtual void remove(const RequestPtr& request) = 0;
  virtual Time stable_until() = 0;
  virtual std::size_t size() = 0;
};

class FifoScheduler final : public Scheduler {
 public:
  explicit FifoScheduler(std::shared_ptr<RequestQueue> queue) : queue_(std::move(queue)) {}

  void add(const RequestPtr& request) override { queue_->add(request); }
  void prepend(const RequestPtr& request) override { queue_->prepend(request); }
  RequestPtr peek(SchedulerView& /*view*/) override { return queue_->front(); }
  void pop(const RequestPtr& /*named*/) override { queue_->pop(); }
  void remove(const RequestPtr& request) override { queue_->remove(*request); }
  Time stable_until() override { return kNever; }
  std::size_t size() override { return queue_->size(); }

 private:
  std::shared_ptr<RequestQueue> queue_;
};

}  // namespace kvopt::simulator
