// Several queues of runs over the same arrays, and how many blocks belong to each.
//
// A run belongs to one queue from on_stored() until it is dropped or forgotten, and counts there with all its blocks,
// whether it is held, interior or neither: capacities of queues are in blocks. It is also listed there, in order, front
// first, as long as it may be a victim: front_victim() takes runs that may not go now (held, or with cached children)
// off the list, and they come back to the front, where the textbook would have evicted them, as soon as they may. So
// every queue gives the leaf-first choice of its own order.
//
// Complexity: O(1) each; a run is passed over once for each time that it comes back. 16 bytes a run and a queue.
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <span>
#include <string>

#include "kvopt/policy.hpp"
#include "kvopt/run_table.hpp"

namespace kvopt {

class RunQueues {
 public:
  RunQueues(const RunTable& runs, std::uint32_t queues)
      : runs_(runs), ends_(runs.capacity + 1), nodes_(std::size_t{ends_} + queues) {
    for (std::uint32_t q = 0; q < queues; ++q) end(q).next = end(q).previous = ends_ + q;
  }

  std::uint32_t queue(RunId r) const { return node(r).queue; }
  bool listed(RunId r) const { return node(r).next != 0; }
  // Blocks that belong to the queue; those of one run.
  std::uint32_t blocks(std::uint32_t q) const { return nodes_[ends_ + q].blocks; }
  std::uint32_t blocks_of(RunId r) const { return node(r).blocks; }

  // The first run that is listed, or kNoRun.
  RunId front(std::uint32_t q) const {
    const std::uint32_t first = nodes_[ends_ + q].next;
    return first < ends_ ? first - 1 : kNoRun;
  }

  // The run listed after this one, or kNoRun.
  RunId next(RunId r) const { return node(r).next < ends_ ? node(r).next - 1 : kNoRun; }

  // The first run that may be evicted, or kNoRun.
  RunId front_victim(std::uint32_t q) {
    for (RunId r = front(q); r != kNoRun; r = front(q)) {
      if (runs_.is_victim(r)) return r;
      unlist(r);
    }
    return kNoRun;
  }

  // A run that belongs to no queue yet.
  void enter(RunId r, std::uint32_t q) {
    node(r).queue = q;
    recount(r);
  }

  // The run belongs to no queue; queue(r) still says to which it did.
  void leave(RunId r) {
    unlist(r);
    end(node(r).queue).blocks -= node(r).blocks;
    node(r).blocks = 0;
  }

  // To another queue, not listed there yet.
  void move(RunId r, std::uint32_t q) {
    unlist(r);
    end(node(r).queue).blocks -= node(r).blocks;
    end(q).blocks += node(r).blocks;
    node(r).queue = q;
  }

  // The run became longer or shorter. Returns by how many blocks, modulo 2^32.
  std::uint32_t recount(RunId r) {
    const std::uint32_t more = runs_.length[r] - node(r).blocks;
    node(r).blocks += more;
    end(node(r).queue).blocks += more;
    return more;
  }

  // List a run that is not listed.
  void append(RunId r) { insert_before(ends_ + node(r).queue, r); }
  void prepend(RunId r) { insert_before(end(node(r).queue).next, r); }
  void insert_after(RunId place, RunId r) { insert_before(node(place).next, r); }

  void unlist(RunId r) {
    Node& n = node(r);
    if (n.next == 0) return;
    nodes_[n.previous].next = n.next;
    nodes_[n.next].previous = n.previous;
    n.next = n.previous = 0;
  }

  // `head` was the front part of `tail`: it goes after it.
  void split(RunId head, RunId tail) {
    node(head).queue = node(tail).queue;
    recount(tail);
    recount(head);
    if (listed(tail)) insert_before(node(tail).next, head);
  }

  // Links and sums agree, and `in_order` holds for every possible victim; else a sentence that says what is wrong.
  template <class InOrder>
  std::string verify(InOrder in_order) const {
    for (RunId r = 0; r < runs_.used; ++r) {
      if (runs_.is_victim(r) && !in_order(r)) return "run " + std::to_string(r) + " is a victim outside the order";
      if (runs_.is_victim(r) && node(r).blocks != runs_.length[r]) return "run " + std::to_string(r) + " is miscounted";
    }
    std::uint64_t listed_runs = 0;
    std::uint64_t linked_runs = 0;
    std::uint64_t counted = 0;
    for (RunId r = 0; r < runs_.capacity; ++r) {
      listed_runs += listed(r) ? 1 : 0;
      counted += node(r).blocks;
      if (node(r).blocks > 0 && !runs_.hittable(r))
        return "run " + std::to_string(r) + " counts, but can be hit no more";
    }
    for (std::uint32_t e = ends_; e < nodes_.size(); ++e) {
      counted -= nodes_[e].blocks;
      for (std::uint32_t before = e, at = nodes_[e].next; at != e; before = at, at = nodes_[at].next) {
        if (at == 0 || at >= ends_ || nodes_[at].previous != before || nodes_[at].queue != e - ends_) {
          return "queue " + std::to_string(e - ends_) + " is linked wrongly";
        }
        if (++linked_runs > listed_runs) return "a run is listed twice";
      }
    }
    if (linked_runs != listed_runs) return "a run is listed in no queue";
    return counted == 0 ? std::string() : "blocks of the queues are miscounted";
  }
  std::string verify() const {
    return verify([this](RunId r) { return listed(r); });
  }

  std::size_t bytes() const { return nodes_.size() * sizeof(Node); }

 private:
  struct Node {          // of run r: at r + 1; then the ends of the queues
    std::uint32_t next;  // 0: not listed
    std::uint32_t previous;
    std::uint32_t blocks;
    std::uint32_t queue;
  };

  Node& node(RunId r) { return nodes_[r + 1]; }
  const Node& node(RunId r) const { return nodes_[r + 1]; }
  Node& end(std::uint32_t q) { return nodes_[ends_ + q]; }

  void insert_before(std::uint32_t place, RunId r) {
    Node& n = node(r);
    n.next = place;
    n.previous = nodes_[place].previous;
    nodes_[n.previous].next = nodes_[place].previous = r + 1;
  }

  const RunTable& runs_;
  std::uint32_t ends_;  // where the ends begin
  LazyArray<Node> nodes_;
};

// What policies over RunQueues share. Derived classes override attach(), call order_by() in it, and say what a hit and
// a stored run mean. Held runs keep their place, unless a derived class says otherwise.
class RunQueuePolicy : public Policy {
 public:
  void on_referenced(std::span<const RunId> /*runs*/) override {}
  void on_evictable(std::span<const RunId> runs, const RequestInfo& /*info*/) override {
    for (const RunId r : runs) keep_place(r);
  }
  void on_split(RunId head, RunId tail) override { queues_->split(head, tail); }
  void on_dropped(std::span<const RunId> runs) override {
    for (const RunId r : runs) queues_->leave(r);
  }
  void on_forgotten(RunId run) override { queues_->leave(run); }
  void on_uncovered(RunId run) override {
    if (!queues_->listed(run)) queues_->prepend(run);
  }
  void on_trimmed(RunId run) override { queues_->recount(run); }
  std::string verify() const override { return queues_->verify(); }
  std::size_t bytes() const override { return queues_->bytes(); }

 protected:
  void order_by(const RunTable& runs, std::uint32_t queues) {
    runs_ = &runs;
    queues_.emplace(runs, queues);
  }

  // A share of the pool, in blocks.
  std::uint32_t share_of_pool(double share) const {
    return static_cast<std::uint32_t>(std::min(share * runs_->capacity, double{UINT32_MAX}));
  }

  // For a queue whose order a hit does not change.
  void keep_place(RunId r) {
    queues_->recount(r);
    if (runs_->children[r] == 0) on_uncovered(r);
  }

  // For a queue in the order in which runs were last let go of.
  void place_last(RunId r) {
    queues_->unlist(r);
    queues_->recount(r);
    queues_->append(r);
  }

  const RunTable* runs_ = nullptr;
  std::optional<RunQueues> queues_;
};

}  // namespace kvopt
