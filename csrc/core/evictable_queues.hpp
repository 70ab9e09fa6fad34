// Several queues of evictable runs, a run in one of them at most, threaded through one array.
//
// 8 bytes a run and a queue, no allocation after construction; queues that were never used take no memory.
#pragma once

#include <cstdint>
#include <string>

#include "kvopt/run_table.hpp"

namespace kvopt {

class EvictableQueues {
 public:
  static constexpr std::uint32_t kNoQueue = UINT32_MAX;

  EvictableQueues(const RunTable& runs, std::uint32_t queues)
      : runs_(runs), ends_(runs.capacity + 1), links_(std::size_t{runs.capacity} + 1 + queues) {}

  bool contains(RunId r) const { return links_[node(r)].next != 0; }

  bool empty(std::uint32_t queue) const {
    const std::uint32_t end = ends_ + queue;
    return links_[end].next == 0 || links_[end].next == end;
  }
  RunId front(std::uint32_t queue) const { return links_[ends_ + queue].next - 1; }
  RunId back(std::uint32_t queue) const { return links_[ends_ + queue].previous - 1; }

  void append(std::uint32_t queue, RunId r) {
    const std::uint32_t end = opened(queue);
    link(links_[end].previous, node(r), end);
  }
  void prepend(std::uint32_t queue, RunId r) {
    const std::uint32_t end = opened(queue);
    link(end, node(r), links_[end].next);
  }

  // r must be in a queue. Returns the queue that is empty now, else kNoQueue.
  std::uint32_t remove(RunId r) {
    Link& gone = links_[node(r)];
    links_[gone.previous].next = gone.next;
    links_[gone.next].previous = gone.previous;
    const std::uint32_t emptied = gone.next == gone.previous ? gone.next - ends_ : kNoQueue;
    gone = {};
    return emptied;
  }

  // The first run of a queue without children, kNoRun when there is none. Runs with children that stood before it leave
  // the queue, so that none is looked at twice: the policy prepends them when they lose the last child.
  RunId front_leaf(std::uint32_t queue) {
    while (!empty(queue)) {
      const RunId r = front(queue);
      if (runs_.children[r] == 0) return r;
      remove(r);
    }
    return kNoRun;
  }

  // Nothing but evictable runs, each once, and every victim is in one of the queues.
  std::string verify(std::uint32_t queues) const {
    std::uint32_t queued = 0;
    for (std::uint32_t q = 0; q < queues; ++q) {
      if (empty(q)) continue;
      const std::uint32_t end = ends_ + q;
      for (std::uint32_t n = links_[end].next, before = end; n != end; before = n, n = links_[n].next) {
        if (n > runs_.used || !runs_.evictable(n - 1))
          return "a run in queue " + std::to_string(q) + " is not evictable";
        if (links_[n].previous != before) return "the links of queue " + std::to_string(q) + " disagree";
        if (++queued > runs_.used) return "the queues hold runs more than once";
      }
    }
    for (RunId r = 0; r < runs_.used; ++r) {
      if (runs_.is_victim(r) && !contains(r)) return "run " + std::to_string(r) + " is a victim outside the queues";
      queued -= contains(r) ? 1 : 0;
    }
    return queued == 0 ? std::string() : "a run is marked as queued and is in no queue";
  }

  std::size_t bytes() const { return links_.size() * sizeof(Link); }

 private:
  struct Link {
    std::uint32_t next;  // nodes: 1 + run, or an end of a queue; 0: none
    std::uint32_t previous;
  };

  static std::uint32_t node(RunId r) { return r + 1; }

  std::uint32_t opened(std::uint32_t queue) {
    const std::uint32_t end = ends_ + queue;
    if (links_[end].next == 0) links_[end] = {end, end};
    return end;
  }

  void link(std::uint32_t before, std::uint32_t n, std::uint32_t after) {
    links_[before].next = links_[after].previous = n;
    links_[n] = {after, before};
  }

  const RunTable& runs_;
  std::uint32_t ends_;  // the node that is both ends of queue 0
  LazyArray<Link> links_;
};

}  // namespace kvopt
