// Releases whose content has not come back yet: one event a request, however many blocks it let go of.
//
// An event knows when it was, its class, and how many of its blocks still wait: cached ones, and evicted ones that are
// remembered by the key at which they begin (a ghost). All events stand in order of time, and LRU would keep the newest
// of them up to the capacity: a window over the same list is an exact-to-an-event shadow of LRU, at O(1) an event.
// Bounded: as many events as runs, plus a number of events that are ghosts only; the oldest of those is given up for a
// new one.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <utility>

#include "core/key_map.hpp"
#include "core/run_list.hpp"
#include "kvopt/types.hpp"

namespace kvopt {

// How long a session usually takes to return, after a tool call and otherwise, in logarithms of seconds.
struct GapHistory {
  std::array<float, 2> mean{};
  std::array<float, 2> count{};
  std::uint16_t turns = 0;
  bool after_tool = false;  // of the last release
};

using EventId = std::uint32_t;
inline constexpr EventId kNoEvent = UINT32_MAX;

struct ReleaseEvent {
  Time released;
  std::uint64_t ghost_key;
  std::uint32_t cls;
  float scale;  // seconds that count as one unit of age
  float share;  // of the event that one block is
  std::uint32_t cached;
  std::uint32_t ghosts;
  std::uint32_t in_lru;  // of its blocks, those that LRU would hold
  GapHistory history;
};

class ReleaseEvents {
 public:
  ReleaseEvents(std::uint32_t capacity, std::uint32_t most_ghosts)
      : capacity_(capacity),
        most_ghosts_(most_ghosts),
        events_(std::size_t{capacity} + most_ghosts + 2),
        timeline_(capacity + most_ghosts + 2),
        ghosts_(capacity + most_ghosts + 2),
        by_key_(std::size_t{capacity} + most_ghosts + 2) {}

  ReleaseEvent& operator[](EventId e) { return events_[e]; }
  const ReleaseEvent& operator[](EventId e) const { return events_[e]; }

  EventId open(const ReleaseEvent& event) {
    EventId e = free_;
    if (e != kNoEvent) {
      free_ = events_[e].cls;
    } else {
      e = used_++;
    }
    events_[e] = event;
    events_[e].in_lru = event.cached;
    in_lru_ += event.cached;
    timeline_.append(e);
    if (lru_oldest_ == kNoEvent) lru_oldest_ = e;
    shrink_lru();
    return e;
  }

  // `blocks` cached blocks of e are in use again, or of no use any more. Returns how many of them LRU would hold.
  std::uint32_t take_cached(EventId e, std::uint32_t blocks) {
    const std::uint32_t held = take_from_lru(e, blocks);
    leave_cache(e, blocks);
    close_if_over(e);
    return held;
  }

  // `blocks` cached blocks of e were evicted; what is gone of it begins with `key` now.
  void evict(EventId e, std::uint32_t blocks, std::uint64_t key) {
    ReleaseEvent& event = events_[e];
    if (event.ghosts > 0) by_key_.erase(event.ghost_key, e);
    if (const EventId other = ghost(key); other != kNoEvent) drop_ghosts(other);
    event.ghosts += blocks;
    event.ghost_key = key;
    by_key_.put(key, e);
    leave_cache(e, blocks);
  }

  // The event whose evicted content begins with this key, or kNoEvent.
  EventId ghost(std::uint64_t key) const {
    const auto found = by_key_.find(key);
    return found ? *found : kNoEvent;
  }

  // The evicted blocks of e are stored again. Returns how many of them LRU would hold.
  std::uint32_t take_ghosts(EventId e) {
    const std::uint32_t held = take_from_lru(e, events_[e].ghosts);
    drop_ghosts(e);
    return held;
  }

  // The event to give up when there are too many ghosts, or kNoEvent. Its ghosts are the caller's to account for first.
  EventId excess() const { return ghost_events_ > most_ghosts_ ? ghosts_.front() : kNoEvent; }

  void drop_ghosts(EventId e) {
    ReleaseEvent& event = events_[e];
    if (event.ghosts == 0) return;
    by_key_.erase(event.ghost_key, e);
    take_from_lru(e, event.in_lru > event.cached ? event.in_lru - event.cached : 0);
    event.ghosts = 0;
    if (event.cached == 0) {
      ghosts_.remove(e);
      --ghost_events_;
    }
    close_if_over(e);
  }

  template <class Each>
  void for_each(Each each) const {
    for (EventId e = timeline_.front(); e < used_; e = timeline_.next(e)) each(events_[e]);
  }

  std::size_t bytes() const {
    return events_.size() * sizeof(ReleaseEvent) + timeline_.bytes() + ghosts_.bytes() + by_key_.bytes();
  }

 private:
  std::uint32_t take_from_lru(EventId e, std::uint32_t blocks) {
    ReleaseEvent& event = events_[e];
    const std::uint32_t held = std::min(event.in_lru, blocks);
    event.in_lru -= held;
    in_lru_ -= held;
    return held;
  }

  void leave_cache(EventId e, std::uint32_t blocks) {
    ReleaseEvent& event = events_[e];
    event.cached -= blocks;
    if (event.cached > 0 || event.ghosts == 0) return;
    ghosts_.append(e);
    ++ghost_events_;
  }

  void shrink_lru() {
    while (in_lru_ > capacity_) {
      take_from_lru(lru_oldest_, static_cast<std::uint32_t>(in_lru_ - capacity_));
      if (events_[lru_oldest_].in_lru == 0) lru_oldest_ = after(lru_oldest_);
    }
  }

  EventId after(EventId e) const {
    const EventId next = timeline_.next(e);
    return next < used_ ? next : kNoEvent;
  }

  void close_if_over(EventId e) {
    if (events_[e].cached > 0 || events_[e].ghosts > 0) return;
    take_from_lru(e, events_[e].in_lru);
    if (lru_oldest_ == e) lru_oldest_ = after(e);
    timeline_.remove(e);
    events_[e].cls = free_;
    free_ = e;
  }

  std::uint32_t capacity_;
  std::uint32_t most_ghosts_;
  LazyArray<ReleaseEvent> events_;
  RunList timeline_;
  RunList ghosts_;  // events of which nothing is cached, in the order in which that came about
  KeyMap by_key_;
  std::uint32_t ghost_events_ = 0;
  EventId used_ = 0;
  EventId free_ = kNoEvent;
  EventId lru_oldest_ = kNoEvent;
  std::uint64_t in_lru_ = 0;
};

}  // namespace kvopt
