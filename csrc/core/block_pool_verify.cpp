// BlockPool::verify: every invariant of the pool, checked in full and reported, never aborting.
#include <string>
#include <utility>

#include "core/block_pool_storage.hpp"

namespace kvopt {

namespace {

class Report {
 public:
  void add(std::string line) {
    if (lines_.size() < kMost) lines_.push_back(std::move(line));
  }
  void add(RunId r, const std::string& what) { add("run " + std::to_string(r) + ": " + what); }
  void expect(const char* what, std::uint64_t counted, std::uint64_t kept) {
    if (counted == kept) return;
    add(std::string(what) + ": " + std::to_string(counted) + " counted, " + std::to_string(kept) + " kept");
  }
  std::vector<std::string> lines() && { return std::move(lines_); }

 private:
  static constexpr std::size_t kMost = 20;
  std::vector<std::string> lines_;
};

// The tree: what hangs together with the parent.
void verify_parent(const RunTable& runs, RunId r, Report& report) {
  const RunId up = runs.parent[r];
  const bool forgotten = (runs.flags[r] & run_flag::kForgotten) != 0;
  if ((runs.flags[up] & run_flag::kLive) == 0) report.add(r, "its parent " + std::to_string(up) + " is not live");
  if (runs.depth[r] != runs.depth[up] + runs.length[up]) report.add(r, "it does not begin where its parent ends");
  if (runs.references[r] > 0 && runs.references[up] == 0) report.add(r, "it is held, its parent is not");
  if (runs.leases[r] > 0 && runs.leases[up] == 0) report.add(r, "it is leased, its parent is not");
  if (!forgotten && (runs.flags[up] & run_flag::kForgotten) != 0) report.add(r, "its parent is forgotten, it is not");
  if (runs.hits[r] > runs.hits[up]) report.add(r, "it was hit more often than its parent");
}

}  // namespace

std::vector<std::string> BlockPool::verify() const {
  Report report;
  const SlotArena& arena = storage_->arena;
  std::uint64_t evictable = 0;
  std::uint64_t leased = 0;
  std::uint64_t charged = 0;
  std::uint64_t indexed = 0;
  std::uint64_t slots = 0;
  std::vector<std::uint32_t> children(runs_.used);
  std::vector<bool> used_id(options_.capacity);
  const auto use_id = [&](BlockId b, const char* where) {
    if (b >= options_.capacity || used_id[b]) {
      report.add("block " + std::to_string(b) + " in " + where + " is out of range or stands elsewhere too");
    } else {
      used_id[b] = true;
    }
  };

  for (RunId r = 0; r < runs_.used; ++r) {
    const std::uint8_t flags = runs_.flags[r];
    if ((flags & run_flag::kLive) == 0) continue;
    const std::uint32_t length = runs_.length[r];
    slots += length;
    if (length == 0) report.add(r, "it is empty");
    if ((flags & run_flag::kChosen) != 0) report.add(r, "it is left marked as chosen");
    for (std::uint32_t i = 0; i < length; ++i) use_id(arena.blocks(runs_.first_slot[r])[i], "a run");
    if (runs_.leases[r] > runs_.references[r]) report.add(r, "it has more leases than references");
    if (runs_.leases[r] > 0) charged += length;
    if (runs_.references[r] == 0) {
      evictable += length;
      if ((flags & run_flag::kForgotten) != 0) report.add(r, "nobody holds it and it cannot be hit, yet it is kept");
    } else if (runs_.references[r] == runs_.leases[r]) {
      leased += length;
    }
    const RunId up = runs_.parent[r];
    if (up != kNoRun) {
      ++children[up];
      verify_parent(runs_, r, report);
    } else if (options_.rule == Rule::kPrefix && runs_.depth[r] != 0) {
      report.add(r, "it has no parent, but does not begin a prefix");
    }
    if ((flags & run_flag::kForgotten) == 0) {
      ++indexed;
      if (!storage_->index.contains(r)) report.add(r, "it is not in the index");
    }
    if ((flags & run_flag::kDuplicate) != 0 && length != 1) report.add(r, "a duplicate is longer than a block");
  }
  for (RunId r = 0; r < runs_.used; ++r) {
    if ((runs_.flags[r] & run_flag::kLive) != 0 && children[r] != runs_.children[r])
      report.add(r, "its children are miscounted");
  }
  std::uint32_t empty = 0;
  for (BlockId b = 0; b < options_.capacity; ++b) {
    if (!storage_->empty.contains(b)) continue;
    use_id(b, "the empty blocks");
    ++empty;
  }

  report.expect("empty blocks", empty, storage_->empty.size());
  report.expect("evictable blocks", evictable, evictable_);
  report.expect("leased blocks", leased, leased_);
  report.expect("blocks charged to leases", charged, charged_);
  report.expect("runs in the index", indexed, storage_->index.size());
  report.expect("slots in use", slots, arena.slots() - arena.free_slots());
  if (charged_ > options_.lease_budget) report.add("leases exceed their budget");
  if (storage_->empty.size() + evictable_ + leased_ > options_.capacity)
    report.add("more blocks are free than there are");
  if (std::string broken = arena.verify(); !broken.empty()) report.add("the slots: " + broken);
  if (std::string broken = policy_->verify(); !broken.empty()) report.add("the policy: " + broken);
  return std::move(report).lines();
}

}  // namespace kvopt
