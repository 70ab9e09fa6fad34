// The timed engine: continuous batching with chunked prefill over a block pool, step by step as vLLM's scheduler.
//
// A step. Running requests come first, in the order of admission: each that decodes computes one token, the one in
// prefill (the last) as much of its prompt as the token budget leaves. Who needs a block when none can be had preempts
// another. If nobody was preempted, waiting requests are admitted while budget, sequences and memory last; the first
// that does not fit blocks those behind it. The step takes its time; then answers grow, and those that are complete
// give up their blocks.
//
// Steps between which nothing can happen are taken without looking at requests; the result is the same (`jump` turns it
// off, for tests). Nothing is random here, and nothing depends on the machine.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "kvopt/block_pool.hpp"
#include "simulator/accounts.hpp"
#include "simulator/admission.hpp"
#include "simulator/clients.hpp"
#include "simulator/collector.hpp"
#include "simulator/memory.hpp"
#include "simulator/planner.hpp"
#include "simulator/preemption.hpp"
#include "simulator/request_source.hpp"
#include "simulator/retention.hpp"
#include "simulator/scheduler.hpp"
#include "simulator/step_time.hpp"
#include "simulator/tier.hpp"

namespace kvopt::simulator {

struct EngineOptions {
  Limits limits;
  Preemption preemption = Preemption::kLast;
  ClientRules clients;
  std::optional<TierOptions> tier;
  bool whole_hits = false;  // a prompt may be hit whole, as in a replay
  bool jump = true;
};

// What a run is made of; all of it outlives the engine.
struct EngineParts {
  BlockPool& pool;
  const RequestSource& source;
  const ThreadTable& threads;
  Scheduler& scheduler;
  StepTime& time;
  Retention& retention;
  Collector& collector;
};

// One server and one run; it is the view that schedulers have.
class Engine final : public SchedulerView {
 public:
  // `times`: when each request would come in an open loop, in seconds.
  Engine(const EngineParts& parts, const std::vector<double>& times, const EngineOptions& options);

  Time now() const override { return now_; }
  std::int64_t version() const override { return memory_.version(); }
  std::int64_t cached_tokens(const Request& request) const override {
    return memory_.probe(request).hit * memory_.block_tokens();
  }

  // Serves until no client sends anything; `report` is told now and then how many requests are done with. Throws
  // SimulationError when it cannot go on or a check fails.
  void run(const std::function<void(std::int64_t)>& report);

 private:
  void hear_clients();
  void arrive(std::int64_t number, Time time);
  void abort(const RequestPtr& request);
  void forget(const Request& request);
  void answered(const Request& request);
  void take_step();
  std::int64_t run_uneventful(std::int64_t decodes, std::int64_t context);
  Time step_seconds(std::span<const Chunk> chunks, std::int64_t decodes, std::int64_t context);
  void prefilled(const RequestPtr& request, std::int64_t tokens);
  void finish(const RequestPtr& request);
  Time next_event() const { return std::min(clients_.next_time(), waiting_.next_load()); }
  void pass_time(Time until);
  std::string stalled();

  const RequestSource& source_;
  StepTime& time_;
  Retention& retention_;
  Clients clients_;
  std::unique_ptr<Tier> tier_;
  Memory memory_;
  Accounts accounts_;
  Admission waiting_;
  Planner plan_;
  bool jump_;
  Time now_ = 0;
  std::vector<RequestPtr> requests_;  // by number: those that came and are not finished
  std::int64_t live_ = 0;             // how many these are
  std::int64_t idle_steps_ = 0;
  std::vector<Chunk> shapes_;  // scratch
};

}  // namespace kvopt::simulator
