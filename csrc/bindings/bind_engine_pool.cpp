#include <algorithm>
#include <memory>
#include <optional>

#include "bindings/bindings.hpp"
#include "bindings/engine_pool_handle.hpp"

namespace kvopt::bindings {

namespace {

PyObject* get_num_free_blocks(PyObject* self, PyObject* /*unused*/) {
  const auto value = reinterpret_cast<py::detail::instance*>(self)->get_value_and_holder();
  const auto* pool = static_cast<const EnginePoolHandle*>(value.value_ptr());
  if (pool == nullptr) {
    PyErr_SetString(PyExc_TypeError, "EnginePool.__init__() was not called");
    return nullptr;
  }
  return PyLong_FromUnsignedLong(pool->pool().free_blocks());
}

// An engine asks this for every running request in every step: a method of the interpreter's own, which costs a
// fraction of a bound one.
void add_free_count(const py::handle& type) {
  static PyMethodDef method = {"get_num_free_blocks", get_num_free_blocks, METH_NOARGS,
                               "get_num_free_blocks(self) -> int\n\n"
                               "Blocks that nobody holds, without the null block."};
  PyObject* made = PyDescr_NewMethod(reinterpret_cast<PyTypeObject*>(type.ptr()), &method);
  if (made == nullptr) throw py::error_already_set();
  py::setattr(type, "get_num_free_blocks", py::reinterpret_steal<py::object>(made));
}

}  // namespace

void bind_engine_pool(py::module_& m) {
  py::class_<EnginePoolHandle> type(
      m, "EnginePool",
      "The blocks of an engine that hands them out one by one and counts references itself: vLLM's BlockPool, native. "
      "Block 0 is the null block. Blocks are EngineBlock objects. Not for use by several threads at once.");
  add_free_count(type);
  type.def(py::init<std::int64_t, const py::object&, bool, std::int64_t, double, const py::object&>(),
           py::arg("blocks"), py::arg("policy") = "lru", py::kw_only(), py::arg("caching") = true,
           py::arg("block_tokens") = 16, py::arg("p_star") = 28600.0,
           py::arg("clock") = py::module_::import("time").attr("monotonic"),
           "blocks: with the null block. policy: a spec or a new kvopt.policies.Policy; 'lru' is vLLM's own order, "
           "block for block. clock: seconds, never going back; called once a method where a policy decides. Raises "
           "ConfigError or UnknownPolicyError.")
      .def_property_readonly("blocks", &EnginePoolHandle::blocks, "list[EngineBlock]: all of them, by id.")
      .def(
          "set_owner",
          [](EnginePoolHandle& p, const py::object& owner) {
            PyObject* reference = owner.is_none() ? nullptr : PyWeakref_NewRef(owner.ptr(), nullptr);
            if (reference == nullptr && !owner.is_none()) throw py::error_already_set();
            Py_XSETREF(p.core().owner, reference);
          },
          py::arg("owner"), "What a block names as its pool; held weakly.")
      .def("get_new_blocks", &EnginePoolHandle::get_new_blocks, py::arg("num_blocks"),
           "Hand out free blocks with one reference each; those that were cached lose their content. Raises "
           "NotEnoughBlocksError.")
      .def("touch", &EnginePoolHandle::touch, py::arg("blocks"), py::kw_only(), py::arg("hit") = true,
           "Add a reference to each block, root first. hit: a request found them cached.")
      .def("free_blocks", &EnginePoolHandle::free_blocks, py::arg("ordered_blocks"),
           "Take a reference off each block; those that nobody holds any longer are free, to go in this order. Returns "
           "blocks of other pools, untouched, or None. Raises ReferenceCountError.")
      .def("free_last", &EnginePoolHandle::free_last, py::arg("blocks"),
           "Take a reference off each block; those that nobody holds any longer are free, to go last of all.")
      .def("cache_full_blocks", &EnginePoolHandle::cache_full_blocks, py::arg("block_hashes"), py::arg("blocks"),
           py::arg("num_cached_blocks"), py::arg("num_full_blocks"), py::arg("block_size"),
           py::arg("kv_cache_group_id"), py::arg("scale") = 1, py::arg("block_mask") = py::none(),
           "Give keys to blocks[num_cached_blocks:num_full_blocks] of a request's table. block_hashes: one for every "
           "block_size / scale tokens of the request. block_mask: which of them. Raises StaleBlockError.")
      .def("longest_hit", &EnginePoolHandle::longest_hit, py::arg("block_hashes"), py::arg("kv_cache_group_ids"),
           py::arg("max_blocks"), py::arg("scale") = 1,
           "The longest prefix that is cached in all groups: a list of blocks for each of them.")
      .def("get_cached_block", &EnginePoolHandle::get_cached_block, py::arg("block_hash"),
           py::arg("kv_cache_group_ids"),
           "The first block with this hash in each group, or None when one of them has none.")
      .def("count_free", &EnginePoolHandle::count_free, py::arg("blocks"),
           "How many of these nobody holds; the null block does not count.")
      .def(
          "insert_block_hash",
          [](EnginePoolHandle& p, const py::bytes& key, const py::handle& block, std::optional<std::int64_t> tokens) {
            return p.pool().insert_key(p.id(block), as_key(key.ptr()), tokens ? to_unsigned(*tokens, "num_tokens") : 0,
                                       p.core().at_present());
          },
          py::arg("key"), py::arg("block"), py::arg("num_tokens") = py::none(),
          "Give a block one more key (a hash and a group). False: it carries it already.")
      .def(
          "remove_block_hashes",
          [](EnginePoolHandle& p, const py::handle& block) {
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
          [](EnginePoolHandle& p, const py::handle& from, const py::handle& to) {
            p.pool().move_keys(p.id(from), p.id(to), p.core().at_present());
          },
          py::arg("src_block"), py::arg("dst_block"),
          "Let another block carry this one's keys. Raises StaleBlockError when it has one.")
      .def(
          "more_block_hashes",
          [](const EnginePoolHandle& p, std::int64_t block) {
            py::set keys;
            if (block < 0 || block >= p.pool().size()) return keys;
            for (const BlockKey key : p.pool().more_keys(static_cast<BlockId>(block))) keys.add(to_bytes(key));
            return keys;
          },
          py::arg("block_id"), "The keys of a block but the first.")
      .def(
          "find",
          [](const EnginePoolHandle& p, const py::bytes& key) -> py::object {
            const BlockId b = p.pool().find(as_key(key.ptr()));
            return b == kNoBlock ? py::none() : py::reinterpret_borrow<py::object>(p.object(b));
          },
          py::arg("key"), "The first block with this key, or None.")
      .def(
          "carries",
          [](const EnginePoolHandle& p, const py::bytes& key, std::int64_t block) {
            return block >= 0 && block < p.pool().size() &&
                   p.pool().carries(static_cast<BlockId>(block), as_key(key.ptr()));
          },
          py::arg("key"), py::arg("block_id"), "Whether the block carries this key.")
      .def_property_readonly(
          "num_keys", [](const EnginePoolHandle& p) { return p.pool().keys(); }, "Different keys that are cached.")
      .def(
          "reset_prefix_cache", [](EnginePoolHandle& p) { return p.pool().reset(); },
          "Drop all content. False, with nothing changed, while blocks are held.")
      .def(
          "get_usage",
          [](const EnginePoolHandle& p) {
            const double usable = p.pool().size() - 1.0;
            return usable > 0 ? 1.0 - p.pool().free_blocks() / usable : 0.0;
          },
          "Share of the blocks that are held, 0 to 1.")
      .def(
          "free_order", [](const EnginePoolHandle& p) { return p.to_list(p.pool().free_order()); },
          "Free blocks in the order in which they go. With a policy other than 'lru': those without content, then "
          "cached ones by last use.")
      .def_property(
          "request_info", [](EnginePoolHandle& p) { return p.core().info; },
          [](EnginePoolHandle& p, const RequestInfo& info) {
            const Time now = p.core().info.now;
            p.core().info = info;
            p.core().info.now = std::max(now, info.now);
          },
          "What is known of the request that the next calls are for; `now` is set by the clock.")
      .def(
          "set_flat_group",
          [](EnginePoolHandle& p, std::int64_t group) {
            p.pool().set_flat_group(to_unsigned(group, "kv_cache_group_id"));
          },
          py::arg("kv_cache_group_id"),
          "Blocks of this group are of use without those before them: no leaf-first order there.")
      .def(
          "note_miss",
          [](EnginePoolHandle& p, const py::bytes& key) { p.pool().miss(as_key(key.ptr()), p.core().at_present()); },
          py::arg("key"), "Tell the policy that a request needs content that is not cached.")
      .def(
          "set_priority",
          [](EnginePoolHandle& p, const py::object& blocks, std::int64_t priority) {
            if (priority < 0 || priority > kMaxPriority) {
              throw ConfigError("priority " + std::to_string(priority) + "; it must be 0 to 100");
            }
            for (const auto& block : blocks) p.pool().set_priority(p.id(block), static_cast<std::uint8_t>(priority));
          },
          py::arg("blocks"), py::arg("priority"),
          "Set the retention priority (0 to 100, default 35) of cached blocks, until their content goes. Raises "
          "ConfigError when the policy does not look at priorities.")
      .def_property_readonly(
          "honours_priority", [](const EnginePoolHandle& p) { return p.pool().honours_priority(); },
          "Whether the order depends on priorities.")
      .def(
          "note_removed", [](EnginePoolHandle& p, bool on) { p.pool().note_removed(on); }, py::arg("on"),
          "Whether keys that go are kept for take_removed().")
      .def(
          "take_removed",
          [](EnginePoolHandle& p) {
            py::list keys;
            for (const auto& key : p.pool().take_removed()) keys.append(to_bytes(key));
            return keys;
          },
          "list[bytes]: the keys that went since the last call, in order.")
      .def_property_readonly(
          "evictions", [](const EnginePoolHandle& p) { return p.pool().evictions(); },
          "Cached blocks that were handed out.")
      .def(
          "explain", [](EnginePoolHandle& p) { return p.pool().explain(p.core().at_present().now); },
          "list[BlockValue]: what the policy thinks of each cached block that nobody holds, in the order in which they "
          "would go: possible victims first. `run` is the block's id. Raises ConfigError where it explains nothing.")
      .def_property_readonly(
          "learns", [](const EnginePoolHandle& p) { return p.pool().learns(); },
          "Whether what the policy learns can be saved and loaded.")
      .def(
          "save_state", [](const EnginePoolHandle& p) { return py::bytes(p.pool().save_state()); },
          "bytes: what the policy has learned, for load_state() in this process or a later one. Raises "
          "PolicyStateError where it learns nothing, or has failed.")
      .def(
          "load_state",
          [](EnginePoolHandle& p, const py::bytes& state) { p.pool().load_state(std::string_view(state)); },
          py::arg("state"),
          "Go on from what the policy has learned elsewhere; before the first request. Raises PolicyStateError, with "
          "nothing changed, where it learns nothing, has learned already, or these bytes are foreign, truncated, "
          "damaged, of another version, policy or settings.")
      .def_property_readonly(
          "saved_and_lru",
          [](const EnginePoolHandle& p) -> py::object {
            const auto compared = p.pool().compare_with_lru();
            if (!compared) return py::none();
            return py::make_tuple(compared->own, compared->lru, compared->lru_decides);
          },
          "tuple[float, float, bool] | None: prefill that hits saved since the start, what those of LRU would have on "
          "the same requests, both in tokens at a prompt's beginning, and whether LRU's order is used at present. None "
          "where the policy keeps no shadow of LRU, or has failed.")
      .def_property_readonly(
          "hits", [](const EnginePoolHandle& p) { return p.pool().hits(); }, "Cached blocks that requests took.")
      .def_property_readonly(
          "stored", [](const EnginePoolHandle& p) { return p.pool().stored(); }, "Blocks that got their first key.")
      .def_property_readonly(
          "decision_seconds", [](const EnginePoolHandle& p) { return p.core().decision_seconds; },
          "Time in calls in which the policy decides or is told of blocks, in seconds; 0 without a policy.")
      .def_property_readonly(
          "failure", [](const EnginePoolHandle& p) { return p.pool().failure(); },
          "What went wrong in the policy; from then on the order is LRU. Empty: nothing did.")
      .def_property_readonly(
          "runs",
          [](const EnginePoolHandle& p) -> std::shared_ptr<RunTable> {
            if (p.pool().runs() == nullptr) return nullptr;
            return std::const_pointer_cast<RunTable>(p.pool().runs()->shared_from_this());
          },
          "The state of what is cached (RunTable), a run a block; None without a policy.")
      .def_property_readonly(
          "nbytes", [](const EnginePoolHandle& p) { return p.pool().bytes() + std::size_t{p.pool().size()} * 72; },
          "Bytes held when every block is cached, Python objects included.")
      .def(
          "verify", [](const EnginePoolHandle& p) { return p.pool().verify(); },
          "Check every invariant in full. Returns one sentence a violation; empty when all hold.");
}

}  // namespace kvopt::bindings
