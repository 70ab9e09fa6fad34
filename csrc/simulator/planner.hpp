// What the next step computes: who runs, who gives way, who is let in.
#pragma once

#include <cstdint>
#include <vector>

#include "simulator/accounts.hpp"
#include "simulator/admission.hpp"
#include "simulator/decode_batch.hpp"
#include "simulator/memory.hpp"
#include "simulator/preemption.hpp"
#include "simulator/request_source.hpp"
#include "simulator/retention.hpp"
#include "simulator/step_time.hpp"
#include "simulator/tier.hpp"

namespace kvopt::simulator {

// The running requests, and of each step what they do in it. Between plans at most one request is in prefill, the last
// of the running: only a chunk that uses up the token budget leaves a prompt incomplete, and then nobody behind it was
// let in.
class Planner {
 public:
  Planner(const RequestSource& source, Memory& memory, Admission& waiting, Accounts& accounts, Retention& retention,
          StepTime& time, Preemption preemption, const Limits& limits, Tier* tier)
      : source_(source),
        memory_(memory),
        waiting_(waiting),
        accounts_(accounts),
        retention_(retention),
        time_(time),
        preemption_(preemption),
        limits_(limits),
        tier_(tier),
        batch_(memory.block_tokens()) {}

  DecodeBatch& batch() { return batch_; }
  const Running& running() const { return running_; }
  // Tokens that this step prefills.
  const std::vector<Share>& chunks() const { return chunks_; }
  // Requests that decode, but not in this step: behind one that had to give way itself.
  const std::vector<RequestPtr>& sitting_out() const { return sitting_out_; }
  // How many requests decode in this step.
  std::int64_t decodes() const { return batch_.size() - static_cast<std::int64_t>(sitting_out_.size()); }
  // Whether somebody was preempted in this step.
  bool preempted() const { return preempted_; }

  // Plans the step that begins now.
  void plan(SchedulerView& view);
  // Takes a request that does not decode out of the running, and its blocks from it.
  void leave(const RequestPtr& request, const RequestInfo& info);
  // Lets a request that lost its blocks wait again.
  void take_back(const RequestPtr& request);
  // The prompt of this request is complete.
  void prefill_done(const RequestPtr& request);

 private:
  bool plan_decodes();
  void plan_prefill(const RequestPtr& request);
  bool make_room(const RequestPtr& request, std::int64_t blocks);
  RequestPtr victim() const;
  double loss_ms(const Request& request) const;
  void preempt(const RequestPtr& request);
  void sit_out_behind(const Request& request);
  void admit_waiting(SchedulerView& view);

  const RequestSource& source_;
  Memory& memory_;
  Admission& waiting_;
  Accounts& accounts_;
  Retention& retention_;
  StepTime& time_;
  Preemption preemption_;
  Limits limits_;
  Tier* tier_;
  DecodeBatch batch_;
  Running running_;
  RequestPtr prefilling_;  // the last of the running, where its prompt is not complete
  std::vector<Share> chunks_;
  std::vector<RequestPtr> sitting_out_;
  bool preempted_ = false;
  Time now_ = 0;
};

}  // namespace kvopt::simulator
