// Replay by the flat rule, and what both replays share.
#pragma once

#include "kvopt/replay.hpp"

namespace kvopt {

// What the server knows of request r.
inline RequestInfo info_of(const RequestColumns& c, std::size_t r) {
  RequestInfo info{.now = c.time[r], .request = static_cast<std::int64_t>(r)};
  if (!c.session.empty()) info.session = c.session[r];
  if (!c.turn.empty()) info.turn = c.turn[r];
  if (!c.tool.empty()) info.tool = c.tool[r];
  if (!c.output_tokens.empty()) info.output_tokens = c.output_tokens[r];
  if (!c.gap.empty() && c.gap[r] >= 0) info.gap = c.gap[r];
  if (!c.stop.empty()) info.stop = static_cast<StopReason>(c.stop[r]);
  if (!c.subagent.empty()) info.subagent = c.subagent[r] != 0;
  if (!c.steps.empty() && c.steps[r] >= 0) info.steps = c.steps[r];
  if (!c.return_probability.empty() && c.return_probability[r] >= 0) {
    info.return_probability = c.return_probability[r];
  }
  return info;
}

ReplayCounts replay_flat(const PrefixTrace& trace, const RequestColumns& columns, std::unique_ptr<Policy> policy,
                         const ReplayOptions& options);
ReplayCounts replay_min_flat(const PrefixTrace& trace, std::uint32_t capacity, bool bypass);

}  // namespace kvopt
