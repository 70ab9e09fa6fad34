// An EnginePool with what Python sees of it: lists of EngineBlock objects in and out, one call a request.
#pragma once

#include <pybind11/pybind11.h>
#include <pybind11/stl.h>

#include <algorithm>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "bindings/engine_block.hpp"
#include "bindings/python_policy.hpp"
#include "kvopt/error.hpp"

namespace kvopt::bindings {

namespace py = pybind11;

inline py::bytes to_bytes(BlockKey key) { return {reinterpret_cast<const char*>(key.data()), key.size()}; }

inline std::uint32_t to_unsigned(std::int64_t value, const char* name) {
  if (value < 0 || value > UINT32_MAX) {
    throw ConfigError(std::string(name) + " is " + std::to_string(value) + "; it must be 0 to 4294967295");
  }
  return static_cast<std::uint32_t>(value);
}

class EnginePoolHandle {
 public:
  EnginePoolHandle(std::int64_t blocks, const py::object& policy, bool caching, std::int64_t block_tokens,
                   double p_star, const py::object& clock) {
    const EngineOptions options{.blocks = to_unsigned(blocks, "blocks"),
                                .caching = caching,
                                .block_tokens = to_unsigned(block_tokens, "block_tokens"),
                                .p_star = p_star};
    EnginePool::check(options);  // before the policy object counts as attached
    std::unique_ptr<Policy> order;
    const bool lru = py::isinstance<py::str>(policy) && py::cast<std::string>(policy) == "lru";
    if (!lru) order = to_policy(policy);
    core_ = EngineCore::make(options, std::move(order), lru ? Py_None : clock.ptr());
    blocks_ = py::list(options.blocks);
    for (std::uint32_t b = 0; b < options.blocks; ++b) {
      PyList_SET_ITEM(blocks_.ptr(), b, Py_NewRef(object(b)));
    }
  }
  EnginePoolHandle(const EnginePoolHandle&) = delete;
  EnginePoolHandle& operator=(const EnginePoolHandle&) = delete;
  ~EnginePoolHandle() {
    Py_DECREF(blocks_.release().ptr());
    core_->drop_blocks();
    core_->unref();
  }

  EnginePool& pool() { return core_->pool; }
  const EnginePool& pool() const { return core_->pool; }
  EngineCore& core() { return *core_; }
  const EngineCore& core() const { return *core_; }
  const py::list& blocks() const { return blocks_; }

  BlockId id(const py::handle& block) const {
    const EngineBlock* b = as_block(block.ptr(), *core_);
    if (b == nullptr) {
      throw StaleBlockError(py::cast<std::string>(py::repr(block)) + " is no block of this pool");
    }
    return core_->id_of(b);
  }

  py::list get_new_blocks(std::int64_t n) {
    if (n < 0) throw ConfigError("n is " + std::to_string(n) + "; it must not be negative");
    std::vector<BlockId>& ids = core_->ids;
    const auto count = static_cast<std::size_t>(n);
    if (count > pool().free_blocks()) {
      throw NotEnoughBlocksError(std::to_string(n) + " blocks are needed; " + std::to_string(pool().free_blocks()) +
                                 " are free");
    }
    ids.resize(count);
    const DecisionTimer timer(*core_);
    pool().take(ids, core_->at_present());
    return to_list(ids);
  }

  void touch(const py::object& blocks, bool hit) {
    gather(blocks, nullptr);
    const DecisionTimer timer(*core_);
    pool().hold(core_->ids, hit, core_->at_present());
  }

  // Returns the blocks of other pools, which are none of ours to free.
  py::object free_blocks(const py::object& blocks) {
    py::object others = py::none();
    gather(blocks, &others);
    const DecisionTimer timer(*core_);
    pool().release(core_->ids, core_->at_present());
    return others;
  }

  void free_last(const py::object& blocks) {
    gather(blocks, nullptr);
    const DecisionTimer timer(*core_);
    pool().release_last(core_->ids, core_->at_present());
  }

  void cache_full_blocks(const py::object& block_hashes, const py::list& blocks, std::int64_t first, std::int64_t end,
                         std::int64_t block_tokens, std::int64_t group, std::int64_t scale, const py::object& mask) {
    const auto size = static_cast<std::int64_t>(blocks.size());
    if (first < 0 || first > end || end > size || scale < 1) {
      throw ConfigError("blocks [" + std::to_string(first) + ", " + std::to_string(end) + ") of a table of " +
                        std::to_string(size));
    }
    if (first == end) return;
    const auto hashes = py::reinterpret_steal<py::object>(PySequence_Fast(block_hashes.ptr(), "block_hashes"));
    if (!hashes) throw py::error_already_set();
    if (const std::int64_t known = PySequence_Fast_GET_SIZE(hashes.ptr()) / scale; end > known) {
      throw ConfigError("hashes of " + std::to_string(known) + " blocks for a table that is full up to block " +
                        std::to_string(end));
    }
    std::vector<BlockId>& ids = core_->ids;
    ids.clear();
    core_->hashes.clear();
    std::size_t hash_bytes = 0;
    for (std::int64_t i = first; i < end; ++i) {
      ids.push_back(id(PyList_GET_ITEM(blocks.ptr(), i)));
      const BlockKey hash = as_key(PySequence_Fast_GET_ITEM(hashes.ptr(), (i + 1) * scale - 1));
      if (i > first && hash.size() != hash_bytes) throw ConfigError("the block hashes differ in length");
      hash_bytes = hash.size();
      core_->hashes.push_back(hash.data());
    }
    std::vector<std::uint8_t> wanted;
    if (!mask.is_none()) {
      for (const auto& item : mask) wanted.push_back(py::cast<bool>(item) ? 1 : 0);
      if (wanted.size() != ids.size()) throw ConfigError("block_mask is not as long as the blocks it is for");
    }
    const DecisionTimer timer(*core_);
    pool().store({.blocks = ids.data(),
                  .hashes = core_->hashes.data(),
                  .wanted = mask.is_none() ? nullptr : wanted.data(),
                  .count = ids.size(),
                  .hash_bytes = hash_bytes,
                  .first = static_cast<std::uint32_t>(first),
                  .before = first > 0 ? id(PyList_GET_ITEM(blocks.ptr(), first - 1)) : kNoBlock,
                  .group = to_unsigned(group, "kv_cache_group_id"),
                  .block_tokens = to_unsigned(block_tokens, "block_size")},
                 core_->at_present());
  }

  // One list of blocks a group, of the longest prefix that is cached in all of them.
  py::tuple longest_hit(const py::list& hashes, const std::vector<std::uint32_t>& groups, std::int64_t most,
                        std::int64_t scale) {
    const std::int64_t limit = std::min(most, static_cast<std::int64_t>(hashes.size()) / scale);
    py::tuple lists(groups.size());
    for (std::size_t g = 0; g < groups.size(); ++g) lists[g] = py::list();
    constexpr std::int64_t kAtOnce = 256;
    for (std::int64_t i = 0; i < limit;) {
      const std::int64_t end = std::min(limit, i + (i == 0 ? 16 : kAtOnce));
      core_->hashes.clear();
      std::size_t hash_bytes = 0;
      for (; i < end; ++i) {
        const BlockKey hash = as_key(PyList_GET_ITEM(hashes.ptr(), (i + 1) * scale - 1));
        if (!core_->hashes.empty() && hash.size() != hash_bytes) throw ConfigError("the block hashes differ in length");
        hash_bytes = hash.size();
        core_->hashes.push_back(hash.data());
      }
      std::vector<BlockId>& ids = core_->ids;
      ids.resize(core_->hashes.size() * groups.size());
      const std::size_t hit = pool().longest_hit(core_->hashes, hash_bytes, groups, ids.data());
      for (std::size_t g = 0; g < groups.size(); ++g) append(PyTuple_GET_ITEM(lists.ptr(), g), g, groups.size(), hit);
      if (hit < core_->hashes.size()) break;
    }
    return lists;
  }

  py::object get_cached_block(const py::bytes& hash, const std::vector<std::uint32_t>& groups) {
    py::list found(groups.size());
    const std::uint8_t* data = as_key(hash.ptr()).data();
    for (std::size_t g = 0; g < groups.size(); ++g) {
      BlockId b = kNoBlock;
      if (pool().longest_hit({&data, 1}, as_key(hash.ptr()).size(), {&groups[g], 1}, &b) == 0) return py::none();
      found[g] = py::reinterpret_borrow<py::object>(object(b));
    }
    return found;
  }

  // Of these, those that nobody holds: they stop being free when a request takes them.
  std::size_t count_free(const py::object& blocks) const {
    std::size_t count = 0;
    for (const auto& block : blocks) {
      const BlockId b = id(block);
      count += b != EnginePool::kNullBlock && pool().references(b) == 0 ? 1 : 0;
    }
    return count;
  }

  py::list to_list(const std::vector<BlockId>& ids) const {
    py::list list(ids.size());
    for (std::size_t i = 0; i < ids.size(); ++i) {
      PyList_SET_ITEM(list.ptr(), static_cast<Py_ssize_t>(i), Py_NewRef(object(ids[i])));
    }
    return list;
  }

  PyObject* object(BlockId b) const { return reinterpret_cast<PyObject*>(&core_->blocks[b]); }

 private:
  void append(PyObject* list, std::size_t g, std::size_t groups, std::size_t hit) const {
    constexpr std::size_t kAhead = 16;
    for (std::size_t i = 0; i < hit; ++i) {
      if (i + kAhead < hit) __builtin_prefetch(object(core_->ids[(i + kAhead) * groups + g]), 1);
      if (PyList_Append(list, object(core_->ids[i * groups + g])) != 0) throw py::error_already_set();
    }
  }

  // Ids of blocks into core.ids; blocks of other pools into `others`, or, where that is null, an error.
  void gather(const py::object& blocks, py::object* others) {
    std::vector<BlockId>& ids = core_->ids;
    ids.clear();
    const auto add = [&](PyObject* item) {
      if (const EngineBlock* b = as_block(item, *core_)) {
        ids.push_back(core_->id_of(b));
      } else if (others != nullptr && py::hasattr(item, "pool")) {
        if (others->is_none()) *others = py::list();
        py::reinterpret_borrow<py::list>(*others).append(py::handle(item));
      } else {
        id(item);
      }
    };
    if (PyList_CheckExact(blocks.ptr()) != 0 || PyTuple_CheckExact(blocks.ptr()) != 0) {
      const Py_ssize_t n = PySequence_Fast_GET_SIZE(blocks.ptr());
      for (Py_ssize_t i = 0; i < n; ++i) add(PySequence_Fast_GET_ITEM(blocks.ptr(), i));
      return;
    }
    for (const auto& item : blocks) add(item.ptr());
  }

  EngineCore* core_;
  py::list blocks_;
};

}  // namespace kvopt::bindings
