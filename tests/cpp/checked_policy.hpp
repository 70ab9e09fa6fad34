// A policy in front of another one that checks the pool's side of the contract (kvopt/policy.hpp) at every hook, and,
// when asked to, breaks its own side now and then.
#pragma once

#include <memory>
#include <random>
#include <set>
#include <string>
#include <utility>

#include "check.hpp"
#include "kvopt/policy.hpp"

namespace kvopt::test {

class CheckedPolicy final : public Policy {
 public:
  // faulty: about one choice in twelve names a run that is no victim, or no run at all.
  CheckedPolicy(std::unique_ptr<Policy> policy, bool faulty, std::uint64_t seed)
      : policy_(std::move(policy)), faulty_(faulty), random_(seed) {}

  void attach(const PolicyContext& context) override {
    CHECK(runs_ == nullptr);
    runs_ = &context.runs;
    prefix_ = context.rule == Rule::kPrefix;
    policy_->attach(context);
  }

  void on_miss(std::uint64_t key, const RequestInfo& info) override { policy_->on_miss(key, info); }

  void on_hit(std::span<const RunId> hit, const RequestInfo& info) override {
    check_order(hit);
    policy_->on_hit(hit, info);
  }

  void on_stored(std::span<const RunId> stored, const RequestInfo& info) override {
    check_order(stored);
    for (const RunId r : stored) CHECK(runs_->references[r] == 1 && runs_->hits[r] == 0 && !evictable_.contains(r));
    policy_->on_stored(stored, info);
  }

  void on_split(RunId head, RunId tail) override {
    CHECK_EQUAL(runs_->parent[tail], head);
    CHECK_EQUAL(runs_->end(head), runs_->depth[tail]);
    CHECK_EQUAL(runs_->evictable(tail), evictable_.contains(tail));
    if (evictable_.contains(tail)) evictable_.insert(head);
    policy_->on_split(head, tail);
  }

  void on_referenced(std::span<const RunId> runs) override {
    check_order(runs);
    for (const RunId r : runs) CHECK_EQUAL(evictable_.erase(r), 1U);
    policy_->on_referenced(runs);
  }

  void on_evictable(std::span<const RunId> runs, const RequestInfo& info) override {
    check_order(runs);
    for (const RunId r : runs) CHECK(runs_->evictable(r) && evictable_.insert(r).second);
    policy_->on_evictable(runs, info);
  }

  void on_dropped(std::span<const RunId> runs) override {
    CHECK(!runs.empty());
    for (const RunId r : runs) CHECK_EQUAL(evictable_.erase(r), 1U);
    policy_->on_dropped(runs);
  }

  void on_uncovered(RunId run) override {
    CHECK(evictable_.contains(run) && runs_->is_victim(run));
    policy_->on_uncovered(run);
  }

  void on_trimmed(RunId run) override {
    CHECK(evictable_.contains(run) && runs_->is_victim(run) && runs_->length[run] > 0);
    policy_->on_trimmed(run);
  }

  void on_evicted(RunId run, std::uint64_t key, std::uint32_t blocks) override {
    CHECK(blocks > 0 && blocks <= runs_->length[run]);
    policy_->on_evicted(run, key, blocks);
  }

  void on_forgotten(RunId run) override {
    CHECK(!evictable_.contains(run));
    policy_->on_forgotten(run);
  }

  void on_priority(RunId run) override { policy_->on_priority(run); }
  bool honours_priority() const override { return policy_->honours_priority(); }
  void check() const override { policy_->check(); }
  std::size_t bytes() const override { return policy_->bytes(); }

  RunId choose(std::uint32_t wanted, Time now) override {
    std::uint32_t can_go = 0;
    for (const RunId r : evictable_) can_go += runs_->length[r];
    CHECK(wanted > 0 && wanted <= can_go);
    if (faulty_ && random_() % 12 == 0) {
      const auto r = static_cast<RunId>(random_() % (runs_->capacity + 2));
      if (r >= runs_->used || !runs_->is_victim(r)) return r;
    }
    return policy_->choose(wanted, now);
  }

  std::uint32_t expendable(RunId run) const override { return policy_->expendable(run); }

  // What was announced is what is evictable, and so is all that is behind it.
  std::string verify() const override {
    for (RunId r = 0; r < runs_->used; ++r) {
      const std::string run = "run " + std::to_string(r);
      if (runs_->evictable(r) != evictable_.contains(r)) return run + " was not announced rightly";
      const bool live = (runs_->flags[r] & run_flag::kLive) != 0;
      if (live && runs_->parent[r] != kNoRun && runs_->evictable(runs_->parent[r]) && !runs_->evictable(r)) {
        return run + " is not evictable, but stands behind an evictable one";
      }
    }
    return policy_->verify();
  }

 private:
  // Runs of one request, the deepest first.
  void check_order(std::span<const RunId> runs) const {
    CHECK(!runs.empty());
    if (!prefix_) return;
    for (std::size_t i = 1; i < runs.size(); ++i) {
      RunId front = runs_->parent[runs[i - 1]];
      while (front != kNoRun && front != runs[i]) front = runs_->parent[front];
      CHECK_EQUAL(front, runs[i]);
    }
  }

  const RunTable* runs_ = nullptr;
  bool prefix_ = true;
  std::unique_ptr<Policy> policy_;
  bool faulty_;
  std::mt19937_64 random_;
  std::set<RunId> evictable_;
};

}  // namespace kvopt::test
