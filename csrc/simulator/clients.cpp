#include "simulator/clients.hpp"

#include <algorithm>
#include <numeric>

namespace kvopt::simulator {

Clients::Clients(const ThreadTable& threads, const std::vector<double>& times, const ClientRules& rules)
    : threads_(threads),
      rules_(rules),
      sessions_(static_cast<std::size_t>(threads.sessions)),
      waits_(threads.waits),
      ready_(threads.session.size()) {
  for (const std::int64_t number : threads.session) ++session(number).left;
  std::vector<std::size_t> order(times.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::ranges::stable_sort(order, {}, [&](std::size_t request) { return times[request]; });
  for (const std::size_t request : order) {
    if (!rules_.closed || waits_[request] == 0) push(times[request], Kind::kArrive, static_cast<std::int64_t>(request));
  }
}

std::optional<Clients::Event> Clients::take(Time now) {
  while (!events_.empty() && events_.top().time <= now) {
    const Entry next = events_.top();
    events_.pop();
    if (next.kind == Kind::kArrive && !may_come(next.request, next.time)) continue;
    return Event{next.kind, next.request, next.time};
  }
  return std::nullopt;
}

void Clients::came(std::int64_t request, Time time) {
  ++sent_;
  if (rules_.closed) release(threads_.after_arrival, request, time);
  if (rules_.patience) push(time + *rules_.patience, Kind::kGiveUp, request);
}

std::optional<std::int64_t> Clients::answered(std::int64_t request, Time time) {
  const std::int64_t number = session_of(request);
  if (rules_.closed) release(threads_.after_answer, request, time);
  if (!one_less(number, time)) return std::nullopt;
  return number;
}

void Clients::gave_up(std::int64_t request, Time time) {
  const std::int64_t number = session_of(request);
  session(number).given_up = true;
  one_less(number, time);
  leave(number, time);
}

bool Clients::may_come(std::int64_t request, Time time) {
  const std::int64_t number = session_of(request);
  Session& own = session(number);
  if (own.given_up) return false;
  if (!own.started) {
    own.started = true;
    own.start = time;
  }
  if (!rules_.session_limit || under_way_.contains(number)) return true;
  if (static_cast<std::int64_t>(under_way_.size()) >= *rules_.session_limit) {
    queue_.push_back(request);
    return false;
  }
  under_way_.insert(number);
  return true;
}

// Whether that was the last of a session that goes on to its end.
bool Clients::one_less(std::int64_t number, Time time) {
  if (--session(number).left > 0) return false;
  leave(number, time);
  return !session(number).given_up;
}

void Clients::leave(std::int64_t number, Time time) {
  if (under_way_.erase(number) == 0 || queue_.empty()) return;
  const std::int64_t next = session_of(queue_.front());
  under_way_.insert(next);
  // Several first requests of one session (its sub-agents may come first) may wait.
  for (const std::int64_t request : queue_) {
    if (session_of(request) == next) push(time, Kind::kArrive, request);
  }
  std::erase_if(queue_, [&](std::int64_t request) { return session_of(request) == next; });
}

void Clients::release(const FollowerLists& lists, std::int64_t request, Time time) {
  const auto r = static_cast<std::size_t>(request);
  for (auto place = static_cast<std::size_t>(lists.begin[r]); place < static_cast<std::size_t>(lists.begin[r + 1]);
       ++place) {
    const auto follower = static_cast<std::size_t>(lists.request[place]);
    ready_[follower] = std::max(ready_[follower], time + lists.seconds[place]);
    if (--waits_[follower] == 0) push(ready_[follower], Kind::kArrive, lists.request[place]);
  }
}

}  // namespace kvopt::simulator
