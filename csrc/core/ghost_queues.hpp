// Ghosts: what an order remembers of content that was evicted. Queues of keys, oldest first, with their size in blocks.
//
// A ghost stands for a run that was evicted: its first key, how many blocks it had, and a value of the policy's. When
// its key is missed, expect() sets the ghost aside, so that it counts in no queue and the room made for its content
// cannot push it out; take() hands it over when the content is stored. The owner bounds the queues; of what is set
// aside, the oldest is forgotten when ghosts run out.
//
// Structure: lists by queue, and chains by hash of the key, both threaded through one array.
// Complexity: O(1) each. 36 to 40 bytes a ghost, allocated at construction.
#pragma once

#include <algorithm>
#include <bit>
#include <cstdint>
#include <optional>

#include "kvopt/run_table.hpp"

namespace kvopt {

using GhostId = std::uint32_t;
inline constexpr GhostId kNoGhost = kNoRun;

struct Ghost {
  GhostId id;
  std::uint32_t blocks;
  std::uint32_t value;
  std::uint32_t queue;
  bool expected;  // expect() had found it before
};

class GhostQueues {
 public:
  // Room for queues with so many ghosts in all.
  GhostQueues(std::uint32_t ghosts, std::uint32_t queues)
      : aside_(static_cast<std::uint16_t>(queues)),
        ends_(std::min(ghosts, kMostGhosts) + kMostAside),
        nodes_(std::size_t{ends_} + queues + 1),
        chains_(std::bit_ceil(ends_)),
        shift_(64 - static_cast<unsigned>(std::bit_width(chains_.size() - 1))) {
    for (std::uint32_t q = 0; q <= queues; ++q) nodes_[ends_ + q].next = nodes_[ends_ + q].previous = ends_ + q;
  }

  std::uint32_t ids() const { return ends_; }  // above all ids of ghosts
  std::uint32_t blocks(std::uint32_t q) const { return nodes_[ends_ + q].blocks; }
  GhostId oldest(std::uint32_t q) const { return nodes_[ends_ + q].next < ends_ ? nodes_[ends_ + q].next : kNoGhost; }

  GhostId find(std::uint64_t key) const {
    std::uint32_t at = chains_[chain(key)];
    while (at != 0 && nodes_[at - 1].key != key) at = nodes_[at - 1].chain;
    return at - 1;
  }

  Ghost ghost(GhostId g) const {
    const Node& n = nodes_[g];
    return {.id = g, .blocks = n.blocks, .value = n.value, .queue = n.origin, .expected = n.queue == aside_};
  }

  // The newest of its queue. A ghost of the same key is forgotten.
  GhostId push(std::uint32_t q, std::uint64_t key, std::uint32_t blocks, std::uint32_t value = 0) {
    if (const GhostId same = find(key); same != kNoGhost) erase(same);
    if (key == unknown_) unknown_.reset();
    if (free_ == 0 && used_ == ends_) forget_one();
    GhostId g = free_ - 1;
    if (free_ != 0) {
      free_ = nodes_[g].next;
    } else {
      g = used_++;
    }
    Node& n = nodes_[g];
    std::uint32_t& head = chains_[chain(key)];
    n.key = key;
    n.blocks = blocks;
    n.value = value;
    n.origin = static_cast<std::uint16_t>(q);
    n.chain = head;
    head = g + 1;
    link(g, n.origin);
    return g;
  }

  void erase(GhostId g) {
    unlink(g);
    std::uint32_t* at = &chains_[chain(nodes_[g].key)];
    while (*at != g + 1) at = &nodes_[*at - 1].chain;
    *at = nodes_[g].chain;
    nodes_[g].next = free_;
    free_ = g + 1;
  }

  // Forgets the oldest until the queue has at most so many blocks.
  void trim(std::uint32_t q, std::uint64_t blocks) {
    while (this->blocks(q) > blocks) erase(oldest(q));
  }

  // A key is missed: what is known of it.
  std::optional<Ghost> expect(std::uint64_t key) {
    const GhostId g = find(key);
    if (g == kNoGhost) {
      unknown_ = key;
      return {};
    }
    const Ghost known = ghost(g);
    if (!known.expected) {
      unlink(g);
      link(g, aside_);
    }
    return known;
  }

  // Content that begins with this key is stored: what was known of it, which is forgotten now.
  std::optional<Ghost> take(std::uint64_t key) {
    if (key == unknown_) return {};  // expect() has just looked
    const GhostId g = find(key);
    if (g == kNoGhost) return {};
    const Ghost taken = ghost(g);
    erase(g);
    return taken;
  }

  std::size_t bytes() const { return nodes_.size() * sizeof(Node) + chains_.size() * sizeof(std::uint32_t); }

 private:
  static constexpr std::uint32_t kMostAside = 64;
  static constexpr std::uint32_t kMostGhosts = std::uint32_t{1} << 30;

  struct Node {  // of a ghost; then the ends of the queues
    std::uint64_t key;
    std::uint32_t next;
    std::uint32_t previous;
    std::uint32_t blocks;
    std::uint32_t value;
    std::uint32_t chain;  // the next ghost of this hash, plus one; 0: none
    std::uint16_t queue;
    std::uint16_t origin;  // the queue that it was in before it was set aside
  };

  std::size_t chain(std::uint64_t key) const { return (key * 0x9E3779B97F4A7C15U) >> shift_; }

  void forget_one() {
    std::uint32_t q = aside_;
    while (oldest(q) == kNoGhost) --q;
    erase(oldest(q));
  }

  void link(GhostId g, std::uint16_t q) {
    Node& n = nodes_[g];
    Node& end = nodes_[ends_ + q];
    n.queue = q;
    n.next = ends_ + q;
    n.previous = end.previous;
    nodes_[end.previous].next = g;
    end.previous = g;
    end.blocks += n.blocks;
  }

  void unlink(GhostId g) {
    const Node& n = nodes_[g];
    nodes_[n.previous].next = n.next;
    nodes_[n.next].previous = n.previous;
    nodes_[ends_ + n.queue].blocks -= n.blocks;
  }

  std::uint16_t aside_;  // the queue of what was set aside, the last one
  std::uint32_t ends_;   // where the ends begin
  std::uint32_t used_ = 0;
  std::uint32_t free_ = 0;                // the first free one, plus one; 0: none
  std::optional<std::uint64_t> unknown_;  // a missed key of which nothing is known
  LazyArray<Node> nodes_;
  LazyArray<std::uint32_t> chains_;  // the first ghost of each hash, plus one; 0: none
  unsigned shift_;
};

}  // namespace kvopt
