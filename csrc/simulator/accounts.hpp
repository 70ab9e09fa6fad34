// The books of a run: what the engine does, as entries of the collector. Conservation is checked a request when it
// ends, and a run when it closes; what does not add up throws SimulationError.
#pragma once

#include <array>
#include <cstdint>

#include "simulator/collector.hpp"
#include "simulator/memory.hpp"
#include "simulator/request.hpp"
#include "simulator/step_time.hpp"

namespace kvopt::simulator {

class Accounts {
 public:
  Accounts(Collector& collector, Memory& memory, StepTime& time)
      : collector_(collector), memory_(memory), time_(time) {}

  void arrived(const Request& request);
  // It needs more blocks than there are.
  void refused(const Request& request, std::int64_t blocks);
  // Blocks that hold `loaded` of its tokens are on their way from another tier.
  void loading(const Request& request, Time now);
  // It runs; `computed` of its tokens were cached, `loaded` of these in another tier.
  void admitted(Request& request, Time now);
  // A step computed the next `tokens` of a prompt; says why each had to be computed.
  void prefilled(Request& request, std::int64_t tokens, Time now);
  // Its answer began.
  void first_token(const Request& request, Time now);
  // It lost its blocks, with `computed` tokens in them.
  void preempted(Request& request, Time now);
  // Its answer is complete.
  void finished(const Request& request, Time now);
  // Its client gave up.
  void aborted(const Request& request, Time now);
  // All requests of a session were answered.
  void session_done(double seconds);
  // Some steps were taken, in which so many tokens were decoded.
  void step(Time begin, Time end, std::int64_t steps, std::int64_t decoded, std::int64_t running, std::int64_t waiting);
  // Time passed with the blocks that are held and cached now.
  void pass(Time begin, Time end, std::int64_t running, std::int64_t waiting);
  // The run is over, in which so many of all requests were sent.
  void close(Time now, std::int64_t sent, std::int64_t requests);

 private:
  Collector& collector_;
  Memory& memory_;
  StepTime& time_;
  std::array<std::int64_t, 2> planned_{};  // tokens that steps prefilled and decoded
  std::array<std::int64_t, 2> booked_{};   // the same by requests
};

}  // namespace kvopt::simulator
