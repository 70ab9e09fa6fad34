#include <pybind11/stl.h>

#include <algorithm>
#include <memory>
#include <optional>
#include <string>

#include "bindings/bindings.hpp"
#include "bindings/engine_block.hpp"
#include "bindings/python_policy.hpp"
#include "kvopt/error.hpp"

namespace kvopt::bindings {

namespace py = pybind11;

namespace {

py::bytes to_bytes(BlockKey key) { return {reinterpret_cast<const char*>(key.data()), key.size()}; }

std::uint32_t to_unsigned(std::int64_t value, const char* name) {
  if (value < 0 || value > UINT32_MAX) {
    throw ConfigError(std::string(name) + " is " + std::to_string(value) + "; it must be 0 to 4294967295");
  }
  return static_cast<std::uint32_t>(value);
}

class PyEnginePool {
 public:
  PyEnginePool(std::int64_t blocks, const py::object& policy, bool caching, std::int64_t block_tokens, double p_star,
               const py::object& clock) {
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
  PyEnginePool(const PyEnginePool&) = delete;
  PyEnginePool& operator=(const PyEnginePool&) = delete;
  ~PyEnginePool() {
    blocks_ = py::list();
    core_->drop_blocks();
    core_->unref();
  }

  EnginePool& pool() { return core_->pool; }
  const EnginePool& pool() const { return core_->pool; }
  EngineCore& core() { return *core_; }
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
    pool().take(ids, core_->at_present());
    return to_list(ids);
  }

  void touch(const py::object& blocks, bool hit) {
    gather(blocks, nullptr);
    pool().hold(core_->ids, hit, core_->at_present());
  }

  // Returns the blocks of other pools, which are none of ours to free.
  py::object free_blocks(const py::object& blocks) {
    py::object others = py::none();
    gather(blocks, &others);
    pool().release(core_->ids, core_->at_present());
    return others;
  }

  void free_last(const py::object& blocks) {
    gather(blocks, nullptr);
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
    const py::object hashes = py::reinterpret_steal<py::object>(PySequence_Fast(block_hashes.ptr(), "block_hashes"));
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

}  // namespace

void bind_engine_pool(py::module_& m) {
  py::class_<PyEnginePool>(
      m, "EnginePool",
      "The blocks of an engine that hands them out one by one and counts references itself: vLLM's BlockPool, native. "
      "Block 0 is the null block. Blocks are EngineBlock objects. Not for use by several threads at once.")
      .def(py::init<std::int64_t, const py::object&, bool, std::int64_t, double, const py::object&>(),
           py::arg("blocks"), py::arg("policy") = "lru", py::kw_only(), py::arg("caching") = true,
           py::arg("block_tokens") = 16, py::arg("p_star") = 28600.0,
           py::arg("clock") = py::module_::import("time").attr("monotonic"),
           "blocks: with the null block. policy: a spec or a new kvopt.policies.Policy; 'lru' is vLLM's own order, "
           "block for block. clock: seconds, never going back; called once a method where a policy decides. Raises "
           "ConfigError or UnknownPolicyError.")
      .def_property_readonly("blocks", &PyEnginePool::blocks, "list[EngineBlock]: all of them, by id.")
      .def(
          "set_owner",
          [](PyEnginePool& p, const py::object& owner) {
            PyObject* reference = owner.is_none() ? nullptr : PyWeakref_NewRef(owner.ptr(), nullptr);
            if (reference == nullptr && !owner.is_none()) throw py::error_already_set();
            Py_XSETREF(p.core().owner, reference);
          },
          py::arg("owner"), "What a block names as its pool; held weakly.")
      .def("get_new_blocks", &PyEnginePool::get_new_blocks, py::arg("num_blocks"),
           "Hand out free blocks with one reference each; those that were cached lose their content. Raises "
           "NotEnoughBlocksError.")
      .def("touch", &PyEnginePool::touch, py::arg("blocks"), py::kw_only(), py::arg("hit") = true,
           "Add a reference to each block, root first. hit: a request found them cached.")
      .def("free_blocks", &PyEnginePool::free_blocks, py::arg("ordered_blocks"),
           "Take a reference off each block; those that nobody holds any longer are free, to go in this order. Returns "
           "blocks of other pools, untouched, or None. Raises ReferenceCountError.")
      .def("free_last", &PyEnginePool::free_last, py::arg("blocks"),
           "Take a reference off each block; those that nobody holds any longer are free, to go last of all.")
      .def("cache_full_blocks", &PyEnginePool::cache_full_blocks, py::arg("block_hashes"), py::arg("blocks"),
           py::arg("num_cached_blocks"), py::arg("num_full_blocks"), py::arg("block_size"),
           py::arg("kv_cache_group_id"), py::arg("scale") = 1, py::arg("block_mask") = py::none(),
           "Give keys to blocks[num_cached_blocks:num_full_blocks] of a request's table. block_hashes: one for every "
           "block_size / scale tokens of the request. block_mask: which of them. Raises StaleBlockError.")
      .def("longest_hit", &PyEnginePool::longest_hit, py::arg("block_hashes"), py::arg("kv_cache_group_ids"),
           py::arg("max_blocks"), py::arg("scale") = 1,
           "The longest prefix that is cached in all groups: a list of blocks for each of them.")
      .def("get_cached_block", &PyEnginePool::get_cached_block, py::arg("block_hash"), py::arg("kv_cache_group_ids"),
           "The first block with this hash in each group, or None when one of them has none.")
      .def("count_free", &PyEnginePool::count_free, py::arg("blocks"),
           "How many of these nobody holds; the null block does not count.")
      .def(
          "insert_block_hash",
          [](PyEnginePool& p, const py::bytes& key, const py::handle& block, std::optional<std::int64_t> tokens) {
            return p.pool().insert_key(p.id(block), as_key(key.ptr()), tokens ? to_unsigned(*tokens, "num_tokens") : 0,
                                       p.core().at_present());
          },
          py::arg("key"), py::arg("block"), py::arg("num_tokens") = py::none(),
          "Give a block one more key (a hash and a group). False: it carries it already.")
      .def(
          "remove_block_hashes",
          [](PyEnginePool& p, const py::handle& block) {
            const BlockId b = p.id(block);
            py::list keys;
            if (p.pool().cached(b)) {
              keys.append(to_bytes(p.pool().key(b)));
              for (const BlockKey key : p.pool().more_keys(b)) keys.append(to_bytes(key));
              p.pool().remove_keys(b);
            }
            return keys;
          },
          py::arg("block"), "Take all keys off a block; returns them, the first that it got in front.")
      .def(
          "move_block_hashes",
          [](PyEnginePool& p, const py::handle& from, const py::handle& to) {
            p.pool().move_keys(p.id(from), p.id(to), p.core().at_present());
          },
          py::arg("src_block"), py::arg("dst_block"),
          "Let another block carry this one's keys. Raises StaleBlockError when it has one.")
      .def(
          "more_block_hashes",
          [](const PyEnginePool& p, std::int64_t block) {
            py::set keys;
            if (block < 0 || block >= p.pool().size()) return keys;
            for (const BlockKey key : p.pool().more_keys(static_cast<BlockId>(block))) keys.add(to_bytes(key));
            return keys;
          },
          py::arg("block_id"), "The keys of a block but the first.")
      .def(
          "find",
          [](const PyEnginePool& p, const py::bytes& key) -> py::object {
            const BlockId b = p.pool().find(as_key(key.ptr()));
            return b == kNoBlock ? py::none() : py::reinterpret_borrow<py::object>(p.object(b));
          },
          py::arg("key"), "The first block with this key, or None.")
      .def(
          "carries",
          [](const PyEnginePool& p, const py::bytes& key, std::int64_t block) {
            return block >= 0 && block < p.pool().size() &&
                   p.pool().carries(static_cast<BlockId>(block), as_key(key.ptr()));
          },
          py::arg("key"), py::arg("block_id"), "Whether the block carries this key.")
      .def_property_readonly(
          "num_keys", [](const PyEnginePool& p) { return p.pool().keys(); }, "Different keys that are cached.")
      .def(
          "reset_prefix_cache", [](PyEnginePool& p) { return p.pool().reset(); },
          "Drop all content. False, with nothing changed, while blocks are held.")
      .def(
          "get_num_free_blocks", [](const PyEnginePool& p) { return p.pool().free_blocks(); },
          "Blocks that nobody holds, without the null block.")
      .def(
          "get_usage",
          [](const PyEnginePool& p) {
            const double usable = p.pool().size() - 1.0;
            return usable > 0 ? 1.0 - p.pool().free_blocks() / usable : 0.0;
          },
          "Share of the blocks that are held, 0 to 1.")
      .def(
          "free_order", [](const PyEnginePool& p) { return p.to_list(p.pool().free_order()); },
          "Free blocks in the order in which they go. With a policy other than 'lru': those without content, then "
          "cached ones by last use.")
      .def_property(
          "request_info", [](PyEnginePool& p) { return p.core().info; },
          [](PyEnginePool& p, const RequestInfo& info) {
            const Time now = p.core().info.now;
            p.core().info = info;
            p.core().info.now = std::max(now, info.now);
          },
          "What is known of the request that the next calls are for; `now` is set by the clock.")
      .def(
          "set_flat_group",
          [](PyEnginePool& p, std::int64_t group) { p.pool().set_flat_group(to_unsigned(group, "kv_cache_group_id")); },
          py::arg("kv_cache_group_id"),
          "Blocks of this group are of use without those before them: no leaf-first order there.")
      .def(
          "note_miss",
          [](PyEnginePool& p, const py::bytes& key) { p.pool().miss(as_key(key.ptr()), p.core().at_present()); },
          py::arg("key"), "Tell the policy that a request needs content that is not cached.")
      .def(
          "set_priority",
          [](PyEnginePool& p, const py::object& blocks, std::int64_t priority) {
            if (priority < 0 || priority > kMaxPriority) {
              throw ConfigError("priority " + std::to_string(priority) + "; it must be 0 to 100");
            }
            for (const auto& block : blocks) p.pool().set_priority(p.id(block), static_cast<std::uint8_t>(priority));
          },
          py::arg("blocks"), py::arg("priority"),
          "Set the retention priority (0 to 100, default 35) of cached blocks, until their content goes. Raises "
          "ConfigError when the policy does not look at priorities.")
      .def_property_readonly(
          "honours_priority", [](const PyEnginePool& p) { return p.pool().honours_priority(); },
          "Whether the order depends on priorities.")
      .def(
          "note_removed", [](PyEnginePool& p, bool on) { p.pool().note_removed(on); }, py::arg("on"),
          "Whether keys that go are kept for take_removed().")
      .def(
          "take_removed",
          [](PyEnginePool& p) {
            py::list keys;
            for (const auto& key : p.pool().take_removed()) keys.append(to_bytes(key));
            return keys;
          },
          "list[bytes]: the keys that went since the last call, in order.")
      .def_property_readonly(
          "evictions", [](const PyEnginePool& p) { return p.pool().evictions(); },
          "Cached blocks that were handed out.")
      .def_property_readonly(
          "failure", [](const PyEnginePool& p) { return p.pool().failure(); },
          "What went wrong in the policy; from then on the order is LRU. Empty: nothing did.")
      .def_property_readonly(
          "runs",
          [](const PyEnginePool& p) -> std::shared_ptr<RunTable> {
            if (p.pool().runs() == nullptr) return nullptr;
            return std::const_pointer_cast<RunTable>(p.pool().runs()->shared_from_this());
          },
          "The state of what is cached (RunTable), a run a block; None without a policy.")
      .def_property_readonly(
          "nbytes", [](const PyEnginePool& p) { return p.pool().bytes() + p.pool().size() * 72; },
          "Bytes held when every block is cached, Python objects included.")
      .def(
          "verify", [](const PyEnginePool& p) { return p.pool().verify(); },
          "Check every invariant in full. Returns one sentence a violation; empty when all hold.");
}

}  // namespace kvopt::bindings
