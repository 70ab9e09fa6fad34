// Releases whose content has not come back yet: one event a request, however many blocks it let go of.
//
// An event knows when it was, how it is counted in the reuse model, and how many of its blocks still wait: cached ones,
// and evicted ones that are remembered by the key at which they begin (a ghost). All events stand in order of time. So
// LRU would keep the newest of them, as many as requests that run leave room for (what they need goes off the list when
// they are admitted): a window over the list is an exact shadow of LRU. And those that have reached a certain age are a
// tail of the list: one place a mark of age, moved forward as time goes, finds the events that have come to the mark.
// O(1) an event for either.
// Bounded: as many events as runs, plus a number of events with ghosts; the oldest of those is given up for a new one.
#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <cstdint>
#include <span>
#include <string>
#include <unordered_map>
#include <utility>

#include "core/ghost_keys.hpp"
#include "core/key_map.hpp"
#include "core/line_array.hpp"
#include "core/linked_records.hpp"
#include "core/release_event.hpp"
#include "kvopt/types.hpp"

namespace kvopt {

class ReleaseEvents {
 public:
  ReleaseEvents(std::uint32_t capacity, std::uint32_t most_ghosts)
      : capacity_(capacity),
        most_ghosts_(most_ghosts),
        end_(capacity + most_ghosts + 2),
        events_(std::size_t{end_} + 1),
        details_(end_),
        timeline_(events_.data(), end_),
        ghosts_(events_.data(), end_),
        by_key_(most_ghosts + 2),
        keys_(most_ghosts > 0 ? 2 * capacity : 0) {
    oldest_.fill(kNoEvent);
    due_.fill(kNever);
  }

  ReleaseEvent& operator[](EventId e) { return events_[e]; }
  const ReleaseEvent& operator[](EventId e) const { return events_[e]; }

  ReleaseDetails& details(EventId e) { return details_[e]; }
  const ReleaseDetails& details(EventId e) const { return details_[e]; }

  EventId open(const ReleaseEvent& event, std::int32_t session, const GapHistory& history) {
    EventId e = free_;
    if (e != kNoEvent) {
      free_ = events_[e].cached;
    } else {
      e = used_++;
    }
    events_[e] = event;
    events_[e].in_lru = event.cached;
    events_[e].number = next_number_++;
    details_[e] = {.session = session, .history = history};
    in_lru_ += event.cached;
    cached_ += event.cached;
    timeline_.append(e);
    if (lru_oldest_ == kNoEvent) lru_oldest_ = e;
    if (oldest_[0] == kNoEvent) set_oldest(0, e);
    shrink_lru(capacity_);
    return e;
  }

  // `blocks` cached blocks of e are in use again, or of no use any more. Returns how many of them LRU would hold.
  std::uint32_t take_cached(EventId e, std::uint32_t blocks) {
    const std::uint32_t held = take_from_lru(e, blocks);
    events_[e].cached -= blocks;
    cached_ -= blocks;
    close_if_over(e);
    return held;
  }

  // The event whose evicted content begins with this key, or kNoEvent.
  EventId ghost(std::uint64_t key) const {
    return by_key_.find(key, [this](EventId e) { return details_[e].ghost_key; }).value_or(kNoEvent);
  }

  // Cached blocks of e with these keys were evicted, from the deep end of what is cached; no other ghost begins with
  // the first. LRU would have had no more room for what nobody holds than the pool: requests that run hold the rest.
  void evict(EventId e, std::span<const std::uint64_t> keys) {
    ReleaseEvent& event = events_[e];
    ReleaseDetails& details = details_[e];
    const auto blocks = static_cast<std::uint32_t>(keys.size());
    if (event.ghosts > 0) {
      by_key_.erase(details.ghost_key, e);
    } else {
      ghosts_.append(e);
      ++ghost_events_;
      details.ghost_place = {};
    }
    event.ghosts += blocks;
    event.cached -= blocks;
    details.ghost_key = keys.front();
    details.ghost_place = keys_.push(keys, details.ghost_place);
    by_key_.put(details.ghost_key, e);
    cached_ -= blocks;
    shrink_lru(cached_);
  }

  // A request needs evicted blocks of e: what LRU would hold of them is not idle there any more, until recall().
  void call_ghosts(EventId e) { events_[e].called += take_from_lru(e, events_[e].ghosts); }

  // LRU would not have been asked for the rest of them. Where it has evicted what is younger, that is gone, too.
  void recall(EventId e) {
    const std::uint32_t rest = std::exchange(events_[e].called, 0);
    if (e != lru_oldest_ && (lru_oldest_ == kNoEvent || events_[e].older_than(events_[lru_oldest_]))) return;
    events_[e].in_lru += rest;
    in_lru_ += rest;
  }

  // How many evicted blocks of e come first among these keys, and what is behind them. Where the keys of the rest are
  // not known any more, all of them.
  std::uint32_t match(EventId e, std::span<const std::uint64_t> keys, GhostPlace& behind) const {
    const std::uint32_t ghosts = events_[e].ghosts;
    behind = details_[e].ghost_place;
    const std::uint32_t matched = keys_.match(behind, keys.first(std::min<std::size_t>(keys.size(), ghosts)));
    return keys_.knows(behind) ? matched : ghosts;
  }
  std::uint64_t key(GhostPlace place) const { return keys_.key(place); }

  // The first evicted blocks of e are stored again, with what is `behind` them left, which no other ghost begins with.
  // Returns how many of them LRU would hold.
  std::uint32_t take_ghosts(EventId e, std::uint32_t blocks, GhostPlace behind) {
    ReleaseEvent& event = events_[e];
    const std::uint32_t called = std::min(event.called, blocks);
    event.called -= called;
    const std::uint32_t held = called + take_from_lru(e, blocks - called);
    if (blocks == event.ghosts) {
      drop_ghosts(e);
      return held;
    }
    event.ghosts -= blocks;
    ReleaseDetails& details = details_[e];
    by_key_.erase(details.ghost_key, e);
    details.ghost_key = keys_.key(behind);
    details.ghost_place = behind;
    by_key_.put(details.ghost_key, e);
    return held;
  }

  // The evicted blocks of e, which has some, are forgotten.
  void drop_ghosts(EventId e) {
    ReleaseEvent& event = events_[e];
    by_key_.erase(details_[e].ghost_key, e);
    ghosts_.remove(e);
    --ghost_events_;
    event.ghosts = 0;
    event.called = 0;
    take_from_lru(e, event.in_lru - std::min(event.in_lru, event.cached));
    close_if_over(e);
  }

  // The event to give up when there are too many ghosts, or kNoEvent. Its ghosts are the caller's to account for first.
  EventId excess() const { return ghost_events_ > most_ghosts_ ? ghosts_.front() : kNoEvent; }

  // Calls each(event) for events that have come to another mark of age; for the rest the next time when there are many.
  template <class Each>
  void grow(Time now, Each each) {
    std::uint32_t left = kMostMoves;
    std::uint32_t due = 0;  // a bit a mark
    for (std::size_t m = 0; m < kMarks; ++m) due |= (now >= due_[m] ? 1U : 0U) << m;
    while (due != 0) {
      const auto m = static_cast<std::size_t>(std::bit_width(due)) - 1;  // a later one makes room for an earlier one
      due ^= 1U << m;
      do {
        if (left-- == 0) return;
        const EventId e = oldest_[m];
        ReleaseEvent& event = events_[e];
        pass(e);
        event.marks = static_cast<std::uint8_t>(m + 1);
        if (oldest_[m + 1] == kNoEvent) set_oldest(m + 1, e);
        each(event);
      } while (now >= due_[m]);
    }
  }

  // No release was ever opened.
  bool untouched() const { return used_ == 0; }

  // `cached`: the blocks that the pool holds of each event.
  std::string verify(const std::unordered_map<EventId, std::uint32_t>& cached) const {
    std::size_t listed = 0;
    std::size_t ghosts = 0;
    std::uint64_t in_lru = 0;
    std::uint64_t in_pool = 0;
    std::uint8_t marks = kMarks;
    Time before = -kNever;
    for (EventId e = timeline_.front(); e < used_; e = timeline_.next(e)) {
      const ReleaseEvent& event = events_[e];
      const std::string name = "release event " + std::to_string(e);
      const auto held = cached.find(e);
      if (event.cached != (held == cached.end() ? 0 : held->second))
        return name + " miscounts its cached blocks: " + std::to_string(event.cached) + " for " +
               std::to_string(held == cached.end() ? 0 : held->second);
      if (event.blocks() == 0) return name + " is over but open";
      if (event.released < before || event.marks > marks) return name + " is out of order";
      if (event.ghosts > 0 && ghost(details_[e].ghost_key) != e) return name + " is not found by its ghost's key";
      if (event.marks != marks && oldest_[event.marks] != e) return name + " is not known as the oldest of its age";
      before = event.released;
      marks = event.marks;
      ghosts += event.ghosts > 0 ? 1 : 0;
      in_lru += events_[e].in_lru;
      in_pool += event.cached;
      listed += held == cached.end() ? 0 : 1;
    }
    if (listed != cached.size()) return "runs name release events that are not open";
    if (ghosts != ghost_events_ || in_lru != in_lru_) return "the ghosts or what LRU would hold are miscounted";
    if (in_pool != cached_) return "what nobody holds is miscounted";
    return {};
  }

  std::size_t bytes() const {
    return events_.size() * sizeof(ReleaseEvent) + details_.size() * sizeof(ReleaseDetails) + by_key_.bytes() +
           keys_.bytes();
  }

 private:
  static constexpr std::size_t kMarks = 10;  // two octaves apart, from a second to three days
  static constexpr std::uint32_t kMostMoves = 64;

  static constexpr auto kAges = [] {  // of each mark, in seconds
    std::array<Time, kMarks> ages{};
    for (std::size_t m = 0; m < kMarks; ++m) ages[m] = static_cast<Time>(std::uint64_t{1} << 2 * m);
    return ages;
  }();

  std::uint32_t take_from_lru(EventId e, std::uint32_t blocks) {
    std::uint32_t& in_lru = events_[e].in_lru;
    const std::uint32_t held = std::min(in_lru, blocks);
    in_lru -= held;
    in_lru_ -= held;
    return held;
  }

  void shrink_lru(std::uint64_t most) {
    while (in_lru_ > most) {
      take_from_lru(lru_oldest_, static_cast<std::uint32_t>(in_lru_ - most));
      if (events_[lru_oldest_].in_lru == 0) lru_oldest_ = after(lru_oldest_);
    }
  }

  EventId after(EventId e) const {
    const EventId next = timeline_.next(e);
    return next < used_ ? next : kNoEvent;
  }

  // e is not among those of its age any more.
  void pass(EventId e) {
    const std::uint8_t marks = events_[e].marks;
    if (oldest_[marks] != e) return;
    const EventId next = after(e);
    set_oldest(marks, next != kNoEvent && events_[next].marks == marks ? next : kNoEvent);
  }

  void set_oldest(std::size_t marks, EventId e) {
    oldest_[marks] = e;
    due_[marks] = e == kNoEvent || marks == kMarks ? kNever : events_[e].released + kAges[marks];
  }

  void close_if_over(EventId e) {
    if (events_[e].blocks() > 0) return;
    take_from_lru(e, events_[e].in_lru);
    if (lru_oldest_ == e) lru_oldest_ = after(e);
    pass(e);
    timeline_.remove(e);
    events_[e].cached = free_;
    free_ = e;
  }

  std::uint32_t capacity_;
  std::uint32_t most_ghosts_;
  EventId end_;
  LineArray<ReleaseEvent> events_;
  LazyArray<ReleaseDetails> details_;
  LinkedRecords<ReleaseEvent, &ReleaseEvent::in_time> timeline_;    // the oldest first
  LinkedRecords<ReleaseEvent, &ReleaseEvent::with_ghosts> ghosts_;  // in the order in which they were first evicted
  KeyMap by_key_;
  GhostKeys keys_;
  std::array<EventId, kMarks + 1> oldest_{};  // of the events that have come to so many marks
  std::array<Time, kMarks + 1> due_{};        // when it comes to the next
  std::uint32_t ghost_events_ = 0;
  EventId used_ = 0;
  std::uint32_t next_number_ = 0;
  EventId free_ = kNoEvent;
  EventId lru_oldest_ = kNoEvent;
  std::uint64_t in_lru_ = 0;
  std::uint64_t cached_ = 0;  // that nobody holds
};

}  // namespace kvopt
