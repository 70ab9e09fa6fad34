#include "engine/policy_order.hpp"

#include <algorithm>
#include <exception>
#include <ranges>
#include <string>

#include "kvopt/engine_pool.hpp"
#include "kvopt/error.hpp"

namespace kvopt {

PolicyOrder::PolicyOrder(const EngineOptions& options, std::unique_ptr<Policy> policy,
                         const LazyArray<std::int32_t>& references)
    : table_(std::make_shared<RunTable>(options.blocks)),
      runs_(*table_),
      policy_(std::move(policy)),
      references_(references),
      empty_(options.blocks),
      lru_(options.blocks),
      keys_(options.blocks),
      first_child_(options.blocks),
      next_sibling_(options.blocks),
      previous_sibling_(options.blocks),
      held_children_(options.blocks),
      group_(options.blocks) {
  runs_.slot_keys = keys_.data();
  policy_->attach({runs_, Rule::kPrefix, options.block_tokens, options.p_star});
  for (BlockId b = 1; b < options.blocks; ++b) empty_.append(b);
}

bool PolicyOrder::contains(BlockId block) const { return empty_.contains(block) || runs_.evictable(block); }

void PolicyOrder::on_stored(std::span<const StoredBlock> stored, const RequestInfo& info) {
  changed_.clear();
  for (const StoredBlock& s : stored) {
    const BlockId b = s.block;
    runs_.used = std::max(runs_.used, b + 1);
    runs_.parent[b] = kNoRun;
    keys_[b] = s.key;
    runs_.first_slot[b] = b;
    first_child_[b] = 0;
    runs_.length[b] = 1;
    runs_.depth[b] = s.depth;
    runs_.children[b] = 0;
    runs_.references[b] = table_references(b, 1);
    runs_.hits[b] = 0;
    runs_.last_use[b] = 0;
    runs_.priority[b] = kDefaultPriority;
    runs_.flags[b] = run_flag::kLive;
    held_children_[b] = 0;
    group_[b] = s.group;
    if (follows(s.before, b) && runs_.references[s.before] > 0) link(b, s.before);
    changed_.push_back(b);
  }
  std::ranges::reverse(changed_);
  if (!changed_.empty() && !failed()) policy_->on_stored(changed_, info);
}

void PolicyOrder::on_held(std::span<const BlockId> blocks, bool hit, const RequestInfo& info) {
  path_.clear();
  for (const BlockId b : std::views::reverse(blocks)) {
    if (live(b)) path_.push_back(b);
  }
  if (hit && !path_.empty() && !failed()) policy_->on_hit(path_, info);
  changed_.clear();
  for (const BlockId b : path_) {
    if (runs_.evictable(b)) {
      changed_.push_back(b);
      if (lru_.contains(b)) lru_.remove(b);
      if (const RunId front = runs_.parent[b]; front != kNoRun) ++held_children_[front];
    }
    runs_.references[b] = table_references(b, 1);
  }
  evictable_ -= static_cast<std::uint32_t>(changed_.size());
  if (!changed_.empty() && !failed()) policy_->on_referenced(changed_);
  for (const BlockId b : path_) runs_.hits[b] += hit ? 1 : 0;
  BlockId front = kNoBlock;
  for (const BlockId b : blocks) {
    if (empty_.contains(b)) empty_.remove(b);
    if (follows(front, b) && runs_.parent[b] != front) {
      cut(b);
      link(b, front);
    }
    front = b;
  }
  for (const BlockId b : changed_) {
    if (const RunId up = runs_.parent[b]; up != kNoRun && runs_.references[up] == 0) cut(b);
  }
}

void PolicyOrder::on_released(std::span<const BlockId> blocks, std::span<const BlockId> empty,
                              std::span<const BlockId> cached, const RequestInfo& info) {
  for (const BlockId b : blocks) {
    if (!live(b)) continue;
    runs_.references[b] = table_references(b, 0);
    runs_.last_use[b] = info.now;
  }
  changed_.assign(cached.begin(), cached.end());
  for (const BlockId b : changed_) {
    if (const RunId front = runs_.parent[b]; front != kNoRun) --held_children_[front];
  }
  for (std::size_t i = 0; i + 1 < blocks.size(); ++i) {  // what was cut off while it was held
    const BlockId b = blocks[i];
    if (live(b) && runs_.references[b] == 0 && runs_.parent[b] == kNoRun && follows(blocks[i + 1], b)) {
      link(b, blocks[i + 1]);
    }
  }
  bool leaf_first = true;
  for (std::size_t i = 0; i < changed_.size(); ++i) {
    if (held_children_[changed_[i]] > 0) cut_children(changed_[i], true);
    leaf_first = leaf_first && (i == 0 || runs_.parent[changed_[i]] != changed_[i - 1]);
  }
  if (!leaf_first) {
    std::ranges::stable_sort(changed_, [this](BlockId a, BlockId b) { return runs_.depth[a] > runs_.depth[b]; });
  }
  evictable_ += static_cast<std::uint32_t>(changed_.size());
  if (failed()) {
    for (const BlockId b : changed_) lru_.append(b);
  } else if (!changed_.empty()) {
    policy_->on_evictable(changed_, info);
  }
  empty_.prepend(empty);
}

void PolicyOrder::on_released_last(std::span<const BlockId> blocks, const RequestInfo& info) {
  path_.clear();
  for (const BlockId b : blocks) {
    if (live(b)) {
      path_.push_back(b);
    } else {
      empty_.append(b);
    }
  }
  on_released(path_, {}, path_, info);
}

void PolicyOrder::on_recounted(BlockId block) {
  if (!live(block) || runs_.evictable(block)) return;
  runs_.references[block] = table_references(block, 1);
}

void PolicyOrder::on_miss(std::uint64_t key, const RequestInfo& info) {
  if (!failed()) policy_->on_miss(key, info);
}

void PolicyOrder::set_priority(BlockId block, std::uint8_t priority) {
  if (!live(block) || runs_.priority[block] == priority) return;
  runs_.priority[block] = priority;
  if (!failed()) policy_->on_priority(block);
}

void PolicyOrder::retire(BlockId b) { runs_.flags[b] = 0; }

void PolicyOrder::on_forgotten(BlockId block) {
  if (!live(block)) return;
  const bool free = runs_.evictable(block);
  if (free) {
    --evictable_;
    if (failed()) {
      lru_.remove(block);
    } else {
      policy_->on_dropped({&block, 1});
    }
  }
  runs_.flags[block] |= run_flag::kForgotten;
  if (!failed()) policy_->on_forgotten(block);
  cut_children(block, false);
  cut(block);
  retire(block);
  if (free) empty_.append(block);
}

void PolicyOrder::take(std::span<BlockId> out, const RequestInfo& info) {
  const std::size_t ready = std::min<std::size_t>(out.size(), empty_.size());
  for (BlockId& b : out.first(ready)) b = empty_.pop();
  const std::span<BlockId> victims = out.subspan(ready);
  if (victims.empty()) return;
  evictable_ -= static_cast<std::uint32_t>(victims.size());
  choose(victims, info.now);
  for (const BlockId b : victims) {
    if (!failed()) policy_->on_evicted(b, keys_[b], 1);
    retire(b);
  }
}

void PolicyOrder::choose(std::span<BlockId> out, Time now) {
  std::size_t chosen = 0;
  if (!failed()) {
    try {
      policy_->check();
      for (; chosen < out.size(); ++chosen) {
        const RunId r = policy_->choose(static_cast<std::uint32_t>(out.size() - chosen), now);
        if (r >= runs_.used || !runs_.is_victim(r)) {
          throw PolicyError("the policy chose run " + std::to_string(r) + ", which is no victim");
        }
        policy_->on_dropped({&r, 1});
        runs_.flags[r] |= run_flag::kChosen;
        cut(r);
        out[chosen] = r;
      }
    } catch (const std::exception& e) {
      fail(e.what());
    }
  }
  for (; chosen < out.size(); ++chosen) {
    const BlockId b = lru_.pop();
    cut_children(b, false);
    cut(b);
    out[chosen] = b;
  }
}

void PolicyOrder::fail(const std::string& what) {
  failure_ = what.empty() ? "the policy failed" : what;
  for (const BlockId b : by_last_use()) lru_.append(b);
}

std::vector<BlockId> PolicyOrder::by_last_use() const {
  std::vector<BlockId> blocks;
  for (BlockId b = 0; b < runs_.used; ++b) {
    if (runs_.evictable(b)) blocks.push_back(b);
  }
  std::ranges::sort(blocks, [this](BlockId a, BlockId b) {
    if (runs_.last_use[a] != runs_.last_use[b]) return runs_.last_use[a] < runs_.last_use[b];
    return runs_.depth[a] != runs_.depth[b] ? runs_.depth[a] > runs_.depth[b] : a < b;
  });
  return blocks;
}

std::vector<BlockId> PolicyOrder::listing() const {
  std::vector<BlockId> blocks;
  const auto add = [&](const FreeQueue& queue) {
    for (BlockId b = queue.size() > 0 ? queue.front() : kNoBlock; b != kNoBlock; b = queue.next(b)) blocks.push_back(b);
  };
  add(empty_);
  if (failed()) {
    add(lru_);
  } else {
    const std::vector<BlockId> cached = by_last_use();
    blocks.insert(blocks.end(), cached.begin(), cached.end());
  }
  return blocks;
}

std::string PolicyOrder::verify() const {
  if (std::string broken = verify_links(); !broken.empty()) return broken;
  std::uint32_t evictable = 0;
  for (BlockId b = 0; b < runs_.used; ++b) {
    evictable += runs_.evictable(b) ? 1 : 0;
    if (live(b) && empty_.contains(b)) return "block " + std::to_string(b) + " is cached and among the empty ones";
    if (failed() && lru_.contains(b) != runs_.evictable(b)) return "block " + std::to_string(b) + " is misplaced";
  }
  if (evictable != evictable_) return "evictable blocks are miscounted";
  return failed() ? std::string() : policy_->verify();
}

std::size_t PolicyOrder::bytes() const {
  constexpr std::size_t kLinks = 5 * sizeof(std::uint32_t) + sizeof(std::uint64_t);
  return runs_.bytes(false) + runs_.capacity * kLinks + empty_.bytes() + lru_.bytes() + policy_->bytes();
}

}  // namespace kvopt
