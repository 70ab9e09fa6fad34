// Structures that cross the C interface: they begin with their size as the caller compiled it, so that they can grow.
#pragma once

#include <algorithm>
#include <cstring>
#include <span>
#include <string>

#include "capi/status.hpp"

namespace kvopt::capi {

// What no structure will ever have; more is a size that was never set.
inline constexpr std::size_t kLargestStructure = 4096;

// Of version 1 of the interface: fields that come later stand behind.
template <class Structure>
inline constexpr std::size_t kFirstSize = sizeof(Structure);

template <class Structure>
void check_size(std::size_t size, const char* name) {
  if (size >= kFirstSize<Structure> && size <= kLargestStructure) return;
  throw Refusal(KVOPT_VERSION_MISMATCH, std::string(name) + " is said to have " + std::to_string(size) +
                                            " bytes; it must be " + std::to_string(kFirstSize<Structure>) +
                                            " or more: set its size");
}

// What the caller gives; fields that the caller's header lacks are as in `defaults`.
template <class Structure>
Structure read(const Structure* given, const char* name, const Structure& defaults = {}) {
  check_not_null(given, name);
  check_size<Structure>(given->size, name);
  const auto* bytes = reinterpret_cast<const unsigned char*>(given);
  const std::span unknown(bytes + std::min(sizeof(Structure), given->size), bytes + given->size);
  if (std::ranges::any_of(unknown, [](unsigned char byte) { return byte != 0; })) {
    throw Refusal(KVOPT_VERSION_MISMATCH, std::string(name) + " sets fields that this version does not know");
  }
  Structure result = defaults;
  std::memcpy(&result, given, std::min(sizeof(Structure), given->size));
  return result;
}

// Gives the caller's structure these values; fields that this version does not know become zero.
template <class Structure>
void write(Structure* given, std::size_t size, const char* name, Structure values) {
  check_not_null(given, name);
  check_size<Structure>(size, name);
  values.size = size;
  auto* bytes = reinterpret_cast<unsigned char*>(given);
  std::memcpy(bytes, &values, std::min(sizeof(Structure), size));
  std::fill(bytes + std::min(sizeof(Structure), size), bytes + size, static_cast<unsigned char>(0));
}

}  // namespace kvopt::capi
