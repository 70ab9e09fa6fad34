// What the engine tells of and asks whoever retains blocks for sessions that come back; this one retains nothing.
#pragma once

#include <cstdint>

#include "kvopt/policy.hpp"
#include "simulator/request.hpp"

namespace kvopt::simulator {

class Retention {
 public:
  virtual ~Retention() = default;
  // Seconds before which the passing of time alone changes nothing.
  virtual Time next_due() { return kNever; }
  // A step begins; true when something was let go of that may change who is admitted.
  virtual bool before_step(Time /*now*/) { return false; }
  // It is planned: who runs and what is held stays as it is while it takes its time.
  virtual void planned(Time /*now*/) {}
  // A request waits.
  virtual void arrived(const RequestPtr& /*request*/, Time /*now*/) {}
  // It holds its blocks, of which the first `hit` were cached.
  virtual void scheduled(const RequestPtr& /*request*/, std::int64_t /*hit*/, Time /*now*/) {}
  // It lost its blocks and waits again.
  virtual void preempted(const RequestPtr& /*request*/, Time /*now*/) {}
  // Its answer is complete; it holds its blocks still.
  virtual void finished(const RequestPtr& /*request*/, const RequestInfo& /*info*/, Time /*now*/) {}
  // It ends without an answer, from wherever it was.
  virtual void aborted(const RequestPtr& /*request*/, Time /*now*/) {}
  // Gives something up, so that `blocks` blocks can be had in the end: for a running request, or for `waiting`, the
  // first who waits. False when nothing is left to give, it would not do, or who waits can wait on.
  virtual bool make_room(std::int64_t /*blocks*/, Time /*now*/, const RequestPtr& /*waiting*/) { return false; }
  // The run is over; everything is let go of.
  virtual void close(Time /*now*/) {}
};

}  // namespace kvopt::simulator
