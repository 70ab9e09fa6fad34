// Decides when to trust LRU instead: compares what the cache saved with what LRU would have saved, over two windows of
// requests.
//
// A request may save a thousand times what another saves, so a difference counts only when it stands clear of its own
// noise: a large loss over a short window, or a small one that lasts. While LRU's order is used, what the other order
// would have saved is unknown, so the guard tries it again after a while, and waits twice as long each time that it
// fails.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>

#include "core/learned_state.hpp"

namespace kvopt {

class ShadowGuard {
 public:
  // Prefill time saved by hits of the running request, ours and LRU's.
  void count(double ours, double lru) {
    ours_ += ours;
    lru_ += lru;
  }

  void end_request() {
    for (Window* window : {&short_, &long_}) window->add(lru_ - ours_, lru_);
    ours_ = lru_ = 0;
    ++requests_;
    if (use_lru_) {
      if (requests_ >= wait_) start(false);
    } else if (requests_ % kLook == 0 && (short_.lost() || long_.lost())) {
      start(true);
      wait_ = std::min(wait_ * 2, kLongestWait);
    } else if (requests_ >= 16 * kShortestWait) {
      wait_ = kShortestWait;
    }
  }

  // Whether LRU's order should be used from now on.
  bool uses_lru() const { return use_lru_; }

  void save(StateWriter& out) const {
    out.put(requests_);
    out.put(wait_);
    out.put(static_cast<std::uint8_t>(use_lru_ ? 1 : 0));
    for (const Window* window : {&short_, &long_}) {
      for (const double sum : {window->sum, window->squares, window->saved, window->weight}) out.put(sum);
    }
  }
  void load(StateReader& in) {
    requests_ = in.get<std::uint32_t>();
    wait_ = in.get<std::uint32_t>();
    use_lru_ = in.get<std::uint8_t>() != 0;
    StateReader::require(wait_ >= kShortestWait && wait_ <= kLongestWait, "the guard's wait is out of range");
    for (Window* window : {&short_, &long_}) {
      for (double* sum : {&window->sum, &window->squares, &window->saved, &window->weight}) *sum = in.get<double>();
    }
  }

 private:
  static constexpr std::uint32_t kLook = 16;  // requests
  static constexpr std::uint32_t kShortestWait = 512;
  static constexpr std::uint32_t kLongestWait = 1 << 16;

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

  void start(bool lru) {
    use_lru_ = lru;
    requests_ = 0;
    short_.clear();
    long_.clear();
  }

  double ours_ = 0;  // of the running request
  double lru_ = 0;
  Window short_{.requests = 512, .tolerance = 0.01, .errors = 3};
  Window long_{.requests = 8192, .tolerance = 0.001, .errors = 2};
  std::uint32_t requests_ = 0;
  std::uint32_t wait_ = kShortestWait;
  bool use_lru_ = false;
};

}  // namespace kvopt
