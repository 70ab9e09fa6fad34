// A request on its way through the simulated server, and the plain queue of those that wait.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <utility>
#include <vector>

#include "kvopt/block_pool.hpp"
#include "kvopt/types.hpp"

namespace kvopt::simulator {

// In the order of kvopt.scheduler.RequestState; the names are those of vLLM's RequestStatus.
enum class RequestState : std::uint8_t {
  kWaiting,
  kWaitingForRemoteKvs,
  kRunning,
  kPreempted,
  kFinishedStopped,
  kFinishedLengthCapped,
  kFinishedAborted,
  kFinishedIgnored,
};

struct Request {
  std::int64_t id = 0;
  std::int64_t session = 0;
  std::int32_t turn = -1;
  std::int64_t prompt_tokens = 0;
  std::int64_t output_tokens = 0;
  Time arrival = 0;
  Time session_arrival = 0;
  std::vector<std::uint64_t> keys;  // of the full blocks of prompt and answer, root first
  std::size_t prompt_keys = 0;      // leading keys of blocks that the trace names
  std::int64_t priority = 0;
  bool subagent = false;

  RequestState state = RequestState::kWaiting;
  std::int64_t computed = 0;   // tokens in the cache when it was last scheduled, hits included
  std::int64_t generated = 0;  // tokens of the answer so far; of a decoding request: when its decoding began
  std::int64_t preemptions = 0;
  Allocation allocation;
  std::int64_t order = -1;        // rises with each admission: running requests are served in this order
  std::int64_t decode_step = -1;  // the step that computed its next token when it began to decode; -1 in prefill
  std::int64_t epoch = 0;         // what was planned for it in an earlier one is void
  std::int64_t held_blocks = 0;
  std::int64_t loaded = 0;  // of the computed tokens, those that came from another tier
  std::int64_t lost = 0;    // the most tokens that it had computed when it was preempted
  std::int64_t seen = 0;    // tokens of its prefix that anyone had computed before, when it was admitted
  Time first_admitted = -1;
  Time first_token = -1;
  // The ledger, in tokens.
  std::int64_t hit = 0;
  std::int64_t prefilled = 0;
  std::int64_t thrown_away = 0;  // by preemption

  // Tokens whose keys and values the next prefill must provide: the prompt and the answer so far.
  std::int64_t tokens() const { return prompt_tokens + generated; }
  std::int64_t remaining_prefill() const { return tokens() - computed; }
  Keys leading_keys(std::size_t n) const { return {.hashes = keys.data(), .count = std::min(n, keys.size())}; }
};

using RequestPtr = std::shared_ptr<Request>;

// First come, first served; preempted requests come back to the front.
class RequestQueue {
 public:
  void add(RequestPtr request) { requests_.push_back(std::move(request)); }
  void prepend(RequestPtr request) { requests_.push_front(std::move(request)); }
  const RequestPtr& front() const { return requests_.front(); }
  RequestPtr pop() {
    RequestPtr request = std::move(requests_.front());
    requests_.pop_front();
    return request;
  }
  // Whether it was here.
  bool remove(const Request& request) {
    const auto found = std::ranges::find(requests_, &request, &RequestPtr::get);
    if (found == requests_.end()) return false;
    requests_.erase(found);
    return true;
  }
  std::size_t size() const { return requests_.size(); }
  const std::deque<RequestPtr>& all() const { return requests_; }

 private:
  std::deque<RequestPtr> requests_;
};

}  // namespace kvopt::simulator
