// PolicyOrder: which block stands behind which.
#include <algorithm>
#include <string>

#include "engine/policy_order.hpp"

namespace kvopt {

bool PolicyOrder::follows(BlockId front, BlockId b) const {
  return front != kNoBlock && live(front) && live(b) && group_[front] == group_[b] &&
         runs_.depth[front] + 1 == runs_.depth[b] && std::ranges::find(flat_groups_, group_[b]) == flat_groups_.end();
}

// Puts b, which has no parent, behind `front`.
void PolicyOrder::link(BlockId b, BlockId front) {
  const BlockId first = first_child_[front];
  next_sibling_[b] = first;
  previous_sibling_[b] = 0;
  if (first != 0) previous_sibling_[first - 1] = b + 1;
  first_child_[front] = b + 1;
  runs_.parent[b] = front;
  ++runs_.children[front];
  if (runs_.references[b] > 0) ++held_children_[front];
}

// Takes b from behind its parent, which is returned.
RunId PolicyOrder::detach(BlockId b) {
  const RunId front = runs_.parent[b];
  if (front == kNoRun) return kNoRun;
  if (const BlockId before = previous_sibling_[b]; before != 0) {
    next_sibling_[before - 1] = next_sibling_[b];
  } else {
    first_child_[front] = next_sibling_[b];
  }
  if (const BlockId after = next_sibling_[b]; after != 0) previous_sibling_[after - 1] = previous_sibling_[b];
  runs_.parent[b] = kNoRun;
  if (runs_.references[b] > 0) --held_children_[front];
  --runs_.children[front];
  return front;
}

void PolicyOrder::cut(BlockId b) {
  const RunId front = detach(b);
  if (front != kNoRun && runs_.is_victim(front) && !failed()) policy_->on_uncovered(front);
}

void PolicyOrder::cut_children(BlockId b, bool held_only) {
  for (BlockId next = first_child_[b]; next != 0;) {
    const BlockId child = next - 1;
    next = next_sibling_[child];
    if (!held_only || runs_.references[child] > 0) detach(child);
  }
}

std::string PolicyOrder::verify_links() const {
  for (BlockId b = 0; b < runs_.used; ++b) {
    if (!live(b)) continue;
    const std::string name = "block " + std::to_string(b);
    std::uint32_t children = 0;
    std::uint32_t held = 0;
    for (BlockId next = first_child_[b]; next != 0; next = next_sibling_[next - 1]) {
      const BlockId child = next - 1;
      if (!live(child) || runs_.parent[child] != b) return name + " has a child that is not behind it";
      held += runs_.references[child] > 0 ? 1 : 0;
      if (++children > runs_.children[b]) break;
    }
    if (children != runs_.children[b] || held != held_children_[b]) return name + " miscounts its children";
    if (held > 0 && runs_.references[b] == 0) return name + " is free and something behind it is held";
    if (const RunId front = runs_.parent[b]; front != kNoRun && !follows(front, b)) {
      return name + " is behind a block that it does not follow";
    }
  }
  return {};
}

}  // namespace kvopt
