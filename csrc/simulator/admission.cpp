#include "simulator/admission.hpp"

#include <algorithm>

namespace kvopt::simulator {

void Admission::add(const RequestPtr& request) {
  scheduler_.add(request);
  blocked_ = false;
}

void Admission::take_back(const RequestPtr& request) {
  scheduler_.prepend(request);
  blocked_ = false;
}

void Admission::remove(const RequestPtr& request, Time now) {
  if (request->allocation.live()) {
    std::erase_if(loads_, [&](const Load& load) { return load.request == request; });
    std::erase(loaded_, request);
    memory_.release(*request, source_.info_at_end(request->id, now, 0, true));
  } else {
    scheduler_.remove(request);
  }
  blocked_ = false;
}

Time Admission::idle_until(std::size_t running) {
  if (static_cast<std::int64_t>(running) >= limits_.max_sequences || (loaded_.empty() && scheduler_.size() == 0)) {
    return kNever;
  }
  return blocked_ ? scheduler_.stable_until() : -kNever;
}

void Admission::finish_loads(Time now) {
  while (!loads_.empty() && loads_.front().ready <= now) {
    const RequestPtr request = std::move(loads_.front().request);
    loads_.pop_front();
    memory_.commit(*request, request->computed, source_.info(request->id, now));
    loaded_.push_back(request);
    blocked_ = false;
  }
}

RequestPtr Admission::give_way(Time now) {
  if (loaded_.size() < 2) return nullptr;
  RequestPtr request = std::move(loaded_.back());
  loaded_.pop_back();
  memory_.release(*request, source_.info(request->id, now));
  return request;
}

std::vector<Share> Admission::admit(SchedulerView& view, Running& running, std::int64_t budget) {
  std::vector<Share> admitted;
  while (budget > 0 && static_cast<std::int64_t>(running.size()) < limits_.max_sequences) {
    RequestPtr request;
    std::int64_t tokens = 0;
    if (!loaded_.empty()) {
      request = loaded_.front();
      tokens = resume(request, budget, view.now());
    } else if (scheduler_.size() > 0) {
      if (blocked_ && view.now() < scheduler_.stable_until()) break;
      request = scheduler_.peek(view);
      tokens = begin(request, budget, view.now());
    } else {
      break;
    }
    if (tokens == 0) {
      blocked_ = true;
      break;
    }
    if (request->state == RequestState::kWaitingForRemoteKvs) continue;
    running.emplace_hint(running.end(), request->order, request);
    budget -= tokens;
    admitted.emplace_back(std::move(request), tokens);
  }
  return admitted;
}

RequestPtr Admission::head(SchedulerView& view) {
  if (!loaded_.empty()) return loaded_.front();
  return scheduler_.size() > 0 ? scheduler_.peek(view) : nullptr;
}

// The tokens that this step computes for it (of one that is to be loaded, some number); 0 when it does not fit.
std::int64_t Admission::begin(const RequestPtr& request, std::int64_t budget, Time now) {
  const Memory::Probe probe = memory_.probe(*request);
  while (!memory_.fits(*request, probe)) {
    if (!retention_.make_room(memory_.blocks(request->tokens()), now, request)) return 0;
  }
  const RequestInfo info = source_.info(request->id, now);
  const std::int64_t hit = probe.hit;
  if (tier_ != nullptr) {
    const std::int64_t stored = tier_->match(*request, memory_.reach(*request));
    if (stored > hit) return load(request, hit, stored, info) ? 1 : 0;
  }
  const std::int64_t computed = std::min(hit * memory_.block_tokens(), request->tokens() - 1);
  const std::int64_t tokens = std::min(request->tokens() - computed, budget);
  if (!memory_.admit(*request, hit, computed + tokens, info)) return 0;
  scheduler_.pop(request);
  request->computed = computed;
  request->seen = memory_.computed_before(*request, hit);
  memory_.commit(*request, computed + tokens, info);
  retention_.scheduled(request, hit, now);
  start(*request, now);
  return tokens;
}

bool Admission::load(const RequestPtr& request, std::int64_t hit, std::int64_t stored, const RequestInfo& info) {
  if (!memory_.admit(*request, hit, stored * memory_.block_tokens(), info)) return false;
  scheduler_.pop(request);
  request->computed = std::min(stored * memory_.block_tokens(), request->tokens() - 1);
  request->loaded = request->computed - hit * memory_.block_tokens();
  request->state = RequestState::kWaitingForRemoteKvs;
  request->order = ++admissions_;
  retention_.scheduled(request, hit, info.now);
  loads_.push_back({tier_->load(stored - hit, info.now), request});
  accounts_.loading(*request, info.now);
  return true;
}

std::int64_t Admission::resume(const RequestPtr& request, std::int64_t budget, Time now) {
  const std::int64_t tokens = std::min(request->tokens() - request->computed, budget);
  const std::int64_t more = memory_.blocks(request->tokens()) - request->held_blocks;
  while (more > memory_.free()) {
    if (!retention_.make_room(more, now, nullptr)) return 0;
  }
  loaded_.pop_front();
  memory_.extend(*request, memory_.blocks(request->computed + tokens) - request->held_blocks, now);
  request->seen = memory_.computed_before(*request, request->computed / memory_.block_tokens());
  memory_.commit(*request, request->computed + tokens, source_.info(request->id, now));
  start(*request, now);
  return tokens;
}

void Admission::start(Request& request, Time now) {
  request.state = RequestState::kRunning;
  request.order = ++admissions_;
  blocked_ = false;
  accounts_.admitted(request, now);
}

}  // namespace kvopt::simulator
