// The requests that decode: one token each and step, counted without touching each of them at each step.
//
// All that a decoding request does is known when it begins: the steps in which it fills a block, needs another, and
// ends. So a step costs the requests to which one of these happens, and steps in which nothing happens can be taken at
// once. At step d + i of a request that began at step d with N tokens known and N - 1 of them cached, token N - 1 + i
// is computed: there must be a block for it, and it may be the last in it.
#pragma once

#include <cstdint>
#include <functional>
#include <tuple>
#include <vector>

#include "simulator/request.hpp"

namespace kvopt::simulator {

class DecodeBatch {
 public:
  explicit DecodeBatch(std::int64_t block_tokens) : block_tokens_(block_tokens) {}

  // Requests that decode.
  std::int64_t size() const { return size_; }
  // Their cached tokens before this step, added up.
  std::int64_t context() const { return context_; }

  // Takes in a request whose prefill is complete and whose answer has tokens to come.
  void join(const RequestPtr& request);
  // Takes out a request before its end, and sets its `computed` and `generated` to what they are by now.
  void leave(Request& request);
  // The token that a request computes in this step: how many it has cached.
  std::int64_t position(const Request& request) const {
    return request.prompt_tokens + request.generated - 1 + step_ - request.decode_step;
  }
  // Lets a request sit out this step; advance() must be told.
  void delay(const RequestPtr& request);

  // The next request, in the order of admission, that fills a block or needs another in this step; or null.
  RequestPtr pop_edge();
  // Plans the next edge of a request after that of this step.
  void plan_edge(const RequestPtr& request);
  // Steps from this one on up to the first that ends a request, or that is before one with an edge; 1 up.
  std::int64_t uneventful_steps();
  // Goes on by some steps; in a single one, some requests may have been delayed.
  void advance(std::int64_t steps, std::int64_t delayed);
  // The next request, in the order of admission, whose answer was completed by the last step, taken out; or null.
  RequestPtr pop_end();

 private:
  struct Entry {
    std::int64_t step;
    std::int64_t order;
    std::int64_t epoch;
    RequestPtr request;
    bool stale() const { return request->epoch != epoch; }
    bool operator>(const Entry& other) const {
      return std::tie(step, order, epoch) > std::tie(other.step, other.order, other.epoch);
    }
  };
  using Heap = std::vector<Entry>;  // the least first

  static void push(Heap& heap, Entry entry);
  static RequestPtr pop(Heap& heap);
  static void drop_stale(Heap& heap);
  static std::int64_t last_step(const Request& request) {
    return request.decode_step + request.output_tokens - request.generated - 1;
  }
  void plan(const RequestPtr& request, std::int64_t step);

  std::int64_t block_tokens_;
  std::int64_t step_ = 0;  // the one to be taken next
  std::int64_t size_ = 0;
  std::int64_t context_ = 0;
  Heap edges_;
  Heap ends_;
};

}  // namespace kvopt::simulator
