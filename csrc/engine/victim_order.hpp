// The order in which an EnginePool hands out its free blocks.
//
// The pool tells what happens to blocks; the order answers take(). A block is in the order exactly while nobody holds
// it. Spans hold blocks of one request where the engine frees or hits them together.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "kvopt/policy.hpp"
#include "kvopt/types.hpp"

namespace kvopt {

struct StoredBlock {
  BlockId block;
  BlockId before;       // in the table of the request, or kNoBlock
  std::uint32_t depth;  // position in the table
  std::uint32_t group;
  std::uint64_t key;  // a digest
};

class VictimOrder {
 public:
  VictimOrder() = default;
  VictimOrder(const VictimOrder&) = delete;
  VictimOrder& operator=(const VictimOrder&) = delete;
  virtual ~VictimOrder() = default;

  virtual std::uint32_t size() const = 0;
  virtual bool contains(BlockId block) const = 0;

  // Takes the next blocks off the order, the first to go first; there are enough.
  virtual void take(std::span<BlockId> out, const RequestInfo& info) = 0;
  // A request holds all of these now, root first; `hit`: it found them cached.
  virtual void on_held(std::span<const BlockId> blocks, bool hit, const RequestInfo& info) = 0;
  // A request let go of `blocks`; `empty` and `cached` are those that nobody holds any longer, in the order to go.
  virtual void on_released(std::span<const BlockId> blocks, std::span<const BlockId> empty,
                           std::span<const BlockId> cached, const RequestInfo& info) = 0;
  // Nobody holds these any longer; they go last.
  virtual void on_released_last(std::span<const BlockId> blocks, const RequestInfo& info) = 0;

  // Held blocks are cached now, root first.
  virtual void on_stored(std::span<const StoredBlock> /*stored*/, const RequestInfo& /*info*/) {}
  // A block lost its content, but not to take().
  virtual void on_forgotten(BlockId /*block*/) {}
  virtual void on_recounted(BlockId /*block*/) {}
  virtual void on_miss(std::uint64_t /*key*/, const RequestInfo& /*info*/) {}
  virtual bool honours_priority() const { return false; }
  virtual void set_priority(BlockId /*block*/, std::uint8_t /*priority*/) {}
  virtual void set_flat_group(std::uint32_t /*group*/) {}

  virtual Policy* policy() const { return nullptr; }  // null: there is none, or it has failed
  virtual const RunTable* runs() const { return nullptr; }
  virtual const std::string& failure() const {
    static const std::string kNone;
    return kNone;
  }
  virtual std::vector<BlockId> listing() const = 0;
  virtual std::string verify() const = 0;
  virtual std::size_t bytes() const = 0;
};

}  // namespace kvopt
