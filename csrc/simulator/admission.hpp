// From waiting to running: whose turn it is, whether it fits, and loads from another tier before it runs.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <utility>
#include <vector>

#include "simulator/accounts.hpp"
#include "simulator/memory.hpp"
#include "simulator/request_source.hpp"
#include "simulator/retention.hpp"
#include "simulator/scheduler.hpp"
#include "simulator/tier.hpp"

namespace kvopt::simulator {

struct Limits {
  std::int64_t token_budget = 8192;   // tokens a step
  std::int64_t max_sequences = 1024;  // requests that run at once
};

// Requests by their order of admission.
using Running = std::map<std::int64_t, RequestPtr>;
// A request and the tokens that a step prefills of it.
using Share = std::pair<RequestPtr, std::int64_t>;

// All requests that have come and do not run. Those whose blocks were loaded go first, as in vLLM.
class Admission {
 public:
  Admission(Scheduler& scheduler, Memory& memory, const RequestSource& source, Accounts& accounts, Retention& retention,
            const Limits& limits, Tier* tier)
      : scheduler_(scheduler),
        memory_(memory),
        source_(source),
        accounts_(accounts),
        retention_(retention),
        limits_(limits),
        tier_(tier) {}

  std::int64_t size() { return static_cast<std::int64_t>(scheduler_.size() + loads_.size() + loaded_.size()); }

  // Takes in a request that has arrived.
  void add(const RequestPtr& request);
  // Takes in a request that was preempted.
  void take_back(const RequestPtr& request);
  // Drops a request that was aborted, with what it holds.
  void remove(const RequestPtr& request, Time now);
  // Something changed for the head of the line: memory, the cache, or who runs.
  void unblock() { blocked_ = false; }
  // When the next load is complete; kNever when there is none.
  Time next_load() const { return loads_.empty() ? kNever : loads_.front().ready; }
  // Until when trying to admit would change nothing, if nothing happens; -kNever when it might now.
  Time idle_until(std::size_t running);
  // Lets those run whose loads are complete.
  void finish_loads(Time now);
  // Takes its blocks from the one loaded last, where several hold what the first of them needs; it waits anew.
  RequestPtr give_way(Time now);
  // Moves requests into `running` while budget, sequences and memory last; each with its tokens in this step.
  std::vector<Share> admit(SchedulerView& view, Running& running, std::int64_t budget);
  // Whose turn it is; or null.
  RequestPtr head(SchedulerView& view);

 private:
  struct Load {
    Time ready;
    RequestPtr request;
  };

  std::int64_t begin(const RequestPtr& request, std::int64_t budget, Time now);
  bool load(const RequestPtr& request, std::int64_t hit, std::int64_t stored, const RequestInfo& info);
  std::int64_t resume(const RequestPtr& request, std::int64_t budget, Time now);
  void start(Request& request, Time now);

  Scheduler& scheduler_;
  Memory& memory_;
  const RequestSource& source_;
  Accounts& accounts_;
  Retention& retention_;
  Limits limits_;
  Tier* tier_;
  std::deque<Load> loads_;  // in the order of the link
  std::deque<RequestPtr> loaded_;
  std::int64_t admissions_ = 0;
  bool blocked_ = false;
};

}  // namespace kvopt::simulator
