// Keys of an engine's blocks: a hash and the group of KV caches that it is of, as bytes.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstring>
#include <string>

#include "kvopt/engine_pool.hpp"
#include "kvopt/error.hpp"

namespace kvopt {

// What policies know a key by. Not keyed, unlike the index's tag: decisions are the same in every process.
inline std::uint64_t digest(BlockKey key) {
  std::uint64_t head = 0;
  std::uint64_t tail = 0;
  const std::size_t n = std::min(key.size(), sizeof head);
  std::memcpy(&head, key.data(), n);
  std::memcpy(&tail, key.data() + key.size() - n, n);
  return head ^ (tail * 0x9E3779B97F4A7C15U);
}

// A hash and its group, as one key.
class KeyBuffer {
 public:
  KeyBuffer(std::size_t hash_bytes, std::uint32_t group) : size_(hash_bytes + kGroupBytes) { set_group(group); }

  void set_group(std::uint32_t group) {
    for (std::size_t i = 0; i < kGroupBytes; ++i) {
      bytes_[size_ - 1 - i] = static_cast<std::uint8_t>(group >> (8 * i));
    }
  }
  BlockKey with(const std::uint8_t* hash) {
    std::memcpy(bytes_.data(), hash, size_ - kGroupBytes);
    return {bytes_.data(), size_};
  }

 private:
  std::array<std::uint8_t, kMostKeyBytes> bytes_{};
  std::size_t size_;
};

inline std::uint32_t group_of(BlockKey key) {
  std::uint32_t group = 0;
  for (const std::uint8_t byte : key.last(kGroupBytes)) group = group << 8 | byte;
  return group;
}

// Throws ConfigError.
inline void check_hash_bytes(std::size_t bytes) {
  if (bytes >= 1 && bytes + kGroupBytes <= kMostKeyBytes) return;
  throw ConfigError("a block hash of " + std::to_string(bytes) + " bytes; it must be 1 to " +
                    std::to_string(kMostKeyBytes - kGroupBytes));
}

}  // namespace kvopt
