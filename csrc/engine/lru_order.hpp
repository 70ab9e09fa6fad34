// vLLM's free queue: blocks without content are let go of to the front, cached ones to the end.
#pragma once

#include "engine/free_queue.hpp"
#include "engine/victim_order.hpp"

namespace kvopt {

class LruOrder final : public VictimOrder {
 public:
  // All blocks but the null block are free, in ascending order.
  explicit LruOrder(std::uint32_t blocks) : queue_(blocks) {
    for (BlockId b = 1; b < blocks; ++b) queue_.append(b);
  }

  std::uint32_t size() const override { return queue_.size(); }
  bool contains(BlockId block) const override { return queue_.contains(block); }

  void take(std::span<BlockId> out, const RequestInfo& /*info*/) override {
    for (BlockId& b : out) b = queue_.pop();
  }
  void on_held(std::span<const BlockId> blocks, bool /*hit*/, const RequestInfo& /*info*/) override {
    for (const BlockId b : blocks) {
      if (queue_.contains(b)) queue_.remove(b);
    }
  }
  void on_released(std::span<const BlockId> /*blocks*/, std::span<const BlockId> empty, std::span<const BlockId> cached,
                   const RequestInfo& /*info*/) override {
    queue_.prepend(empty);
    for (const BlockId b : cached) queue_.append(b);
  }
  void on_released_last(std::span<const BlockId> blocks, const RequestInfo& /*info*/) override {
    for (const BlockId b : blocks) queue_.append(b);
  }

  std::vector<BlockId> listing() const override {
    std::vector<BlockId> blocks;
    for (BlockId b = queue_.size() > 0 ? queue_.front() : kNoBlock; b != kNoBlock; b = queue_.next(b)) {
      blocks.push_back(b);
    }
    return blocks;
  }
  std::string verify() const override {
    return listing().size() == queue_.size() ? std::string() : "the free queue is miscounted";
  }
  std::size_t bytes() const override { return queue_.bytes(); }

 private:
  FreeQueue queue_;
};

}  // namespace kvopt
