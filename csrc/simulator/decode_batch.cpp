#include "simulator/decode_batch.hpp"

#include <algorithm>
#include <utility>

namespace kvopt::simulator {

void DecodeBatch::join(const RequestPtr& request) {
  request->decode_step = step_;
  ++size_;
  context_ += request->tokens() - 1;
  plan(request, step_);
}

void DecodeBatch::leave(Request& request) {
  const std::int64_t computed = position(request);
  request.generated += step_ - request.decode_step;
  request.computed = computed;
  request.decode_step = -1;
  ++request.epoch;
  --size_;
  context_ -= computed;
}

void DecodeBatch::delay(const RequestPtr& request) {
  ++request->decode_step;
  ++request->epoch;
  plan(request, step_ + 1);
}

RequestPtr DecodeBatch::pop_edge() {
  while (!edges_.empty() && edges_.front().step <= step_) {
    const bool stale = edges_.front().stale();
    RequestPtr request = pop(edges_);
    if (!stale) return request;
  }
  return nullptr;
}

void DecodeBatch::plan_edge(const RequestPtr& request) {
  const std::int64_t rest = block_tokens_ - 1 - position(*request) % block_tokens_;
  const std::int64_t step = step_ + (rest == 0 ? 1 : rest);
  if (step <= last_step(*request)) push(edges_, {step, request->order, request->epoch, request});
}

std::int64_t DecodeBatch::uneventful_steps() {
  drop_stale(edges_);
  drop_stale(ends_);
  std::int64_t steps = ends_.empty() ? 1 : ends_.front().step - step_ + 1;
  if (!edges_.empty()) steps = std::min(steps, edges_.front().step - step_);
  return std::max(steps, std::int64_t{1});
}

void DecodeBatch::advance(std::int64_t steps, std::int64_t delayed) {
  step_ += steps;
  context_ += steps * (size_ - delayed);
}

RequestPtr DecodeBatch::pop_end() {
  while (!ends_.empty() && ends_.front().step < step_) {
    const bool stale = ends_.front().stale();
    RequestPtr request = pop(ends_);
    if (stale) continue;
    leave(*request);
    return request;
  }
  return nullptr;
}

// Its end, and its first edge from a step on.
void DecodeBatch::plan(const RequestPtr& request, std::int64_t step) {
  const std::int64_t last = last_step(*request);
  push(ends_, {last, request->order, request->epoch, request});
  const std::int64_t at = request->prompt_tokens + request->generated - 1 + step - request->decode_step;
  const std::int64_t first = step + (at % block_tokens_ == 0 ? 0 : block_tokens_ - 1 - at % block_tokens_);
  if (first <= last) push(edges_, {first, request->order, request->epoch, request});
}

void DecodeBatch::push(Heap& heap, Entry entry) {
  heap.push_back(std::move(entry));
  std::ranges::push_heap(heap, std::greater<>());
}

RequestPtr DecodeBatch::pop(Heap& heap) {
  std::ranges::pop_heap(heap, std::greater<>());
  RequestPtr request = std::move(heap.back().request);
  heap.pop_back();
  return request;
}

void DecodeBatch::drop_stale(Heap& heap) {
  while (!heap.empty() && heap.front().stale()) pop(heap);
}

}  // namespace kvopt::simulator
