#include <array>
#include <cstdlib>
#include <new>
#include <string>
#include <utility>

#include "bindings/bindings.hpp"
#include "bindings/engine_block.hpp"
#include "kvopt/error.hpp"

#if PY_VERSION_HEX < 0x030C0000
#include <structmember.h>
#endif

namespace kvopt::bindings {

namespace py = pybind11;

namespace {

// The member table, in the form that every Python since 3.11 takes.
#if PY_VERSION_HEX < 0x030C0000
constexpr int kObjectMember = T_OBJECT_EX;
constexpr int kReadOnlyMember = READONLY;
#else
constexpr int kObjectMember = Py_T_OBJECT_EX;
constexpr int kReadOnlyMember = Py_READONLY;
#endif

}  // namespace

EngineCore::EngineCore(const EngineOptions& options, std::unique_ptr<Policy> policy, PyObject* clock_object)
    : pool(options, std::move(policy)), clock(Py_NewRef(clock_object)) {}

EngineCore::~EngineCore() {
  std::free(blocks);
  Py_DECREF(clock);
  Py_XDECREF(owner);
}

EngineCore* EngineCore::make(const EngineOptions& options, std::unique_ptr<Policy> policy, PyObject* clock) {
  PyTypeObject* type = engine_block_type();
  auto* core = new EngineCore(options, std::move(policy), clock);
  core->blocks = static_cast<EngineBlock*>(std::calloc(options.blocks, sizeof(EngineBlock)));
  if (core->blocks == nullptr) {
    core->unref();
    throw std::bad_alloc();
  }
  for (std::uint32_t b = 0; b < options.blocks; ++b) {
    EngineBlock* block = &core->blocks[b];
    PyObject_Init(reinterpret_cast<PyObject*>(block), type);
    block->block_id = PyLong_FromUnsignedLong(b);
    block->core = core;
    ++core->users;
  }
  return core;
}

// NOLINTNEXTLINE(readability-make-member-function-const): the blocks go
void EngineCore::drop_blocks() {
  const std::uint32_t n = pool.size();
  EngineBlock* const all = blocks;
  for (std::uint32_t b = 0; b < n; ++b) Py_DECREF(reinterpret_cast<PyObject*>(&all[b]));
}

void EngineCore::unref() {
  if (--users == 0) delete this;
}

const RequestInfo& EngineCore::at_present() {
  if (clock != Py_None) {
    PyObject* now = PyObject_CallNoArgs(clock);
    if (now == nullptr) throw py::error_already_set();
    const double seconds = PyFloat_AsDouble(now);
    Py_DECREF(now);
    if (seconds == -1.0 && PyErr_Occurred() != nullptr) throw py::error_already_set();
    if (seconds > info.now) info.now = seconds;
  }
  return info;
}

BlockKey as_key(PyObject* bytes) {
  if (PyBytes_Check(bytes) == 0) {
    throw ConfigError("a block hash is bytes; got " + py::cast<std::string>(py::repr(bytes)));
  }
  return {reinterpret_cast<const std::uint8_t*>(PyBytes_AS_STRING(bytes)),
          static_cast<std::size_t>(PyBytes_GET_SIZE(bytes))};
}

namespace {

EngineBlock* self_of(PyObject* object) { return reinterpret_cast<EngineBlock*>(object); }
BlockId id_of(PyObject* object) { return self_of(object)->core->id_of(self_of(object)); }
EnginePool& pool_of(PyObject* object) { return self_of(object)->core->pool; }

// Calls body(), turning what it throws into a Python error and `failed`.
template <class Result, class Body>
Result guarded(Result failed, Body body) {
  try {
    return body();
  } catch (py::error_already_set& e) {
    e.restore();
  } catch (const StaleBlockError& e) {
    PyErr_SetString(py::module_::import("kvopt.errors").attr("StaleBlockError").ptr(), e.what());
  } catch (const std::exception& e) {
    PyErr_SetString(py::module_::import("kvopt.errors").attr("ConfigError").ptr(), e.what());
  }
  return failed;
}

PyObject* get_ref_cnt(PyObject* self, void* /*closure*/) {
  return PyLong_FromLong(pool_of(self).references(id_of(self)));
}

int set_ref_cnt(PyObject* self, PyObject* value, void* /*closure*/) {
  if (value == nullptr) {
    PyErr_SetString(PyExc_AttributeError, "ref_cnt cannot be deleted");
    return -1;
  }
  const long count = PyLong_AsLong(value);
  if (count == -1 && PyErr_Occurred() != nullptr) return -1;
  pool_of(self).set_references(id_of(self), static_cast<std::int32_t>(count));
  return 0;
}

PyObject* get_is_null(PyObject* self, void* /*closure*/) {
  return Py_NewRef(id_of(self) == EnginePool::kNullBlock ? Py_True : Py_False);
}

PyObject* get_block_hash(PyObject* self, void* /*closure*/) {
  const EnginePool& pool = pool_of(self);
  if (!pool.cached(id_of(self))) Py_RETURN_NONE;
  const BlockKey key = pool.key(id_of(self));
  return PyBytes_FromStringAndSize(reinterpret_cast<const char*>(key.data()), static_cast<Py_ssize_t>(key.size()));
}

PyObject* get_num_tokens(PyObject* self, void* /*closure*/) {
  const EnginePool& pool = pool_of(self);
  if (!pool.cached(id_of(self)) || pool.key_tokens(id_of(self)) == 0) Py_RETURN_NONE;
  return PyLong_FromUnsignedLong(pool.key_tokens(id_of(self)));
}

PyObject* get_pool(PyObject* self, void* /*closure*/) {
  PyObject* owner = self_of(self)->core->owner;
  if (owner == nullptr) Py_RETURN_NONE;
  return PyObject_CallNoArgs(owner);
}

PyObject* set_block_hash(PyObject* self, PyObject* args, PyObject* kwargs) {
  static constexpr std::array<const char*, 3> kNames = {"block_hash", "num_tokens", nullptr};
  PyObject* hash = nullptr;
  PyObject* tokens = Py_None;
  // NOLINTNEXTLINE(cppcoreguidelines-pro-type-const-cast): CPython took no const names before 3.13; it never writes
  auto** names = const_cast<char**>(kNames.data());
  if (PyArg_ParseTupleAndKeywords(args, kwargs, "O|O", names, &hash, &tokens) == 0) return nullptr;
  return guarded<PyObject*>(nullptr, [&]() -> PyObject* {
    if (pool_of(self).cached(id_of(self))) {
      throw StaleBlockError("block " + std::to_string(id_of(self)) + " has a hash already");
    }
    const std::uint32_t count = tokens == Py_None ? 0 : py::cast<std::uint32_t>(py::handle(tokens));
    pool_of(self).insert_key(id_of(self), as_key(hash), count, self_of(self)->core->at_present());
    Py_RETURN_NONE;
  });
}

PyObject* reset_hash(PyObject* self, PyObject* /*unused*/) {
  pool_of(self).remove_keys(id_of(self));
  Py_RETURN_NONE;
}

PyObject* repr(PyObject* self) {
  return PyUnicode_FromFormat("EngineBlock(block_id=%u, ref_cnt=%d)", id_of(self),
                              pool_of(self).references(id_of(self)));
}

void dealloc(PyObject* self) {
  PyTypeObject* type = Py_TYPE(self);
  Py_CLEAR(self_of(self)->block_id);
  self_of(self)->core->unref();
  Py_DECREF(type);
}

template <class Function>
void* slot(Function* function) {
  return reinterpret_cast<void*>(function);
}

}  // namespace

PyTypeObject* engine_block_type() {
  static PyTypeObject* const kType = [] {
    static auto members = std::to_array<PyMemberDef>({{"block_id", kObjectMember, offsetof(EngineBlock, block_id),
                                                       kReadOnlyMember, "Index of the block in its pool."},
                                                      {nullptr, 0, 0, 0, nullptr}});
    static auto properties = std::to_array<PyGetSetDef>(
        {{"ref_cnt", get_ref_cnt, set_ref_cnt, "How many hold it. Setting it does not free or take the block.",
          nullptr},
         {"is_null", get_is_null, nullptr, "Whether it stands for no block.", nullptr},
         {"block_hash", get_block_hash, nullptr, "bytes: its first key, a hash and a group; None: not cached.",
          nullptr},
         {"block_hash_num_tokens", get_num_tokens, nullptr, "Tokens of the prefix that block_hash stands for.",
          nullptr},
         {"pool", get_pool, nullptr, "What was named as owner of its pool; None: nothing.", nullptr},
         {nullptr, nullptr, nullptr, nullptr, nullptr}});
    static auto methods = std::to_array<PyMethodDef>(
        {{"set_block_hash", reinterpret_cast<PyCFunction>(slot(set_block_hash)), METH_VARARGS | METH_KEYWORDS,
          "set_block_hash(block_hash: bytes, num_tokens: int | None = None) -> None\n\n"
          "Give it its first key. Raises StaleBlockError when it has one."},
         {"reset_hash", reset_hash, METH_NOARGS, "reset_hash() -> None\n\nTake all its keys off."},
         {nullptr, nullptr, 0, nullptr}});
    static constexpr const char* kDoc = "A block of an EnginePool: a handle on state that lives in the pool.";
    // NOLINTNEXTLINE(cppcoreguidelines-pro-type-const-cast): a slot has no const; CPython copies the text
    auto* doc = const_cast<char*>(kDoc);
    static auto slots = std::to_array<PyType_Slot>({{Py_tp_doc, doc},
                                                    {Py_tp_dealloc, slot(dealloc)},
                                                    {Py_tp_repr, slot(repr)},
                                                    {Py_tp_members, members.data()},
                                                    {Py_tp_getset, properties.data()},
                                                    {Py_tp_methods, methods.data()},
                                                    {0, nullptr}});
    static PyType_Spec spec = {"kvopt._core.EngineBlock", sizeof(EngineBlock), 0,
                               Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION, slots.data()};
    PyObject* type = PyType_FromSpec(&spec);
    if (type == nullptr) throw py::error_already_set();
    return reinterpret_cast<PyTypeObject*>(type);
  }();
  return kType;
}

void bind_engine_block(py::module_& m) {
  m.attr("EngineBlock") = py::reinterpret_borrow<py::object>(reinterpret_cast<PyObject*>(engine_block_type()));
}

}  // namespace kvopt::bindings
