// What a policy has learned, as bytes that another process can take up: Policy::save_state() and load_state().
//
// Layout, little-endian: the mark "KVOPTLS\n", the format version (4 bytes), the bytes of what follows up to the
// checksum (8), the policy's name, its parameters, what the policy itself writes; the checksum (8, FNV-1a over all that
// is before it). The mark, version, length and checksum are looked at in this order, so that the error says which file
// it is: a foreign one, one of another version, a truncated or a damaged one. Parameters must be those of the policy
// that reads: they are part of what was counted.
#pragma once

#include <bit>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>

#include "kvopt/error.hpp"
#include "kvopt/policy.hpp"

namespace kvopt {

static_assert(std::endian::native == std::endian::little);

// Appends values to a text of bytes.
class StateWriter {
 public:
  template <class T>
  void put(const T& value) {
    static_assert(std::is_arithmetic_v<T>);
    bytes_.append(reinterpret_cast<const char*>(&value), sizeof value);
  }
  template <class T>
  void put(std::span<const T> values) {
    static_assert(std::is_arithmetic_v<T>);
    bytes_.append(reinterpret_cast<const char*>(values.data()), values.size_bytes());
  }
  void put_text(std::string_view text) {
    put(static_cast<std::uint32_t>(text.size()));
    bytes_.append(text);
  }

  const std::string& bytes() const { return bytes_; }

 private:
  std::string bytes_;
};

// Reads them back. Every read throws PolicyStateError where the bytes end too soon, or a float is not finite.
class StateReader {
 public:
  explicit StateReader(std::string_view bytes) : left_(bytes) {}

  template <class T>
  T get() {
    T value{};
    get(std::span<T>(&value, 1));
    return value;
  }
  template <class T>
  void get(std::span<T> out) {
    static_assert(std::is_arithmetic_v<T>);
    std::memcpy(out.data(), take(out.size_bytes()).data(), out.size_bytes());
    if constexpr (std::is_floating_point_v<T>) {
      for (const T x : out) require(std::isfinite(x), "a number is not finite");
    }
  }
  std::string_view get_text() { return take(get<std::uint32_t>()); }
  // All has been read.
  void finish() const { require(left_.empty(), "there is more than was written"); }

  static void require(bool holds, const char* otherwise) {
    if (!holds) throw PolicyStateError("the policy state contradicts itself: " + std::string(otherwise));
  }

 private:
  std::string_view take(std::size_t size) {
    require(size <= left_.size(), "it ends too soon");
    const std::string_view taken = left_.substr(0, size);
    left_.remove_prefix(size);
    return taken;
  }

  std::string_view left_;
};

// The whole state of a policy with these parameters, in the order of PolicyInfo::parameters.
std::string seal_state(const PolicyInfo& policy, std::span<const double> parameters, std::string_view learned);

// What the policy itself wrote. Throws PolicyStateError when these bytes are not what seal_state() made for the same
// policy and parameters.
std::string_view open_state(std::string_view state, const PolicyInfo& policy, std::span<const double> parameters);

}  // namespace kvopt
