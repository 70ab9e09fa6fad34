#include <pybind11/pybind11.h>

#include <array>
#include <string>
#include <vector>

#include "bindings/bindings.hpp"
#include "engine/sha256.hpp"
#include "engine/xxh3.hpp"
#include "kvopt/block_hash.hpp"
#include "kvopt/error.hpp"

namespace kvopt::bindings {

namespace py = pybind11;

namespace {

constexpr std::int64_t kNotAToken = INT64_MIN;

// A token id, without a call for ids below 2^30; kNotAToken for anything else than an int of 32 bits.
std::int64_t to_token(PyObject* item) {
  if (PyLong_CheckExact(item) == 0) return kNotAToken;
#if PY_VERSION_HEX < 0x030C0000
  if (Py_SIZE(item) == 1) return reinterpret_cast<PyLongObject*>(item)->ob_digit[0];
#else
  if (PyUnstable_Long_IsCompact(reinterpret_cast<PyLongObject*>(item)) != 0) {
    return PyUnstable_Long_CompactValue(reinterpret_cast<PyLongObject*>(item));
  }
#endif
  int overflow = 0;
  const long long value = PyLong_AsLongLongAndOverflow(item, &overflow);
  return overflow != 0 || value < INT32_MIN || value > INT32_MAX ? kNotAToken : value;
}

// Hashes of the full blocks of tokens[first_token:], each behind the one before, the first behind `parent`. None when
// a token is no int of 32 bits.
py::object hash_blocks(BlockHasher& hasher, const py::list& tokens, std::int64_t first_token, const py::bytes& parent) {
  const auto size = static_cast<std::int64_t>(tokens.size());
  if (first_token < 0 || first_token > size) {
    throw ConfigError("first_token is " + std::to_string(first_token) + "; there are " + std::to_string(size));
  }
  const auto block_tokens = static_cast<std::int64_t>(hasher.block_tokens());
  const std::int64_t blocks = (size - first_token) / block_tokens;
  py::list hashes(static_cast<std::size_t>(blocks));
  std::vector<std::int32_t> block(hasher.block_tokens());
  std::array<std::uint8_t, 32> hash{};
  const auto* before = reinterpret_cast<const std::uint8_t*>(PyBytes_AS_STRING(parent.ptr()));
  auto before_bytes = static_cast<std::size_t>(PyBytes_GET_SIZE(parent.ptr()));
  PyObject** items = reinterpret_cast<PyListObject*>(tokens.ptr())->ob_item + first_token;
  for (std::int64_t b = 0; b < blocks; ++b, items += block_tokens) {
    for (std::int64_t i = 0; i < block_tokens; ++i) {
      const std::int64_t token = to_token(items[i]);
      if (token == kNotAToken) return py::none();
      block[static_cast<std::size_t>(i)] = static_cast<std::int32_t>(token);
    }
    hasher.hash(before, before_bytes, block.data(), hash.data());
    before = hash.data();
    before_bytes = hasher.hash_bytes();
    PyObject* out =
        PyBytes_FromStringAndSize(reinterpret_cast<const char*>(hash.data()), static_cast<Py_ssize_t>(before_bytes));
    if (out == nullptr) throw py::error_already_set();
    PyList_SET_ITEM(hashes.ptr(), b, out);
  }
  return hashes;
}

}  // namespace

void bind_block_hash(py::module_& m) {
  py::class_<BlockHasher> hasher(
      m, "BlockHasher",
      "Hashes of the blocks of a prompt as vLLM computes them, byte for byte, for requests without "
      "extra keys (LoRA, multimodal inputs, salt).");
  hasher.attr("MOST_BLOCK_TOKENS") = BlockHasher::kMostBlockTokens;
  hasher
      .def(py::init([](const std::string& scheme, std::int64_t block_tokens) {
             if (block_tokens < 1 || block_tokens > BlockHasher::kMostBlockTokens) {
               throw ConfigError("block_tokens is " + std::to_string(block_tokens) + "; it must be 1 to " +
                                 std::to_string(BlockHasher::kMostBlockTokens));
             }
             return BlockHasher(scheme, static_cast<std::uint32_t>(block_tokens));
           }),
           py::arg("scheme"), py::arg("block_tokens"),
           "scheme: 'sha256', 'sha256_cbor', 'xxhash' or 'xxhash_cbor'. Raises ConfigError.")
      .def("hash_blocks", &hash_blocks, py::arg("tokens"), py::arg("first_token"), py::arg("parent"),
           "Hashes (bytes) of the full blocks of tokens[first_token:], the first of them behind `parent`. None when a "
           "token id is no int of 32 bits. Raises ConfigError.")
      .def_property_readonly("block_tokens", &BlockHasher::block_tokens)
      .def_property_readonly("hash_bytes", &BlockHasher::hash_bytes);

  m.def(
      "xxh3_128",
      [](const py::bytes& data) {
        std::array<std::uint8_t, 16> out{};
        const std::string bytes = data;
        xxh3::digest_128(reinterpret_cast<const std::uint8_t*>(bytes.data()), bytes.size(), out.data());
        return py::bytes(reinterpret_cast<const char*>(out.data()), out.size());
      },
      py::arg("data"), "XXH3 of 128 bits, canonical: 16 bytes.");
  m.def(
      "sha256_implementation", [] { return std::string(sha256::implementation()); },
      "What computes SHA-256 on this processor: 'sha-ni', 'armv8' or 'portable'.");
  m.def(
      "sha256_portable",
      [](const py::bytes& data) {
        std::string bytes = data;
        const std::size_t size = bytes.size();
        bytes.resize(size + 72);
        std::array<std::uint8_t, sha256::kDigestBytes> out{};
        sha256::digest_in_place(sha256::compress_portable, reinterpret_cast<std::uint8_t*>(bytes.data()), size,
                                out.data());
        return py::bytes(reinterpret_cast<const char*>(out.data()), out.size());
      },
      py::arg("data"), "SHA-256 by the code that runs where the processor has no instructions for it.");
}

}  // namespace kvopt::bindings
