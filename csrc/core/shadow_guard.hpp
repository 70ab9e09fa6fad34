// Decides when to trust LRU instead: compares what the cache saved with what LRU would have saved, over two windows of
// requests and in a ledger of all.
//
// A request may save a thousand times what another saves, so a difference counts only when it stands clear of its own
// noise: a large loss over a short window, or a small one that lasts. While LRU's order is used, what the other order
// would have saved is unknown, so the guard tries it again after a while, and waits twice as long each time that it
// fails. The ledger bounds what all trials together may lose: a thousandth of the prefill that was asked for, and some
// more to begin with. The less LRU hits, the more that is, since there is more to be won than to be lost; and duels
// (core/order_duels.hpp), which tell of the order that is not in use, too, raise it or lower it. Where they leave no
// doubt, and nothing is left to spend, there are trials with a small stake, each time after twice as long.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>

#include "core/learned_state.hpp"
#include "core/order_duels.hpp"

namespace kvopt {

class ShadowGuard {
 public:
  // Prefill time of blocks that the running request asks for, found or not.
  void ask(double cost) { asked_ += cost; }
  // Prefill time saved by hits of the running request, ours and LRU's.
  void count(double ours, double lru) {
    ours_ += ours;
    lru_ += lru;
  }

  void end_request(const DuelTally& duels) {
    const double lost = lru_ - ours_;
    for (Window* window : {&short_, &long_}) window->add(lost, lru_);
    trial_.add(lost);
    ledger_.add(lost, lru_, asked_);
    ours_ = lru_ = asked_ = 0;
    ++requests_;
    if (use_lru_) {
      try_the_index(duels);
    } else {
      doubt_the_index(duels);
    }
  }

  // Whether LRU's order should be used from now on.
  bool uses_lru() const { return use_lru_; }

  // Which order is in use, and how long it waits; not the sums: what was won before is no licence to
  // lose now.
  void save(StateWriter& out) const {
    out.put(wait_);
    out.put(stake_wait_);
    out.put(static_cast<std::uint8_t>((use_lru_ ? 1 : 0) + (overdrawn_ ? 2 : 0)));
  }
  void load(StateReader& in) {
    wait_ = in.get<std::uint32_t>();
    stake_wait_ = in.get<std::uint32_t>();
    const auto flags = in.get<std::uint8_t>();
    use_lru_ = (flags & 1) != 0;
    overdrawn_ = (flags & 2) != 0;
    for (const std::uint32_t wait : {wait_, stake_wait_}) {
      StateReader::require(wait >= kShortestWait && wait <= kLongestWait, "the guard's wait is out of range");
    }
  }

 private:
  void try_the_index(const DuelTally& duels) {
    const bool in_budget = ledger_.spent(duels) < kAgain;
    const std::uint32_t wait = overdrawn_ && duels.index_wins() ? kLook : wait_;
    if (in_budget ? requests_ < wait : requests_ < stake_wait_ || duels.errors() < kSure) return;
    start(false);
    staked_ = !in_budget;
  }

  void doubt_the_index(const DuelTally& duels) {
    const double spent = ledger_.spent(duels);
    staked_ = staked_ && spent > 1;
    if (staked_) {
      if (trial_.sum < kStake * ledger_.asked / ledger_.requests) return;
      stake_wait_ = std::min(stake_wait_ * 2, kLongestWait);
      start(true);
      overdrawn_ = true;
    } else if (spent > kTooMuch || (spent > 1 && trial_.lost())) {
      start(true);
      overdrawn_ = true;
    } else if (requests_ % kLook == 0 && (short_.lost() || long_.lost())) {
      start(true);
      wait_ = std::min(wait_ * 2, kLongestWait);
    } else if (requests_ >= 16 * kShortestWait) {
      wait_ = kShortestWait;
    }
  }

  static constexpr std::uint32_t kLook = 16;  // requests
  static constexpr std::uint32_t kShortestWait = 512;
  static constexpr std::uint32_t kLongestWait = 1 << 16;
  static constexpr double kAgain = 0.7;  // of the budget: what may be spent when a trial begins
  static constexpr double kTooMuch = 2;  // then a trial ends, whatever its noise
  static constexpr double kSure = 4;     // standard errors of duels: then there is a trial with nothing left to spend
  static constexpr double kStake = 4;    // mean requests' prefill that such a trial may lose

  // Sums over requests, of which the old ones fade.
  struct Window {
    double requests;   // that it remembers
    double tolerance;  // of what LRU saves
    double errors;     // standard ones, that a difference must exceed
    double sum = 0;    // of what was lost against LRU
    double squares = 0;
    double saved = 0;  // by LRU
    double weight = 0;

    void add(double lost, double lru) {
      const double keep = 1 - 1 / requests;
      sum = sum * keep + lost;
      squares = squares * keep + lost * lost;
      saved = saved * keep + lru;
      weight = weight * keep + 1;
    }
    bool lost() const {
      if (weight < 0.4 * requests) return false;
      const double mean = sum / weight;
      const double variance = std::max(squares / weight - mean * mean, 0.0);
      return mean > tolerance * saved / weight + errors * std::sqrt(variance / weight);
    }
    void clear() { sum = squares = saved = weight = 0; }
  };

  // Sums since the present order came into use.
  struct Trial {
    double sum = 0;  // of what was lost against LRU
    double squares = 0;
    double gains = 0;  // of requests that saved more

    void add(double lost) {
      sum += lost;
      squares += lost * lost;
      gains += std::max(-lost, 0.0);
    }
    // Clear of its noise, and twice what was gained is lost.
    bool lost() const { return sum > kErrors * std::sqrt(squares) && sum > gains; }

    static constexpr double kErrors = 1.5;  // standard ones
  };

  // Sums over all requests; very old ones fade, so that what was won long ago is no licence to lose.
  struct Ledger {
    double lost = 0;
    double lru = 0;    // saved by it
    double asked = 0;  // prefill of all blocks
    double requests = 0;

    void add(double difference, double saved, double cost) {
      constexpr double kKeep = 1 - 1.0 / (1 << 16);
      lost = lost * kKeep + difference;
      lru = lru * kKeep + saved;
      asked = asked * kKeep + cost;
      requests = requests * kKeep + 1;
    }
    // Share of what may be lost.
    double spent(const DuelTally& duels) const {
      if (lost <= 0) return 0;
      return lost / (kBudget * (asked + kCredit * confidence(duels) * asked / requests));
    }

    // That the index will win back what it loses: what there is to win, and what duels say.
    double confidence(const DuelTally& duels) const {
      const double to_win = std::min((asked - lru) / std::max(lru, 0.01 * asked), kMostToWin);
      if (duels.index_wins()) return std::max(to_win, std::min(duels.errors(), kMostSure));
      return duels.sum < 0 ? to_win / 2 : to_win;
    }

    static constexpr double kBudget = 0.001;  // of the prefill that was asked for
    static constexpr double kCredit = 4000;   // requests' worth of it to begin with, × confidence
    static constexpr double kMostToWin = 5;   // LRU's misses over its hits
    static constexpr double kMostSure = 6;    // standard errors
  };

  void start(bool lru) {
    use_lru_ = lru;
    staked_ = false;
    overdrawn_ = false;
    trial_ = {};
    requests_ = 0;
    short_.clear();
    long_.clear();
  }

  double ours_ = 0;  // of the running request
  double lru_ = 0;
  double asked_ = 0;
  Window short_{.requests = 512, .tolerance = 0.01, .errors = 3};
  Window long_{.requests = 8192, .tolerance = 0.001, .errors = 2};
  Ledger ledger_;
  Trial trial_;
  std::uint32_t requests_ = 0;
  std::uint32_t wait_ = kShortestWait;
  std::uint32_t stake_wait_ = kShortestWait;  // the same for trials with a stake
  bool use_lru_ = false;
  bool overdrawn_ = false;  // that is why
  bool staked_ = false;     // the trial has a stake instead of a budget
};

}  // namespace kvopt
