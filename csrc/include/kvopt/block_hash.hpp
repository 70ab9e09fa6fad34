// Hashes of the blocks of a prompt as vLLM computes them, byte for byte: each over (the hash before it, the block's
// token ids, None), serialised by Python's pickle (protocol 5) or as canonical CBOR, then SHA-256 or XXH3 of 128 bits
// (vllm/utils/hashing.py, hash_block_tokens in vllm/v1/core/kv_cache_utils.py).
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "kvopt/export.h"

namespace kvopt {

class BlockHasher {
 public:
  // scheme: "sha256", "sha256_cbor", "xxhash" or "xxhash_cbor". Throws ConfigError for another one, and when
  // block_tokens is not 1 to kMostBlockTokens (above, pickle would split a block into frames).
  KVOPT_API BlockHasher(std::string_view scheme, std::uint32_t block_tokens);

  static constexpr std::uint32_t kMostBlockTokens = 8192;

  std::uint32_t block_tokens() const { return block_tokens_; }
  std::size_t hash_bytes() const { return sha256_ ? 32 : 16; }

  // The hash of one block of block_tokens() tokens behind a block with the hash `parent` (1 to 255 bytes), into
  // out[0, hash_bytes()); parent and out may be the same.
  KVOPT_API void hash(const std::uint8_t* parent, std::size_t parent_bytes, const std::int32_t* tokens,
                      std::uint8_t* out);

 private:
  std::size_t write_pickle(const std::uint8_t* parent, std::size_t parent_bytes, const std::int32_t* tokens);
  std::size_t write_cbor(const std::uint8_t* parent, std::size_t parent_bytes, const std::int32_t* tokens);

  bool sha256_;
  bool cbor_;
  std::uint32_t block_tokens_;
  std::vector<std::uint8_t> message_;
};

}  // namespace kvopt
