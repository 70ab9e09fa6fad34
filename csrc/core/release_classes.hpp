// What kind of release it is, for the reuse model: by what the server knows of the request, and by what the prefix tree
// shows.
//
// A request's own blocks: why it stopped and how much it put out where hints are used and known, then how often its
// chain has returned and how long it is. Heads that several chains share: by how many. What a returning session left
// behind: by how much that is.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "core/gap_history.hpp"
#include "core/reuse_model.hpp"
#include "kvopt/policy.hpp"

namespace kvopt {

class ReleaseClasses {
 public:
  struct Features {
    bool hints, stop, output, turn, length;  // what is looked at
  };

  ReleaseClasses(ReuseModel& model, const Features& features) : model_(model), use_(features) {}

  // Of a request's own blocks. `tokens`: of its whole prompt.
  std::uint32_t of_request(const RequestInfo& info, const GapHistory& history, std::uint64_t tokens) {
    const std::uint8_t turn = use_.turn ? step(history.turns, kTurns) : 0;
    const std::uint8_t length = use_.length ? step(tokens, kTokens) : 0;
    const std::uint8_t output = use_.output ? step(info.output_tokens, kOutputs) : 0;
    std::uint8_t stop = 0;
    if (use_.hints && use_.stop) {
      stop = static_cast<std::uint8_t>(info.stop);
      if (info.expected_gap >= 0) stop = kExpected;
      if (info.last_turn) stop = kLastTurn;
    }
    if (stop == 0) return model_.class_of({0, turn, length, output});
    return model_.class_of({stop, output, turn, length});
  }

  // Of heads of a group.
  std::uint32_t of_head(std::uint8_t group) { return model_.class_of({kTree, group, 0, 0}); }

  // Of so many blocks that a returning session did not ask for.
  std::uint32_t of_rest(std::uint32_t blocks) { return model_.class_of({kTree, kRest, step(blocks, kBlocks), 0}); }

  // The group of heads that so many chains share; 0: one chain's own.
  static std::uint8_t head_group(std::uint32_t owners) { return owners < kOwners[0] ? 0 : step(owners, kOwners); }

  // What its releases have in common, in words.
  std::string describe(std::uint32_t cls) const {
    const std::vector<std::uint8_t> features = model_.features_of(cls);
    if (features.empty()) return "all releases";
    if (features[0] == kTree && features.size() > 2 && features[1] == kRest) {
      return "left behind by a returning session, blocks " + range(features[2], kBlocks);
    }
    if (features[0] == kTree) {
      return features.size() > 1 ? "shared head, chains " + range(features[1], kOwners) : "of the tree alone";
    }
    constexpr std::array<const char*, 7> kStops = {"any stop", "tool use",     "end of turn", "length",
                                                   "abort",    "expected gap", "last turn"};
    std::string text = kStops[features[0]];
    const auto add = [&](std::size_t level, bool used, const char* name, std::span<const std::uint64_t> limits) {
      if (used && level < features.size()) text += std::string(", ") + name + " " + range(features[level], limits);
    };
    const std::size_t shift = features[0] == 0 ? 0 : 1;
    add(1 + shift, use_.turn, "turns", kTurns);
    add(2 + shift, use_.length, "prompt tokens", kTokens);
    add(shift == 0 ? 3 : 1, use_.output, "answer tokens", kOutputs);
    return text;
  }

 private:
  // What a step stands for.
  static std::string range(std::uint8_t reached, std::span<const std::uint64_t> limits) {
    if (reached == limits.size()) return std::to_string(limits.back()) + " or more";
    const std::uint64_t low = reached == 0 ? 0 : limits[reached - 1];
    const std::uint64_t high = limits[reached] - 1;
    return std::to_string(low) + (high > low ? " to " + std::to_string(high) : "");
  }

  static constexpr std::uint8_t kExpected = 5, kLastTurn = 6, kTree = 7;  // besides the stop reasons
  static constexpr std::uint8_t kRest = 7;                                // besides the groups of heads
  static constexpr std::array<std::uint64_t, 4> kTurns = {1, 2, 4, 10};
  static constexpr std::array<std::uint64_t, 7> kTokens = {1024, 2048, 4096, 8192, 16384, 32768, 65536};
  static constexpr std::array<std::uint64_t, 5> kOutputs = {32, 90, 256, 724, 2048};
  static constexpr std::array<std::uint64_t, 6> kOwners = {2, 4, 8, 16, 32, 64};
  static constexpr std::array<std::uint64_t, 4> kBlocks = {2, 4, 16, 64};

  // How many of the ascending limits x has reached.
  template <std::size_t Count>
  static std::uint8_t step(std::uint64_t x, const std::array<std::uint64_t, Count>& limits) {
    std::uint8_t reached = 0;
    for (const std::uint64_t limit : limits) reached += x >= limit ? 1 : 0;
    return reached;
  }

  ReuseModel& model_;
  Features use_;
};

}  // namespace kvopt
