// Ghosts: what an order remembers of content that was evicted. Queues of keys, oldest first, with their size in blocks.
//
// A ghost stands for a run that was evicted: its first key, how many blocks it had, and a value of the policy's. When
// its key is missed, expect() sets the ghost aside, so that it counts in no queue and the room made for its content
// cannot push it out; take() hands it over when the content is stored. The owner bounds the queues; of what is set
// aside, the oldest is forgotten when ghosts run out.
//
// Complexity: O(1) each. 32 bytes a ghost and 10 for finding it, allocated at construction.
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>

#include "core/prefix_index.hpp"
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
      : aside_(queues),
        ends_(std::min(ghosts, kMostGhosts) + kMostAside),
        nodes_(std::size_t{ends_} + queues + 1),
        index_(2 * ends_, {&nodes_}) {
    for (std::uint32_t q = 0; q <= queues; ++q) nodes_[ends_ + q].next = nodes_[ends_ + q].previous = ends_ + q;
  }
  GhostQueues(const GhostQueues&) = delete;
  GhostQueues& operator=(const GhostQueues&) = delete;
  ~GhostQueues() = default;

  std::uint32_t ids() const { return ends_; }  // above all ids of ghosts
  std::uint32_t blocks(std::uint32_t q) const { return nodes_[ends_ + q].blocks; }
  GhostId oldest(std::uint32_t q) const { return nodes_[ends_ + q].next < ends_ ? nodes_[ends_ + q].next : kNoGhost; }
  GhostId find(std::uint64_t key) const {
    return index_.find(key, [](GhostId) { return true; });
  }

  Ghost ghost(GhostId g) const {
    const Node& n = nodes_[g];
    return {.id = g, .blocks = n.blocks, .value = n.value, .queue = n.origin, .expected = n.queue == aside_};
  }

  // The newest of its queue. A ghost of the same key is forgotten.
  GhostId push(std::uint32_t q, std::uint64_t key, std::uint32_t blocks, std::uint32_t value = 0) {
    if (const GhostId same = find(key); same != kNoGhost) erase(same);
    if (key == unknown_) unknown_.reset();
    if (free_ == kNoGhost && used_ == ends_) forget_one();
    GhostId g = free_;
    if (g != kNoGhost) {
      free_ = nodes_[g].next;
    } else {
      g = used_++;
    }
    nodes_[g] = {.key = key, .next = 0, .previous = 0, .blocks = blocks, .value = value, .queue = q, .origin = q};
    link(g, q);
    index_.insert(g);
    return g;
  }

  void erase(GhostId g) {
    unlink(g);
    index_.erase(g);
    nodes_[g].next = free_;
    free_ = g;
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

  std::size_t bytes() const { return nodes_.size() * sizeof(Node) + index_.bytes(); }

 private:
  static constexpr std::uint32_t kMostAside = 64;
  static constexpr std::uint32_t kMostGhosts = std::uint32_t{1} << 30;

  struct Node {  // of a ghost; then the ends of the queues
    std::uint64_t key;
    std::uint32_t next;
    std::uint32_t previous;
    std::uint32_t blocks;
    std::uint32_t value;
    std::uint32_t queue;
    std::uint32_t origin;  // the queue that it was in before it was set aside
  };
  struct KeyOf {
    const LazyArray<Node>* nodes;
    std::uint64_t operator()(GhostId g) const { return (*nodes)[g].key; }
  };

  void forget_one() {
    std::uint32_t q = aside_;
    while (oldest(q) == kNoGhost) --q;
    erase(oldest(q));
  }

  void link(GhostId g, std::uint32_t q) {
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

  std::uint32_t aside_;  // the queue of what was set aside, the last one
  std::uint32_t ends_;   // where the ends begin
  std::uint32_t used_ = 0;
  GhostId free_ = kNoGhost;
  std::optional<std::uint64_t> unknown_;  // a missed key of which nothing is known
  LazyArray<Node> nodes_;
  PrefixIndex<KeyOf> index_;
};

}  // namespace kvopt
