#include "capi/rank_policy.hpp"

#include <cmath>
#include <limits>

#include "capi/status.hpp"
#include "kvopt/error.hpp"

namespace kvopt::capi {

RankPolicy::RankPolicy(const kvopt_policy_functions& functions) : functions_(functions) {
  if (functions.rank == nullptr) throw Refusal(KVOPT_NULL_POINTER, "functions.rank is a null pointer");
}

RankPolicy::~RankPolicy() {
  if (runs_ != nullptr && functions_.destroyed != nullptr) functions_.destroyed(functions_.user);
}

void RankPolicy::attach(const PolicyContext& context) {
  heap_.emplace(context.runs);
  runs_ = &context.runs;
}

void RankPolicy::on_evictable(std::span<const RunId> runs, const RequestInfo& info) {
  now_ = info.now;
  for (const RunId r : runs) rank(r);
}

void RankPolicy::on_priority(RunId run) {
  if (runs_->evictable(run)) rank(run);
}

void RankPolicy::rank(RunId run) {
  const kvopt_run shown = {.id = run,
                           .length = runs_->length[run],
                           .depth = runs_->depth[run],
                           .hits = runs_->hits[run],
                           .key = runs_->first_key(run),
                           .last_use = runs_->last_use[run],
                           .priority = runs_->priority[run],
                           .reserved = 0};
  double value = functions_.rank(functions_.user, &shown, now_);
  if (std::isnan(value)) {
    if (failed_ == kNoRun) failed_ = run;
    value = -std::numeric_limits<double>::infinity();
  }
  heap_->set(run, {value, ++ranked_});
}

RunId RankPolicy::choose(std::uint32_t /*wanted*/, Time /*now*/) { return heap_->front(); }

void RankPolicy::check() const {
  if (failed_ != kNoRun) throw PolicyError("the policy's function ranked run " + std::to_string(failed_) + " as NaN");
}

}  // namespace kvopt::capi
