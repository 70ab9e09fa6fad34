#include "simulator/planner.hpp"

#include <algorithm>
#include <tuple>

namespace kvopt::simulator {

void Planner::plan(SchedulerView& view) {
  now_ = view.now();
  chunks_.clear();
  sitting_out_.clear();
  preempted_ = false;
  const bool whole_line = plan_decodes();
  // A copy, for it may have to go.
  if (const RequestPtr last = prefilling_; whole_line && last != nullptr) plan_prefill(last);
  if (!preempted_) admit_waiting(view);
}

void Planner::leave(const RequestPtr& request, const RequestInfo& info) {
  if (tier_ != nullptr && request->allocation.live()) {
    tier_->store(*request, request->allocation.committed(), info.now);
  }
  memory_.release(*request, info);
  waiting_.unblock();
  running_.erase(request->order);
  if (request == prefilling_) prefilling_ = nullptr;
}

void Planner::take_back(const RequestPtr& request) {
  accounts_.preempted(*request, now_);
  retention_.preempted(request, now_);
  request->computed = request->loaded = 0;
  request->state = RequestState::kPreempted;
  waiting_.take_back(request);
  preempted_ = true;
}

void Planner::prefill_done(const RequestPtr& request) {
  if (request == prefilling_) prefilling_ = nullptr;
}

// False when the line of the running ends before its end.
bool Planner::plan_decodes() {
  const std::int64_t whole = memory_.block_tokens();
  while (const RequestPtr request = batch_.pop_edge()) {
    const std::int64_t position = batch_.position(*request);
    if (position % whole == 0) {
      if (!make_room(request, 1)) {
        sit_out_behind(*request);
        return false;
      }
      memory_.extend(*request, 1, now_);
      waiting_.unblock();
    }
    if ((position + 1) % whole == 0) {
      memory_.commit(*request, position + 1, source_.info(request->id, now_));
      waiting_.unblock();
    }
    batch_.plan_edge(request);
  }
  return true;
}

void Planner::plan_prefill(const RequestPtr& request) {
  const std::int64_t tokens = std::min(request->remaining_prefill(), limits_.token_budget - batch_.size());
  const std::int64_t end = request->computed + tokens;
  const std::int64_t more = memory_.blocks(end) - request->held_blocks;
  if (more > 0) {
    if (!make_room(request, more)) return;
    memory_.extend(*request, more, now_);
  }
  memory_.commit(*request, end, source_.info(request->id, now_));
  waiting_.unblock();
  chunks_.emplace_back(request, tokens);
}

// False when the request itself had to go.
bool Planner::make_room(const RequestPtr& request, std::int64_t blocks) {
  while (blocks > memory_.free()) {
    if (retention_.make_room(blocks, now_, nullptr)) continue;
    const RequestPtr other = victim();
    preempt(other);
    if (other == request) return false;
  }
  return true;
}

RequestPtr Planner::victim() const {
  RequestPtr found = running_.rbegin()->second;
  if (preemption_ == Preemption::kPriority) {
    const auto rank = [](const auto& entry) { return std::tuple(entry.second->priority, entry.second->arrival); };
    found = std::ranges::max_element(running_, {}, rank)->second;
  } else if (preemption_ == Preemption::kCost) {
    const auto rank = [this](const auto& entry) { return std::tuple(loss_ms(*entry.second), -entry.first); };
    found = std::ranges::min_element(running_, {}, rank)->second;
  }
  return found;
}

double Planner::loss_ms(const Request& request) const {
  return time_.prefill_ms(request.decode_step >= 0 ? batch_.position(request) : request.computed, 0);
}

void Planner::preempt(const RequestPtr& request) {
  if (request->decode_step >= 0) batch_.leave(*request);
  leave(request, source_.info(request->id, now_));
  take_back(request);
}

void Planner::sit_out_behind(const Request& request) {
  for (auto other = running_.upper_bound(request.order); other != running_.end(); ++other) {
    if (other->second->decode_step >= 0) sitting_out_.push_back(other->second);
  }
}

void Planner::admit_waiting(SchedulerView& view) {
  std::int64_t budget = limits_.token_budget - batch_.size();
  for (const auto& [request, tokens] : chunks_) budget -= tokens;
  for (Share& share : waiting_.admit(view, running_, budget)) {
    if (share.first->computed + share.second < share.first->tokens()) prefilling_ = share.first;
    chunks_.push_back(std::move(share));
  }
}

}  // namespace kvopt::simulator
