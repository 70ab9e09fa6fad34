#include "core/reuse_learner.hpp"

#include <string>
#include <unordered_map>

namespace kvopt {

ReuseLearner::ReuseLearner(const Options& options, const PolicyContext& context)
    : options_(options),
      runs_(context.runs),
      block_tokens_(context.block_tokens),
      model_(options.model),
      classes_(model_, options.features),
      events_(runs_.capacity, static_cast<std::uint32_t>(options.ghosts * (2048 + runs_.capacity / 32.0))),
      held_(runs_.capacity),
      carried_(runs_.capacity),
      fresh_(runs_.capacity) {}

// Whether a request that was served up to this run goes on where an event left off. The last block of a prompt is often
// a partial one that never comes back: it does not count.
bool ReuseLearner::continues(RunId deepest, EventId e) const {
  if (runs_.children[deepest] == 0) return true;
  const RunId tail = events_.details(e).leaf;
  return runs_.children[deepest] == 1 && tail != kNoRun && event_of(tail) == e && runs_.parent[tail] == deepest &&
         runs_.length[tail] == 1 && runs_.children[tail] == 0;
}

// The session came back, but not for all of what it had: the rest is a class of its own. Without sessions only a last
// block is known to be left behind; more may belong to another session with the same head. What was evicted behind a
// run without children is not left, but about to be stored again.
RunId ReuseLearner::leave_behind(EventId e, RunId deepest, const RequestInfo& info) {
  ReleaseEvent& event = events_[e];
  const ReleaseDetails& details = events_.details(e);
  const std::uint32_t rest = event.blocks();
  const bool known = options_.features.hints && info.session >= 0 && details.session >= 0;
  if (runs_.children[deepest] != 1 || (known ? info.session != details.session : rest != 1)) return kNoRun;
  close(e, info.now, rest, false);
  event.share = 1.0F / static_cast<float>(rest);
  event.waiting = model_.open(classes_.of_rest(rest), 1);
  model_.grow(event.waiting, event.age(info.now), 1);
  return details.leaf != kNoRun && event_of(details.leaf) == e ? details.leaf : kNoRun;
}

void ReuseLearner::release(std::span<const RunId> runs, const RequestInfo& info) {
  const GapHistory history = history_of(runs, info);
  const float pace = pace_of(info, history);
  std::uint32_t blocks = 0;
  for (const RunId r : runs) blocks += runs_.length[r];
  const float share = 1.0F / static_cast<float>(blocks);
  std::uint8_t group = 0;
  for (std::size_t i = 0; i < runs.size();) {
    group = head_group(runs, i, group);
    std::size_t end = i;
    std::uint32_t together = 0;
    for (; end < runs.size() && head_group(runs, end, group) == group; ++end) together += runs_.length[runs[end]];
    const std::uint32_t cls =
        group == 0 ? classes_.of_request(info, history, std::uint64_t{runs_.end(runs[i])} * block_tokens_)
                   : classes_.of_head(group);
    const EventId e = events_.open({.released = info.now,
                                    .waiting = model_.open(cls, static_cast<float>(together) * share),
                                    .pace = pace,
                                    .share = share,
                                    .cached = together},
                                   options_.features.hints ? info.session : -1, history);
    for (; i < end; ++i) held_[runs[i]].event = e + 1;
  }
  events_.grow(info.now, [&](ReleaseEvent& event) {
    constexpr float kMiddle = 2;  // of two octaves: it is looked at again when four times as old
    model_.grow(event.waiting, kMiddle * event.age(info.now), event.part(event.blocks()));
  });
  model_.end_request();
}

void ReuseLearner::evicted(RunId r, std::uint64_t key, std::uint32_t blocks, Time now) {
  const EventId e = event_of(r);
  if (options_.ghosts == 0) {
    close(e, now, blocks, false);
    events_.take_cached(e, blocks);
    return;
  }
  if (const EventId other = events_.ghost(key); other != kNoEvent) give_up_ghosts(other, now);
  // Of a run of one block its key may be at hand only here.
  events_.evict(e, blocks == 1 ? std::span(&key, 1)
                               : std::span(runs_.slot_keys + runs_.first_slot[r] + runs_.length[r] - blocks, blocks));
  for (EventId old = events_.excess(); old != kNoEvent; old = events_.excess()) give_up_ghosts(old, now);
}

void ReuseLearner::forget(RunId r) {
  const EventId e = event_of(r);
  if (e == kNoEvent) return;
  held_[r].event = 0;
  model_.withdraw(events_[e].waiting, events_[e].part(runs_.length[r]));
  events_.take_cached(e, runs_.length[r]);
}

// The history of the session up to this release: by its id where known, else by the chain that the request continued.
GapHistory ReuseLearner::history_of(std::span<const RunId> runs, const RequestInfo& info) {
  const bool hints = options_.features.hints;
  GapHistory history;
  for (const RunId r : runs) {
    if (!held_[r].carried) continue;
    held_[r].carried = false;
    history = gaps_.extend(carried_[r].history, info.now - carried_[r].released);
    break;
  }
  const bool known = hints && info.session >= 0;
  if (known) history = gaps_.of_session(info.session, info.subagent, info.now, history);
  history.after_tool = hints && info.stop == StopReason::kToolUse;
  if (known) gaps_.remember(info.session, info.subagent, info.now, history);
  return history;
}

float ReuseLearner::pace_of(const RequestInfo& info, const GapHistory& history) const {
  constexpr float kShortest = 0.05F;  // seconds
  constexpr float kLongest = 1e7F;
  constexpr float kUnpaced = 10;
  if (options_.features.hints && info.expected_gap >= 0) return 1 / std::clamp(info.expected_gap, kShortest, kLongest);
  return 1 / (options_.paced ? gaps_.expected(history) : kUnpaced);
}

// The group of heads that runs[i] is of, as what is behind it is of group `behind`: at least as many share it. 0: the
// request's own.
std::uint8_t ReuseLearner::head_group(std::span<const RunId> runs, std::size_t i, std::uint8_t behind) const {
  if (!options_.shared || i == 0) return 0;
  return std::max(behind, ReleaseClasses::head_group(held_[runs[i]].chains));
}

std::string ReuseLearner::verify() const {
  std::unordered_map<EventId, std::uint32_t> cached;
  for (RunId r = 0; r < runs_.used; ++r) {
    if (!runs_.evictable(r)) continue;
    if (event_of(r) == kNoEvent) return "run " + std::to_string(r) + " has no release event";
    cached[event_of(r)] += runs_.length[r];
  }
  return events_.verify(cached);
}

std::size_t ReuseLearner::bytes() const {
  return events_.bytes() + gaps_.bytes() + held_.size() * sizeof(Held) + carried_.size() * sizeof(Carried) +
         fresh_.size() * sizeof(Fresh);
}

}  // namespace kvopt
