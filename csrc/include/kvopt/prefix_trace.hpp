// A workload as a prefix tree, in the order in which its requests arrive.
//
// Request r is a chain of blocks: the first shared[r] blocks of an earlier request parent[r], then fresh[r] blocks that
// no request before r had at that place. Blocks are numbered densely in order of first appearance, so the fresh blocks
// of r are the range [first_block(r), first_block(r) + fresh[r]) and need no storage: 54 million references of 28,804
// requests take less than a megabyte.
#pragma once

#include <cstdint>
#include <span>
#include <unordered_map>
#include <vector>

#include "kvopt/export.h"
#include "kvopt/types.hpp"

namespace kvopt {

// A maximal stretch of a chain whose block numbers are consecutive.
struct BlockRange {
  std::uint32_t first;
  std::uint32_t count;
};

class PrefixTrace {
 public:
  PrefixTrace() = default;

  // Takes the three columns as they are. Throws TraceError, naming the request, when a parent is not earlier than its
  // request, when shared exceeds the parent's length, or when there are more than 2^32 - 2 blocks.
  KVOPT_API PrefixTrace(std::vector<std::int32_t> parent, std::vector<std::uint32_t> shared,
                        std::vector<std::uint32_t> fresh);

  std::size_t requests() const { return parent_.size(); }
  std::uint64_t block_references() const { return references_; }
  std::uint32_t unique_blocks() const { return static_cast<std::uint32_t>(first_.back()); }
  std::uint32_t longest_request() const { return longest_; }

  std::int32_t parent(std::size_t r) const { return parent_[r]; }
  std::uint32_t shared(std::size_t r) const { return shared_[r]; }
  std::uint32_t fresh(std::size_t r) const { return fresh_[r]; }
  std::uint32_t length(std::size_t r) const { return shared_[r] + fresh_[r]; }
  std::uint32_t first_block(std::size_t r) const { return static_cast<std::uint32_t>(first_[r]); }

  // The chain of request r from its root, as ranges. Clears `out` first.
  KVOPT_API void ranges(std::size_t r, std::vector<BlockRange>& out) const;

  // The chain of request r, block by block, into out[0, length(r)).
  KVOPT_API void chain(std::size_t r, std::span<std::uint32_t> out) const;

  // The same requests in another order (a permutation of all requests); blocks are renumbered. Throws TraceError when
  // `order` is not a permutation.
  KVOPT_API PrefixTrace reordered(std::span<const std::int64_t> order) const;

 private:
  std::vector<std::int32_t> parent_;
  std::vector<std::uint32_t> shared_;
  std::vector<std::uint32_t> fresh_;
  std::vector<std::uint64_t> first_ = {0};
  std::uint64_t references_ = 0;
  std::uint32_t longest_ = 0;
};

// Builds a PrefixTrace from chains of arbitrary 64-bit block ids. The same id under two different prefixes is two
// blocks. Ids are compared within a scope only (traces whose ids are local to a session use one scope each).
class PrefixTraceBuilder {
 public:
  // Appends one request; returns how many of its leading blocks were known.
  KVOPT_API std::uint32_t append(std::span<const std::uint64_t> ids, std::uint32_t scope = 0);

  std::size_t requests() const { return parent_.size(); }
  KVOPT_API PrefixTrace finish() &&;

 private:
  struct Edge {
    std::uint32_t node;   // the parent block, or kNoBlock at a root
    std::uint32_t scope;  // 0 below a root
    std::uint64_t id;
    bool operator==(const Edge&) const = default;
  };
  struct EdgeHash {
    std::size_t operator()(const Edge& edge) const noexcept;
  };

  std::vector<std::uint64_t> id_;                               // of each block
  std::vector<std::uint32_t> up_;                               // parent block of each block
  std::vector<std::int32_t> introduced_by_;                     // request in which a block first appears
  std::unordered_map<Edge, std::uint32_t, EdgeHash> branches_;  // children that do not follow their parent's number
  std::vector<std::int32_t> parent_;
  std::vector<std::uint32_t> shared_;
  std::vector<std::uint32_t> fresh_;
};

}  // namespace kvopt
