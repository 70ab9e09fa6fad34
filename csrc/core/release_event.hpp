// What is known of one release of content that has not come back yet. core/release_events.hpp keeps them in order.
#pragma once

#include <cstdint>

#include "core/gap_history.hpp"
#include "core/ghost_keys.hpp"
#include "core/linked_records.hpp"
#include "core/reuse_model.hpp"
#include "kvopt/types.hpp"

namespace kvopt {

using EventId = std::uint32_t;
inline constexpr EventId kNoEvent = UINT32_MAX;

// What is looked at again and again while it waits: one cache line.
struct alignas(64) ReleaseEvent {
  Time released = 0;
  ReuseModel::Waiting waiting{};
  float pace = 1;   // units of age a second
  float share = 1;  // of the event that one block is
  std::uint32_t cached = 0;
  std::uint32_t ghosts = 0;
  std::uint32_t in_lru = 0;  // of its blocks, those that LRU would hold and nobody uses
  std::uint32_t called = 0;  // of the evicted ones, those that LRU would have had for the request that computes them
  Links in_time{};
  Links with_ghosts{};
  std::uint32_t number = 0;  // of all releases, running: older ones have lower numbers, and those of one time too
  std::uint16_t duel = 0;    // that it is in, plus one; 0: none
  std::uint8_t marks = 0;    // of age that it has come to

  std::uint32_t blocks() const { return cached + ghosts; }
  // Numbers start again after 2^32, so they are compared by how far they are apart.
  bool older_than(const ReleaseEvent& other) const { return static_cast<std::int32_t>(number - other.number) < 0; }
  float age(Time now) const { return static_cast<float>(now - released) * pace; }
  float part(std::uint32_t blocks) const { return static_cast<float>(blocks) * share; }
};

// What else is known of it.
struct ReleaseDetails {
  std::uint64_t ghost_key = 0;
  GhostPlace ghost_place{};  // of that key
  RunId leaf = kNoRun;       // that was added last
  std::int32_t session = -1;
  GapHistory history{};
};

}  // namespace kvopt
