// Which order knows better what comes back: time or the index? Asked of pairs, at every so many choices of a victim.
//
// Of some leaves that are drawn at random, one order would evict this one, the other that one. Whichever comes back
// first, cached or not, should have been kept: the order that would have kept it wins what its loss costs. Neither is
// evicted for that, so the answer is the same whichever order is in use, and a shadow of the cache is not needed. O(1).
#pragma once

#include <array>
#include <cmath>
#include <cstdint>

#include "core/random.hpp"
#include "core/release_events.hpp"

namespace kvopt {

// What duels have brought: above zero for the index, below for time; old ones fade.
struct DuelTally {
  double sum = 0;
  double squares = 0;
  double stakes = 0;

  void add(double won) {
    constexpr double kKeep = 1 - 1.0 / 512;
    sum = sum * kKeep + won;
    squares = squares * kKeep + won * won;
    stakes = stakes * kKeep + std::abs(won);
  }
  // Standard ones of its own noise, that the sum is away from zero.
  double errors() const { return squares > 0 ? sum / std::sqrt(squares) : 0; }
  // Clear of its noise, and not little.
  bool index_wins() const { return errors() > kErrors && sum > kLittle * stakes; }

 private:
  static constexpr double kErrors = 2.5;
  static constexpr double kLittle = 0.05;
};

class OrderDuels {
 public:
  struct Contender {
    EventId event;
    float cost;  // of losing a block of it
  };

  // Whether this choice of a victim is one at which a pair is drawn.
  bool due() { return ++choices_ % (begun_ < kEagerly ? 2 : kSparingly) == 0; }
  Random& random() { return random_; }

  // Of these two, neither in a duel, the index would evict the first and time the second.
  void begin(ReleaseEvents& events, const Contender& by_index, const Contender& by_time) {
    const auto place = static_cast<std::uint16_t>(begun_++ % kMost);
    end(events, place);
    duels_[place] = {by_index, by_time};
    events[by_index.event].duel = events[by_time.event].duel = place + 1;
  }

  // What was let go of as e is asked for again.
  void returned(ReleaseEvents& events, EventId e) {
    if (events[e].duel == 0) return;
    const auto place = static_cast<std::uint16_t>(events[e].duel - 1);
    const auto& [by_index, by_time] = duels_[place];
    tally_.add(e == by_time.event ? by_time.cost : -by_index.cost);
    end(events, place);
  }

  const DuelTally& tally() const { return tally_; }

 private:
  static constexpr std::size_t kMost = 512;        // at once
  static constexpr std::uint64_t kEagerly = 256;   // duels: until then every other choice
  static constexpr std::uint64_t kSparingly = 16;  // choices

  struct Duel {
    Contender by_index, by_time;
  };

  void end(ReleaseEvents& events, std::uint16_t place) {
    for (const Contender& each : {duels_[place].by_index, duels_[place].by_time}) {
      if (events[each.event].duel == place + 1) events[each.event].duel = 0;
    }
  }

  std::array<Duel, kMost> duels_{};
  DuelTally tally_;
  Random random_{1};
  std::uint64_t choices_ = 0;
  std::uint64_t begun_ = 0;
};

}  // namespace kvopt
