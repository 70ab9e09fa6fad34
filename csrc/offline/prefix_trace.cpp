#include "kvopt/prefix_trace.hpp"

#include <algorithm>
#include <numeric>
#include <string>
#include <utility>

#include "kvopt/error.hpp"

namespace kvopt {

PrefixTrace::PrefixTrace(std::vector<std::int32_t> parent, std::vector<std::uint32_t> shared,
                         std::vector<std::uint32_t> fresh)
    : parent_(std::move(parent)), shared_(std::move(shared)), fresh_(std::move(fresh)) {
  const std::size_t n = parent_.size();
  if (shared_.size() != n || fresh_.size() != n) {
    throw TraceError("parent, shared and new block counts differ in length: " + std::to_string(n) + ", " +
                     std::to_string(shared_.size()) + ", " + std::to_string(fresh_.size()));
  }
  first_.assign(n + 1, 0);
  std::uint64_t blocks = 0;
  for (std::size_t r = 0; r < n; ++r) {
    const std::int32_t p = parent_[r];
    if (p < -1 || p >= static_cast<std::int64_t>(r)) {
      throw TraceError("request " + std::to_string(r) + ": its parent " + std::to_string(p) +
                       " is not an earlier request");
    }
    const std::uint64_t available = p < 0 ? 0 : std::uint64_t{shared_[p]} + fresh_[p];
    if (shared_[r] > available) {
      throw TraceError("request " + std::to_string(r) + ": shares " + std::to_string(shared_[r]) +
                       " blocks of a parent that has " + std::to_string(available));
    }
    first_[r] = blocks;
    blocks += fresh_[r];
    const std::uint64_t length = std::uint64_t{shared_[r]} + fresh_[r];
    if (length >= kNoBlock || blocks >= kNoBlock) {
      throw TraceError("request " + std::to_string(r) + ": more than " + std::to_string(kNoBlock - 1) +
                       " distinct blocks");
    }
    references_ += length;
    longest_ = std::max(longest_, static_cast<std::uint32_t>(length));
  }
  first_[n] = blocks;
}

void PrefixTrace::ranges(std::size_t r, std::vector<BlockRange>& out) const {
  out.clear();
  std::uint32_t want = length(r);
  while (want > 0) {
    if (want > shared_[r]) {
      out.push_back({first_block(r), want - shared_[r]});
      want = shared_[r];
    }
    if (want > 0) r = static_cast<std::size_t>(parent_[r]);
  }
  std::ranges::reverse(out);
}

void PrefixTrace::chain(std::size_t r, std::span<std::uint32_t> out) const {
  std::uint32_t want = length(r);
  while (want > 0) {
    if (want > shared_[r]) {
      std::iota(out.begin() + shared_[r], out.begin() + want, first_block(r));
      want = shared_[r];
    }
    if (want > 0) r = static_cast<std::size_t>(parent_[r]);
  }
}

PrefixTrace PrefixTrace::reordered(std::span<const std::int64_t> order) const {
  const std::size_t n = requests();
  std::vector<bool> seen(n, false);
  if (order.size() != n) {
    throw TraceError("an order of " + std::to_string(order.size()) + " requests for a trace of " + std::to_string(n));
  }
  PrefixTraceBuilder builder;
  std::vector<std::uint32_t> blocks(longest_);
  std::vector<std::uint64_t> ids(longest_);
  for (const std::int64_t r : order) {
    if (r < 0 || static_cast<std::uint64_t>(r) >= n || seen[static_cast<std::size_t>(r)]) {
      throw TraceError("order: " + std::to_string(r) + " is repeated or not in 0.." + std::to_string(n));
    }
    const auto request = static_cast<std::size_t>(r);
    seen[request] = true;
    chain(request, blocks);
    std::copy_n(blocks.begin(), length(request), ids.begin());
    builder.append(std::span(ids).first(length(request)));
  }
  return std::move(builder).finish();
}

std::size_t PrefixTraceBuilder::EdgeHash::operator()(const Edge& edge) const noexcept {
  std::uint64_t x = edge.id * 0x9E3779B97F4A7C15u + ((std::uint64_t{edge.node} << 32) | edge.scope);
  x ^= x >> 32;
  x *= 0xD6E8FEB86659FD93u;
  x ^= x >> 32;
  return x;
}

std::uint32_t PrefixTraceBuilder::append(std::span<const std::uint64_t> ids, std::uint32_t scope) {
  if (ids.size() + id_.size() >= kNoBlock || parent_.size() >= std::size_t{1} << 31) {
    throw TraceError("a trace holds at most " + std::to_string(kNoBlock - 1) +
                     " distinct blocks and 2147483648 requests");
  }
  std::uint32_t node = kNoBlock;
  std::size_t known = 0;
  for (; known < ids.size(); ++known) {
    const std::uint32_t guess = node + 1;  // the block numbered after its parent; 0 after kNoBlock, refused below
    if (node != kNoBlock && guess < id_.size() && up_[guess] == node && id_[guess] == ids[known]) {
      node = guess;
      continue;
    }
    const auto found = branches_.find(Edge{node, node == kNoBlock ? scope : 0, ids[known]});
    if (found == branches_.end()) break;
    node = found->second;
  }
  const auto request = static_cast<std::int32_t>(parent_.size());
  parent_.push_back(node == kNoBlock ? -1 : introduced_by_[node]);
  shared_.push_back(static_cast<std::uint32_t>(known));
  fresh_.push_back(static_cast<std::uint32_t>(ids.size() - known));
  for (std::size_t i = known; i < ids.size(); ++i) {
    const auto fresh = static_cast<std::uint32_t>(id_.size());
    if (node == kNoBlock || fresh != node + 1) {
      branches_.emplace(Edge{node, node == kNoBlock ? scope : 0, ids[i]}, fresh);
    }
    id_.push_back(ids[i]);
    up_.push_back(node);
    introduced_by_.push_back(request);
    node = fresh;
  }
  return static_cast<std::uint32_t>(known);
}

PrefixTrace PrefixTraceBuilder::finish() && { return {std::move(parent_), std::move(shared_), std::move(fresh_)}; }

}  // namespace kvopt
