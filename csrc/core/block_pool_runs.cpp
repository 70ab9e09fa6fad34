// BlockPool: the life of a run. Storing, lengthening, splitting, giving up.
#include <algorithm>
#include <cstring>

#include "core/block_pool_storage.hpp"

namespace kvopt {

namespace {

// Moves the next pending blocks of an allocation and their keys into slots.
void fill(SlotArena& arena, Extent e, const Keys& keys, std::size_t i, std::uint32_t key_bytes,
          const BlockId* pending) {
  std::copy_n(keys.hashes + i, e.count, arena.keys(e.first));
  std::copy_n(pending, e.count, arena.blocks(e.first));
  if (key_bytes > 0) {
    std::memcpy(arena.key_bytes(e.first), keys.bytes + i * key_bytes, std::size_t{e.count} * key_bytes);
  }
}

}  // namespace

RunId BlockPool::new_run(RunId parent, std::uint32_t depth) {
  RunId r = first_free_run_;
  if (r != kNoRun) {
    first_free_run_ = runs_.parent[r];
  } else {
    r = runs_.used++;
  }
  runs_.parent[r] = parent;
  runs_.depth[r] = depth;
  runs_.children[r] = 0;
  runs_.references[r] = 1;
  runs_.hits[r] = 0;
  runs_.last_use[r] = 0;
  runs_.priority[r] = kDefaultPriority;
  runs_.flags[r] = run_flag::kLive;
  return r;
}

// The next blocks of a request go at the end of the run that it stored last, as long as they share its state.
std::uint32_t BlockPool::extend_own_tail(Allocation& allocation, const Keys& keys, std::size_t i) {
  const RunId r = allocation.tail_;
  if (!allocation.own_tail_ || options_.rule == Rule::kFlat || runs_.references[r] != 1 || runs_.hits[r] != 0 ||
      runs_.children[r] != 0 || runs_.priority[r] != kDefaultPriority ||
      (runs_.flags[r] & (run_flag::kDuplicate | run_flag::kForgotten)) != 0) {
    return 0;
  }
  SlotArena& arena = storage_->arena;
  const std::uint32_t end = runs_.first_slot[r] + runs_.length[r];
  const std::uint32_t count = arena.extend(end, static_cast<std::uint32_t>(keys.count - i));
  fill(arena, {end, count}, keys, i, options_.key_bytes, allocation.pending_.data() + allocation.next_pending_);
  runs_.length[r] += count;
  allocation.committed_ += count;
  allocation.next_pending_ += count;
  return count;
}

// Whether another run may begin with this key. A duplicate is stored block by block, each in the index, so that it is
// found wherever the first copy ends.
bool BlockPool::is_duplicate(RunId parent, const Keys& keys, std::size_t i, std::uint32_t depth) const {
  if (parent != kNoRun) {
    if ((runs_.flags[parent] & run_flag::kDuplicate) != 0) return true;
    if (runs_.children[parent] == 0) return false;  // nothing else can stand behind the parent
  }
  return storage_->index.find(keys.hashes[i],
                              [&](RunId r) { return runs_.depth[r] == depth && same_key(r, keys, i); }) != kNoRun;
}

// Stores blocks from keys[i] on as one new run; returns how many.
std::uint32_t BlockPool::store_run(Allocation& allocation, const Keys& keys, std::size_t i) {
  const bool flat = options_.rule == Rule::kFlat;
  const RunId parent = flat ? kNoRun : allocation.tail_;
  const std::uint32_t depth = allocation.committed_;
  const bool forgotten = parent != kNoRun && (runs_.flags[parent] & run_flag::kForgotten) != 0;
  const bool duplicate = !flat && !forgotten && is_duplicate(parent, keys, i, depth);
  SlotArena& arena = storage_->arena;
  const Extent e = arena.allocate(flat || duplicate ? 1 : static_cast<std::uint32_t>(keys.count - i));
  fill(arena, e, keys, i, options_.key_bytes, allocation.pending_.data() + allocation.next_pending_);

  const RunId r = new_run(parent, depth);
  runs_.first_slot[r] = e.first;
  runs_.length[r] = e.count;
  if (parent != kNoRun) ++runs_.children[parent];
  if (forgotten) {  // behind what cannot be hit nothing can
    runs_.flags[r] |= run_flag::kForgotten;
  } else {
    if (duplicate) runs_.flags[r] |= run_flag::kDuplicate;
    storage_->index.insert(r);
  }
  if (!forgotten) changed_.push_back(r);
  if (flat) allocation.flat_.push_back(r);
  allocation.tail_ = r;
  allocation.own_tail_ = true;
  allocation.committed_ += e.count;
  allocation.next_pending_ += e.count;
  return e.count;
}

// Gives the first `at` blocks of r to a new run in front of it, which is returned. Whoever holds r holds both.
RunId BlockPool::split(RunId r, std::uint32_t at) {
  const RunId head = new_run(runs_.parent[r], runs_.depth[r]);
  runs_.first_slot[head] = runs_.first_slot[r];
  runs_.length[head] = at;
  const bool forgotten = (runs_.flags[r] & run_flag::kForgotten) != 0;
  runs_.children[head] = 1;
  runs_.references[head] = runs_.references[r];
  if (runs_.leases[r] > 0) runs_.leases[head] = runs_.leases[r];
  runs_.hits[head] = runs_.hits[r];
  runs_.last_use[head] = runs_.last_use[r];
  runs_.priority[head] = runs_.priority[r];
  runs_.flags[head] = runs_.flags[r];
  if (!forgotten) storage_->index.replace(r, head);
  runs_.parent[r] = head;
  runs_.first_slot[r] += at;
  runs_.length[r] -= at;
  runs_.depth[r] += at;
  if (!forgotten) storage_->index.insert(r);
  if (storage_->retentions) storage_->retentions->copy(r, head);
  if (!forgotten) policy_->on_split(head, r);
  return head;
}

// The run on the path to `tail` that ends after exactly `blocks` blocks of the prefix; splits one where needed.
RunId BlockPool::cut_at(RunId tail, std::uint32_t blocks) {
  RunId r = tail;
  while (runs_.depth[r] >= blocks) r = runs_.parent[r];
  const std::uint32_t at = blocks - runs_.depth[r];
  return at == runs_.length[r] ? r : split(r, at);
}

// The id of a run that no request can find any more and whose slots are free becomes reusable.
void BlockPool::free_run(RunId r) {
  runs_.flags[r] = 0;
  if (storage_->retentions) storage_->retentions->drop(r);
  runs_.parent[r] = first_free_run_;
  first_free_run_ = r;
}

// A run that no request can find and nobody holds, with nothing behind it, becomes empty blocks.
void BlockPool::give_up(RunId r) {
  const RunId up = runs_.parent[r];
  if (up != kNoRun) --runs_.children[up];
  const Extent slots{runs_.first_slot[r], runs_.length[r]};
  const BlockId* blocks = storage_->arena.blocks(slots.first);
  for (const BlockId b : std::span(blocks, slots.count)) storage_->empty.add(b);
  storage_->arena.release(slots);
  free_run(r);
}

}  // namespace kvopt
