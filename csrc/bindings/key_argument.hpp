// Keys of blocks as Python has them, as a pool takes them.
#pragma once

#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

#include "bindings/arrays.hpp"
#include "kvopt/block_pool.hpp"
#include "kvopt/error.hpp"

namespace kvopt::bindings {

// uint64[n], or byte strings as a uint8[n, key_bytes] array or a sequence of bytes.
class KeyArgument {
 public:
  KeyArgument(const py::object& keys, std::uint32_t key_bytes) {
    if (key_bytes == 0) {
      hashes_ = to_integers<std::uint64_t>(keys);
      if (!hashes_ || hashes_.ndim() != 1) {
        PyErr_Clear();
        throw ConfigError("keys must be a one-dimensional array of unsigned 64-bit integers");
      }
      view_ = {.hashes = hashes_.data(), .count = static_cast<std::size_t>(hashes_.size())};
      return;
    }
    if (py::isinstance<py::array>(keys)) {
      bytes_ = Array<std::uint8_t>::ensure(keys);
      if (!bytes_ || bytes_.ndim() != 2 || bytes_.shape(1) != key_bytes) {
        PyErr_Clear();
        throw ConfigError("keys must be uint8 of shape (n, " + std::to_string(key_bytes) + ")");
      }
    } else {
      gather(keys, key_bytes);
    }
    const auto n = static_cast<std::size_t>(bytes_.shape(0));
    digests_.resize(n);
    for (std::size_t i = 0; i < n; ++i) digests_[i] = key_digest(bytes_.data() + i * key_bytes, key_bytes);
    view_ = {.hashes = digests_.data(), .bytes = bytes_.data(), .count = n};
  }

  Keys view() const { return view_; }

 private:
  void gather(const py::object& keys, std::uint32_t key_bytes) {
    const std::string expected = "byte strings of length " + std::to_string(key_bytes);
    if (!py::isinstance<py::sequence>(keys)) {
      throw ConfigError("keys is " + py::cast<std::string>(py::repr(keys)) + "; it must be a sequence of " + expected);
    }
    const auto sequence = py::reinterpret_borrow<py::sequence>(keys);
    bytes_ = Array<std::uint8_t>({static_cast<py::ssize_t>(sequence.size()), static_cast<py::ssize_t>(key_bytes)});
    std::uint8_t* out = bytes_.mutable_data();
    for (std::size_t i = 0; i < sequence.size(); ++i) {
      const py::object key = sequence[i];
      if (!py::isinstance<py::bytes>(key) || PyBytes_GET_SIZE(key.ptr()) != static_cast<py::ssize_t>(key_bytes)) {
        throw ConfigError("key " + std::to_string(i) + " is " + py::cast<std::string>(py::repr(key)) +
                          "; this pool's keys are " + expected);
      }
      out = std::copy_n(reinterpret_cast<const std::uint8_t*>(PyBytes_AS_STRING(key.ptr())), key_bytes, out);
    }
  }

  Array<std::uint64_t> hashes_;
  Array<std::uint8_t> bytes_;
  std::vector<std::uint64_t> digests_;
  Keys view_;
};

}  // namespace kvopt::bindings
