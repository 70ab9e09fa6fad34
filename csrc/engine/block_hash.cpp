#include "kvopt/block_hash.hpp"

#include <array>
#include <cstring>
#include <string>

#include "engine/sha256.hpp"
#include "engine/xxh3.hpp"
#include "kvopt/error.hpp"

namespace kvopt {

namespace {

struct Scheme {
  std::string_view name;
  bool sha256;
  bool cbor;
};

constexpr std::array<Scheme, 4> kSchemes = {
    {{"sha256", true, false}, {"sha256_cbor", true, true}, {"xxhash", false, false}, {"xxhash_cbor", false, true}}};

const Scheme& scheme_of(std::string_view name) {
  for (const Scheme& scheme : kSchemes) {
    if (scheme.name == name) return scheme;
  }
  throw ConfigError("no hash scheme '" + std::string(name) + "'; there are sha256, sha256_cbor, xxhash, xxhash_cbor");
}

// Bytes from the least significant on.
std::uint8_t* put_little(std::uint8_t* at, std::uint64_t value, std::size_t bytes) {
  for (std::size_t i = 0; i < bytes; ++i) *at++ = static_cast<std::uint8_t>(value >> (8 * i));
  return at;
}

std::uint8_t* put_big(std::uint8_t* at, std::uint64_t value, std::size_t bytes) {
  for (std::size_t i = bytes; i-- > 0;) *at++ = static_cast<std::uint8_t>(value >> (8 * i));
  return at;
}

// Opcodes of Python's pickle.
namespace opcode {
constexpr std::uint8_t kProtocol = 0x80;
constexpr std::uint8_t kFrame = 0x95;
constexpr std::uint8_t kShortBytes = 'C';
constexpr std::uint8_t kMemoize = 0x94;
constexpr std::uint8_t kMark = '(';
constexpr std::uint8_t kTuple = 't';
constexpr std::uint8_t kTuple1 = 0x85;  // tuples of two and three follow
constexpr std::uint8_t kTuple3 = 0x87;
constexpr std::uint8_t kInt1 = 'K';
constexpr std::uint8_t kInt2 = 'M';
constexpr std::uint8_t kInt4 = 'J';
constexpr std::uint8_t kNone = 'N';
constexpr std::uint8_t kStop = '.';
}  // namespace opcode

std::uint8_t* put_cbor_head(std::uint8_t* at, std::uint8_t major, std::uint32_t value) {
  const auto type = static_cast<std::uint8_t>(major << 5);
  if (value < 24) {
    *at++ = static_cast<std::uint8_t>(type | value);
    return at;
  }
  const std::uint8_t width = value < 0x100 ? 0 : value < 0x10000 ? 1 : 2;  // 1, 2 or 4 bytes
  *at++ = static_cast<std::uint8_t>(type | (24 + width));
  return put_big(at, value, std::size_t{1} << width);
}

constexpr std::size_t kMostOverhead = 512;  // all but the tokens, with padding

}  // namespace

BlockHasher::BlockHasher(std::string_view scheme, std::uint32_t block_tokens)
    : sha256_(scheme_of(scheme).sha256), cbor_(scheme_of(scheme).cbor), block_tokens_(block_tokens) {
  if (block_tokens < 1 || block_tokens > kMostBlockTokens) {
    throw ConfigError("a block of " + std::to_string(block_tokens) + " tokens; it must be 1 to " +
                      std::to_string(kMostBlockTokens));
  }
  message_.resize(std::size_t{block_tokens} * 5 + kMostOverhead);
}

void BlockHasher::hash(const std::uint8_t* parent, std::size_t parent_bytes, const std::int32_t* tokens,
                       std::uint8_t* out) {
  if (parent_bytes < 1 || parent_bytes > 255) {
    throw ConfigError("a parent hash of " + std::to_string(parent_bytes) + " bytes; it must be 1 to 255");
  }
  const std::size_t size =
      cbor_ ? write_cbor(parent, parent_bytes, tokens) : write_pickle(parent, parent_bytes, tokens);
  if (sha256_) {
    sha256::digest_in_place(sha256::fastest(), message_.data(), size, out);
  } else {
    xxh3::digest_128(message_.data(), size, out);
  }
}

// Python's pickler remembers every bytes object and tuple it writes (MEMOIZE), whether or not it comes again.
std::size_t BlockHasher::write_pickle(const std::uint8_t* parent, std::size_t parent_bytes,
                                      const std::int32_t* tokens) {
  constexpr std::size_t kFrameAt = 3;
  std::uint8_t* at = message_.data();
  *at++ = opcode::kProtocol;
  *at++ = 5;
  *at++ = opcode::kFrame;
  at += sizeof(std::uint64_t);
  *at++ = opcode::kShortBytes;
  *at++ = static_cast<std::uint8_t>(parent_bytes);
  std::memcpy(at, parent, parent_bytes);
  at += parent_bytes;
  *at++ = opcode::kMemoize;
  if (block_tokens_ > 3) *at++ = opcode::kMark;
  for (std::uint32_t i = 0; i < block_tokens_; ++i) {
    const auto token = static_cast<std::uint32_t>(tokens[i]);
    if (token < 0x100) {
      at[0] = opcode::kInt1;
      at[1] = static_cast<std::uint8_t>(token);
      at += 2;
    } else {
      at[0] = token < 0x10000 ? opcode::kInt2 : opcode::kInt4;
      put_little(at + 1, token, 4);  // where two are enough, the next write goes over the others
      at += token < 0x10000 ? 3 : 5;
    }
  }
  *at++ = block_tokens_ > 3 ? opcode::kTuple : static_cast<std::uint8_t>(opcode::kTuple1 + block_tokens_ - 1);
  *at++ = opcode::kMemoize;
  *at++ = opcode::kNone;
  *at++ = opcode::kTuple3;
  *at++ = opcode::kMemoize;
  *at++ = opcode::kStop;
  const auto size = static_cast<std::size_t>(at - message_.data());
  put_little(message_.data() + kFrameAt, size - kFrameAt - sizeof(std::uint64_t), sizeof(std::uint64_t));
  return size;
}

std::size_t BlockHasher::write_cbor(const std::uint8_t* parent, std::size_t parent_bytes, const std::int32_t* tokens) {
  enum Major : std::uint8_t { kUnsigned, kNegative, kBytes, kText, kArray };
  constexpr std::uint8_t kNull = 0xf6;
  std::uint8_t* at = put_cbor_head(message_.data(), kArray, 3);
  at = put_cbor_head(at, kBytes, static_cast<std::uint32_t>(parent_bytes));
  std::memcpy(at, parent, parent_bytes);
  at = put_cbor_head(at + parent_bytes, kArray, block_tokens_);
  for (std::uint32_t i = 0; i < block_tokens_; ++i) {
    const std::int32_t token = tokens[i];
    at = token >= 0 ? put_cbor_head(at, kUnsigned, static_cast<std::uint32_t>(token))
                    : put_cbor_head(at, kNegative, ~static_cast<std::uint32_t>(token));
  }
  *at++ = kNull;
  return static_cast<std::size_t>(at - message_.data());
}

}  // namespace kvopt
