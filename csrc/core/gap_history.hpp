// How long sessions take to return: a running mean of log gaps, after tool calls and otherwise, and what all sessions
// do.
//
// Bounded: sessions fall into a table by hash, the newer one wins a place. What is forgotten starts from the global
// mean.
#pragma once

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>

#include "core/learned_state.hpp"
#include "kvopt/run_table.hpp"
#include "kvopt/types.hpp"

namespace kvopt {

// What a release knows of the session before it.
struct GapHistory {
  std::array<float, 2> mean{};  // of the logarithm of seconds: otherwise, and after a tool call
  std::array<std::uint8_t, 2> count{};
  std::uint16_t turns = 0;
  bool after_tool = false;  // of the last release
};

// What all sessions do: otherwise, and after a tool call.
struct CommonGaps {
  std::array<float, 2> mean{};  // of the logarithm of seconds
  std::array<float, 2> count{};

  void save(StateWriter& out) const {
    out.put(std::span<const float>(mean));
    out.put(std::span<const float>(count));
  }
  void load(StateReader& in) {
    in.get(std::span<float>(mean));
    in.get(std::span<float>(count));
    for (const float x : mean) StateReader::require(std::abs(x) < 50, "a gap is out of range");
    for (const float x : count) StateReader::require(x >= 0, "gaps are counted below zero");
  }
};

class SessionGaps {
 public:
  SessionGaps() : places_(kPlaces) {}

  // The history with one more gap, from the last release to now.
  GapHistory extend(GapHistory history, Time gap) {
    const std::size_t kind = history.after_tool ? 1 : 0;
    const float log_gap = std::log(std::max(static_cast<float>(gap), kShortest));
    all_.count[kind] = std::min(all_.count[kind] + 1, kAllMemory);
    all_.mean[kind] += (log_gap - all_.mean[kind]) / all_.count[kind];
    history.count[kind] = static_cast<std::uint8_t>(std::min(history.count[kind] + 1, kMemory));
    history.mean[kind] += (log_gap - history.mean[kind]) / history.count[kind];
    history.turns = static_cast<std::uint16_t>(std::min(history.turns + 1, 60'000));
    return history;
  }

  // The history of a known session that releases now; `otherwise` when it is not known yet.
  GapHistory of_session(std::int32_t session, bool subagent, Time now, const GapHistory& otherwise) {
    const Place& place = places_[home(session, subagent)];
    if (place.key != key_of(session, subagent)) return otherwise;
    return extend(place.history, now - place.released);
  }

  void remember(std::int32_t session, bool subagent, Time now, const GapHistory& history) {
    places_[home(session, subagent)] = {key_of(session, subagent), now, history};
  }

  // Seconds: the session's mean, drawn to what all do while it has shown little.
  float expected(const GapHistory& history) const {
    const std::size_t kind = history.after_tool ? 1 : 0;
    const float count = history.count[kind];
    return std::exp((history.mean[kind] * count + all_.mean[kind] * kPrior) / (count + kPrior));
  }

  // What all sessions do. It is all that outlives a process: the numbers of single ones and the clock do not.
  const CommonGaps& common() const { return all_; }
  void set_common(const CommonGaps& common) { all_ = common; }

  std::size_t bytes() const { return places_.size() * sizeof(Place); }

 private:
  static constexpr std::size_t kPlaces = std::size_t{1} << 14;
  static constexpr float kShortest = 1;  // second
  static constexpr int kMemory = 6;      // gaps: then the mean forgets
  static constexpr float kAllMemory = 1000;
  static constexpr float kPrior = 2;  // gaps

  struct Place {
    std::uint64_t key;
    Time released;
    GapHistory history;
  };

  static std::uint64_t key_of(std::int32_t session, bool subagent) {
    return (static_cast<std::uint64_t>(static_cast<std::uint32_t>(session)) << 1 | (subagent ? 1 : 0)) + 1;
  }
  static std::size_t home(std::int32_t session, bool subagent) {
    return (key_of(session, subagent) * 0x9E3779B97F4A7C15U) >> 50;
  }

  LazyArray<Place> places_;
  CommonGaps all_;
};

}  // namespace kvopt
