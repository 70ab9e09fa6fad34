// Decides when to trust LRU instead: compares what the cache saved with what LRU would have saved, over a window of
// requests.
//
// A request may save a thousand times what another saves, so a difference counts only when it stands clear of its own
// noise (three standard errors). While LRU's order is used, what the other order would have saved is unknown, so the
// guard tries it again after a while, and waits twice as long each time that it fails.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>

namespace kvopt {

class ShadowGuard {
 public:
  // Prefill time saved by hits of the running request, ours and LRU's.
  void count(double ours, double lru) {
    ours_ += ours;
    lru_ += lru;
  }

  // Whether LRU's order should be used from now on.
  bool end_request() {
    const double lost = lru_ - ours_;
    sum_ = sum_ * kKeep + lost;
    squares_ = squares_ * kKeep + lost * lost;
    saved_ = saved_ * kKeep + lru_;
    weight_ = weight_ * kKeep + 1;
    ours_ = lru_ = 0;
    ++requests_;
    if (use_lru_) {
      if (requests_ >= wait_) start(false);
    } else if (requests_ >= kWindow / 2 && lru_saves_more()) {
      start(true);
      wait_ = std::min(wait_ * 2, kLongestWait);
    } else if (requests_ >= 16 * kWindow) {
      wait_ = kShortestWait;
    }
    return use_lru_;
  }

 private:
  static constexpr std::uint32_t kWindow = 512;
  static constexpr double kKeep = 1 - 1.0 / kWindow;
  static constexpr double kTolerance = 0.01;  // of what LRU saves
  static constexpr double kErrors = 3;
  static constexpr std::uint32_t kShortestWait = 512;
  static constexpr std::uint32_t kLongestWait = 1 << 16;

  bool lru_saves_more() const {
    const double mean = sum_ / weight_;
    const double variance = std::max(squares_ / weight_ - mean * mean, 0.0);
    return mean > kTolerance * saved_ / weight_ + kErrors * std::sqrt(variance / weight_);
  }

  void start(bool lru) {
    use_lru_ = lru;
    requests_ = 0;
    sum_ = squares_ = saved_ = weight_ = 0;
  }

  double ours_ = 0;  // of the running request
  double lru_ = 0;
  double sum_ = 0;  // decaying sums over requests, of what was lost against LRU
  double squares_ = 0;
  double saved_ = 0;  // by LRU
  double weight_ = 0;
  std::uint32_t requests_ = 0;
  std::uint32_t wait_ = kShortestWait;
  bool use_lru_ = false;
};

}  // namespace kvopt
