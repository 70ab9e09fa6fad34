// Free blocks in a doubly linked list, threaded through one array: 8 bytes a block, no allocation after construction.
#pragma once

#include <cstdint>
#include <ranges>
#include <span>

#include "kvopt/run_table.hpp"
#include "kvopt/types.hpp"

namespace kvopt {

class FreeQueue {
 public:
  explicit FreeQueue(std::uint32_t blocks) : end_(blocks + 1), links_(std::size_t{blocks} + 2) {
    links_[end_] = {end_, end_};
  }

  std::uint32_t size() const { return size_; }
  bool contains(BlockId b) const { return links_[b + 1].next != 0; }
  BlockId front() const { return links_[end_].next - 1; }  // of a queue that is not empty
  // The block after this one, or kNoBlock.
  BlockId next(BlockId b) const { return links_[b + 1].next == end_ ? kNoBlock : links_[b + 1].next - 1; }

  void append(BlockId b) { insert_before(end_, b + 1); }
  // The first of them becomes the front.
  void prepend(std::span<const BlockId> blocks) {
    for (const BlockId b : std::views::reverse(blocks)) insert_before(links_[end_].next, b + 1);
  }

  // b must be in the queue.
  void remove(BlockId b) {
    Link& gone = links_[b + 1];
    links_[gone.previous].next = gone.next;
    links_[gone.next].previous = gone.previous;
    gone = {};
    --size_;
  }

  BlockId pop() {
    const BlockId b = front();
    remove(b);
    return b;
  }

  std::size_t bytes() const { return links_.size() * sizeof(Link); }

 private:
  struct Link {
    std::uint32_t next;  // 1 + block, or the end; 0: outside
    std::uint32_t previous;
  };

  void insert_before(std::uint32_t place, std::uint32_t node) {
    const std::uint32_t before = links_[place].previous;
    links_[before].next = links_[place].previous = node;
    links_[node] = {place, before};
    ++size_;
  }

  std::uint32_t end_;
  std::uint32_t size_ = 0;
  LazyArray<Link> links_;
};

}  // namespace kvopt
