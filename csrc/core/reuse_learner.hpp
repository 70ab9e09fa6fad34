// Which releases come back: keeps the release event of every run that nobody holds, tells the reuse model what becomes
// of it, and knows the history of the session that a request continues.
//
// A request lets go of its runs as one event, or several: its own blocks, and heads that several chains share in groups
// by how many. When a session returns but does not ask for all that it had, the rest becomes an event of another class.
// Evicted blocks stay in the event as a ghost, so that a return after an eviction is seen, else the estimate would feed
// on its own mistakes. O(1) a run. 148 bytes a run at most.
#pragma once

#include <algorithm>
#include <cstdint>
#include <span>
#include <string>
#include <utility>

#include "core/gap_history.hpp"
#include "core/order_duels.hpp"
#include "core/release_classes.hpp"
#include "core/release_events.hpp"
#include "core/reuse_model.hpp"
#include "kvopt/policy.hpp"

namespace kvopt {

class ReuseLearner {
 public:
  struct Options {
    ReuseModel::Options model;
    ReleaseClasses::Features features;
    double ghosts = 1;   // evicted releases that are remembered, × (2048 + capacity / 32)
    bool shared = true;  // heads that several chains share are classes of their own
    bool rest = true;    // so is what a returning session leaves behind
    bool paced = true;   // age counts in units of the session's usual gap
  };

  ReuseLearner(const Options& options, const PolicyContext& context);

  const ReuseModel& model() const { return model_; }
  // Of a run that nobody holds.
  const ReleaseEvent& event(RunId r) const { return events_[event_of(r)]; }

  // A request found these runs. Calls each(runs, blocks) for those that were let go of together, with how many of
  // their blocks, from the first on, LRU would hold. Returns a run whose class changed, or kNoRun.
  template <class Each>
  RunId hit(std::span<const RunId> hit, const RequestInfo& info, Each each) {
    const EventId latest = event_of(hit.front());
    RunId changed = kNoRun;
    const bool goes_on = latest != kNoEvent && continues(hit.front(), latest);
    if (goes_on) carry(hit.front(), latest);
    held_[hit.front()].branching = !goes_on;
    for (std::size_t i = 0; i < hit.size();) {
      const EventId e = event_of(hit[i]);
      const std::size_t first = i;
      std::uint32_t blocks = 0;
      for (; i < hit.size() && event_of(hit[i]) == e; ++i) {
        blocks += runs_.length[hit[i]];
        held_[hit[i]].event = 0;  // at once: under the flat rule a run may be named twice
      }
      std::uint32_t in_lru = blocks;
      if (e != kNoEvent) {
        close(e, info.now, blocks, true);
        const bool over = events_[e].blocks() == blocks;
        in_lru = events_.take_cached(e, blocks);
        if (e == latest && !over && options_.rest) changed = leave_behind(e, hit.front(), info);
      }
      each(hit.subspan(first, i - first), in_lru);
    }
    return changed;
  }

  // A request needs what begins with this key, and will compute it.
  void missed(std::uint64_t key) {
    if (const EventId e = events_.ghost(key); e != kNoEvent) events_.call_ghosts(e);
  }

  // These runs are new. Calls each(run, at, blocks) for evicted content that came back with a run, `at` blocks from its
  // beginning, where LRU would hold so many blocks of it.
  template <class Each>
  void stored(std::span<const RunId> stored, const RequestInfo& info, Each each) {
    branch(stored.back());
    for (std::size_t i = stored.size(); i-- > 0;) {
      const RunId r = stored[i];
      held_[r] = {.event = 0, .chains = 1, .fresh = true};
      fresh_[r] = {.end = runs_.end(r), .known = 0, .ghost = kNoEvent};
      find_ghosts(r, info, each);
    }
  }

  // A request will let go of these runs, the deepest first. Those that stored() has seen may have become longer since:
  // calls each(run, at, blocks) as it does, and longer(run, at) for what is `at` blocks from the beginning and behind.
  template <class Each, class Longer>
  void settle(std::span<const RunId> runs, const RequestInfo& info, Each each, Longer longer) {
    for (std::size_t i = runs.size(); i-- > 0;) {
      const RunId r = runs[i];
      if (!held_[r].fresh) continue;
      const std::uint32_t seen = std::max(fresh_[r].end, runs_.depth[r]) - runs_.depth[r];
      if (seen < runs_.length[r]) longer(r, seen);
      find_ghosts(r, info, each);
    }
    for (const RunId r : runs) {
      if (held_[r].fresh && fresh_[r].ghost != kNoEvent) events_.recall(fresh_[r].ghost);
      held_[r].fresh = false;
    }
  }

  void split(RunId head, RunId tail) { held_[head] = {.event = held_[tail].event, .chains = held_[tail].chains}; }
  // A request lets go of these runs, the deepest first.
  void release(std::span<const RunId> runs, const RequestInfo& info);
  // `leaf` is the end of what is cached of its event.
  void uncovered(RunId leaf) { events_.details(event_of(leaf)).leaf = leaf; }
  // `blocks` off the deep end of a run are gone; they begin with this key.
  void evicted(RunId r, std::uint64_t key, std::uint32_t blocks, Time now);
  // Nobody will come back for a run, or it is in use without a request: nothing is to be learned from it.
  void forget(RunId r);

  // Pairs of releases of which it is asked which comes back first.
  OrderDuels& duels() { return duels_; }
  const OrderDuels& duels() const { return duels_; }
  bool in_duel(RunId r) const { return event(r).duel != 0; }
  // The index would evict a leaf of the first cost, time one of the second.
  void begin_duel(RunId by_index, float index_cost, RunId by_time, float time_cost) {
    if (event_of(by_index) == event_of(by_time)) return;
    duels_.begin(events_, {event_of(by_index), index_cost}, {event_of(by_time), time_cost});
  }

  // Nothing was ever let go of.
  bool untouched() const { return events_.untouched(); }
  const CommonGaps& common_gaps() const { return gaps_.common(); }
  // Goes on from what another has learned, while nothing was let go of.
  void go_on_from(ReuseModel model, const CommonGaps& gaps) {
    model_ = std::move(model);
    gaps_.set_common(gaps);
  }

  // A class in words.
  std::string describe(std::uint32_t cls) const { return classes_.describe(cls); }

  // What is wrong, or nothing: every evictable run has an event, and every event as many cached blocks as its runs.
  std::string verify() const;
  std::size_t bytes() const;

 private:
  struct Held {                  // of a run
    std::uint32_t event = 0;     // plus one; 0: somebody holds it
    std::uint16_t chains = 0;    // that have parted behind it, or do not, with those that are gone
    bool carried : 1 = false;    // whoever holds it goes on from carried_
    bool fresh : 1 = false;      // it was not let go of yet: fresh_ is known
    bool branching : 1 = false;  // a request has found all up to here, and does not go on where another stopped
  };
  struct Carried {
    GapHistory history{};
    Time released = 0;
  };
  struct Fresh {
    std::uint32_t end;    // what stored() saw of it, as blocks of its prefix
    std::uint32_t known;  // what was found to be evicted content, so
    EventId ghost;        // of which only a part came back with it, or kNoEvent
  };

  EventId event_of(RunId r) const { return held_[r].event - 1; }
  // A chain parts from others at the parent of this new run, unless it is what was evicted there.
  void branch(RunId first) {
    const RunId parent = runs_.parent[first];
    if (parent == kNoRun || !held_[parent].branching) return;
    held_[parent].branching = false;
    if (events_.ghost(runs_.first_key(first)) != kNoEvent || held_[parent].chains == UINT16_MAX) return;
    ++held_[parent].chains;
  }
  void carry(RunId r, EventId e) {
    held_[r].carried = true;
    carried_[r] = {events_.details(e).history, events_[e].released};
  }
  void close(EventId e, Time now, std::uint32_t blocks, bool returned) {
    const ReleaseEvent& event = events_[e];
    if (returned) duels_.returned(events_, e);
    model_.close(event.waiting, event.age(now), event.part(blocks), returned);
  }
  // Evicted content that came back with a run, from where more of it than is known begins.
  template <class Each>
  void find_ghosts(RunId r, const RequestInfo& info, Each each) {
    std::uint32_t at = std::max(fresh_[r].known, runs_.depth[r]) - runs_.depth[r];
    const std::span keys(runs_.slot_keys + runs_.first_slot[r], runs_.length[r]);
    while (at < keys.size()) {
      const EventId e = events_.ghost(keys[at]);
      if (e == kNoEvent) return;
      GhostPlace behind;
      const std::uint32_t blocks = events_.match(e, keys.subspan(at), behind);
      if (blocks < events_[e].ghosts) {
        const EventId other = events_.ghost(events_.key(behind));
        if (other != kNoEvent && other != e) give_up_ghosts(other, info.now);
        fresh_[r].ghost = e;
      }
      close(e, info.now, blocks, true);
      carry(r, e);
      const std::uint32_t stored = std::min(blocks, static_cast<std::uint32_t>(keys.size()) - at);
      each(r, at, std::min(events_.take_ghosts(e, blocks, behind), stored));
      at += stored;
      fresh_[r].known = runs_.depth[r] + at;
    }
  }
  void give_up_ghosts(EventId e, Time now) {
    close(e, now, events_[e].ghosts, false);
    events_.drop_ghosts(e);
  }

  bool continues(RunId deepest, EventId e) const;
  RunId leave_behind(EventId e, RunId deepest, const RequestInfo& info);
  GapHistory history_of(std::span<const RunId> runs, const RequestInfo& info);
  float pace_of(const RequestInfo& info, const GapHistory& history) const;
  std::uint8_t head_group(std::span<const RunId> runs, std::size_t i, std::uint8_t behind) const;

  Options options_;
  const RunTable& runs_;
  std::uint32_t block_tokens_;
  ReuseModel model_;
  ReleaseClasses classes_;
  SessionGaps gaps_;
  ReleaseEvents events_;
  OrderDuels duels_;
  LazyArray<Held> held_;
  LazyArray<Carried> carried_;
  LazyArray<Fresh> fresh_;
};

}  // namespace kvopt
