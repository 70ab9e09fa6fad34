// A policy whose order is a number that a C function gives each run; the lowest is evicted first, among equals the one
// that was ranked first.
//
// Structure: a heap of leaves by (rank, order of ranking). Complexity: one call and O(log leaves) a run that is let go
// of. 36 bytes a run, allocated in attach().
#pragma once

#include <optional>
#include <string>

#include "core/ranked_heap.hpp"
#include "kvopt/kvopt.h"
#include "kvopt/policy.hpp"

namespace kvopt::capi {

class RankPolicy final : public Policy {
 public:
  // Throws Refusal without a function that ranks.
  explicit RankPolicy(const kvopt_policy_functions& functions);
  RankPolicy(const RankPolicy&) = delete;
  RankPolicy& operator=(const RankPolicy&) = delete;
  ~RankPolicy() override;

  void attach(const PolicyContext& context) override;
  void on_split(RunId head, RunId tail) override { heap_->copy_rank(tail, head); }
  void on_referenced(std::span<const RunId> /*runs*/) override {}
  void on_evictable(std::span<const RunId> runs, const RequestInfo& info) override;
  void on_dropped(std::span<const RunId> runs) override { heap_->remove(runs); }
  void on_forgotten(RunId run) override { heap_->remove({&run, 1}); }
  void on_uncovered(RunId run) override { heap_->place(run); }
  void on_priority(RunId run) override;
  bool honours_priority() const override { return true; }
  RunId choose(std::uint32_t wanted, Time now) override;
  void check() const override;
  std::string verify() const override { return heap_->verify_all(); }
  std::size_t bytes() const override { return heap_->bytes(); }

 private:
  struct Rank {
    double value;
    std::uint64_t ranked;

    bool operator<(const Rank& other) const {
      return value != other.value ? value < other.value : ranked < other.ranked;
    }
  };

  void rank(RunId run);

  kvopt_policy_functions functions_;
  const RunTable* runs_ = nullptr;
  Time now_ = 0;  // the latest that a hook was told
  std::uint64_t ranked_ = 0;
  RunId failed_ = kNoRun;  // the first run whose rank was no number
  std::optional<RankedHeap<Rank>> heap_;
};

}  // namespace kvopt::capi
