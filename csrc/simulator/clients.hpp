// Who sends the requests of a trace, and when; kvopt/simulator/clients.py has the rules.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <optional>
#include <queue>
#include <unordered_set>
#include <vector>

#include "kvopt/types.hpp"

namespace kvopt::simulator {

// Lists of (request, seconds), one for each of R requests: list r lies from begin[r] to begin[r + 1].
struct FollowerLists {
  std::vector<std::int64_t> begin;
  std::vector<std::int64_t> request;
  std::vector<double> seconds;
};

// The structure of R requests: who waits for whom.
struct ThreadTable {
  std::vector<std::int64_t> session;  // numbered from 0 up
  std::int64_t sessions = 0;
  std::vector<std::int64_t> waits;  // for how many others each request waits
  FollowerLists after_answer = {};
  FollowerLists after_arrival = {};
};

struct ClientRules {
  bool closed = true;
  std::optional<std::int64_t> session_limit;
  std::optional<double> patience;  // seconds
};

class Clients {
 public:
  enum class Kind : std::uint8_t { kArrive, kGiveUp };
  struct Event {
    Kind kind;
    std::int64_t request;
    Time time;
  };

  // `times`: when each request would come in an open loop, in seconds. `threads` outlives it.
  Clients(const ThreadTable& threads, const std::vector<double>& times, const ClientRules& rules);

  // When the next client does something; kNever when none does.
  Time next_time() const { return events_.empty() ? kNever : events_.top().time; }
  // The next thing that a client does until `now`.
  std::optional<Event> take(Time now);
  // A request came to the server.
  void came(std::int64_t request, Time time);
  // A request has its answer (or was refused); the session's number when that was its last.
  std::optional<std::int64_t> answered(std::int64_t request, Time time);
  // A request was aborted for want of patience: its session sends nothing more.
  void gave_up(std::int64_t request, Time time);

  std::int64_t session_of(std::int64_t request) const { return threads_.session[static_cast<std::size_t>(request)]; }
  Time session_start(std::int64_t session) const { return sessions_[static_cast<std::size_t>(session)].start; }
  std::int64_t sent() const { return sent_; }
  std::int64_t requests() const { return static_cast<std::int64_t>(threads_.session.size()); }

 private:
  struct Session {
    Time start = -1;
    std::int64_t left = 0;  // requests without an answer
    bool started = false;
    bool given_up = false;
  };
  struct Entry {
    Time time;
    std::int64_t number;  // of equals, the one that was planned first
    Kind kind;
    std::int64_t request;
    bool operator>(const Entry& other) const { return time != other.time ? time > other.time : number > other.number; }
  };

  Session& session(std::int64_t number) { return sessions_[static_cast<std::size_t>(number)]; }
  bool may_come(std::int64_t request, Time time);
  bool one_less(std::int64_t number, Time time);
  void leave(std::int64_t number, Time time);
  void release(const FollowerLists& lists, std::int64_t request, Time time);
  void push(Time time, Kind kind, std::int64_t request) { events_.push({time, entries_++, kind, request}); }

  const ThreadTable& threads_;
  ClientRules rules_;
  std::priority_queue<Entry, std::vector<Entry>, std::greater<>> events_;
  std::int64_t entries_ = 0;
  std::int64_t sent_ = 0;
  std::vector<Session> sessions_;
  std::vector<std::int64_t> waits_;
  std::vector<Time> ready_;
  std::deque<std::int64_t> queue_;  // first requests that wait for the limit on sessions
  std::unordered_set<std::int64_t> under_way_;
};

}  // namespace kvopt::simulator
