#include "kvopt/engine_pool.hpp"

#include <algorithm>
#include <array>
#include <cstring>
#include <utility>

#include "engine/block_index.hpp"
#include "engine/lru_order.hpp"
#include "engine/policy_order.hpp"
#include "kvopt/error.hpp"

namespace kvopt {

namespace {

constexpr std::uint32_t kMostBlocks = std::uint32_t{1} << 30;

EngineOptions checked(const EngineOptions& options) {
  EnginePool::check(options);
  return options;
}

// What policies know a key by. Not keyed, unlike the index's tag: decisions are the same in every process.
std::uint64_t digest(BlockKey key) {
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

std::uint32_t group_of(BlockKey key) {
  std::uint32_t group = 0;
  for (const std::uint8_t byte : key.last(kGroupBytes)) group = group << 8 | byte;
  return group;
}

void check_hash_bytes(std::size_t bytes) {
  if (bytes >= 1 && bytes + kGroupBytes <= kMostKeyBytes) return;
  throw ConfigError("a block hash of " + std::to_string(bytes) + " bytes; it must be 1 to " +
                    std::to_string(kMostKeyBytes - kGroupBytes));
}

}  // namespace

struct EnginePool::Storage {
  explicit Storage(std::uint32_t blocks) : index(blocks) {}
  BlockIndex index;
  std::unique_ptr<VictimOrder> order;
  std::vector<StoredBlock> stored;  // scratch
  std::vector<BlockId> empty;       // scratch
  std::vector<BlockId> cached;      // scratch
};

void EnginePool::check(const EngineOptions& options) {
  if (options.blocks < 1 || options.blocks > kMostBlocks) {
    throw ConfigError("blocks is " + std::to_string(options.blocks) + "; it must be 1 to " +
                      std::to_string(kMostBlocks));
  }
  if (options.block_tokens < 1) throw ConfigError("block_tokens is 0; it must be at least 1");
  if (!(options.p_star > 0)) {
    throw ConfigError("p_star is " + std::to_string(options.p_star) + " tokens; it must be more than 0");
  }
}

EnginePool::EnginePool(const EngineOptions& options, std::unique_ptr<Policy> policy)
    : options_(checked(options)),
      references_(options.blocks),
      tokens_(options.blocks),
      storage_(std::make_unique<Storage>(options.blocks)) {
  if (policy == nullptr) {
    storage_->order = std::make_unique<LruOrder>(options.blocks);
  } else {
    storage_->order = std::make_unique<PolicyOrder>(options_, std::move(policy), references_);
  }
}

EnginePool::~EnginePool() = default;

void EnginePool::check_block(BlockId block) const {
  if (block >= options_.blocks) {
    throw StaleBlockError("block " + std::to_string(block) + "; the pool has " + std::to_string(options_.blocks));
  }
}

void EnginePool::check_key(BlockKey key) const {
  if (key.size() <= kGroupBytes) throw ConfigError("a key of " + std::to_string(key.size()) + " bytes has no hash");
  check_hash_bytes(key.size() - kGroupBytes);
}

// ---- handing out and taking back
// ------------------------------------------------------------------------------------------

std::uint32_t EnginePool::free_blocks() const { return storage_->order->size(); }

void EnginePool::take(std::span<BlockId> out, const RequestInfo& info) {
  if (out.size() > free_blocks()) {
    throw NotEnoughBlocksError(std::to_string(out.size()) + " blocks are needed; " + std::to_string(free_blocks()) +
                               " are free");
  }
  storage_->order->take(out, info);
  for (const BlockId b : out) {
    evictions_ += drop_keys(b) > 0 ? 1 : 0;
    references_[b] = 1;
  }
}

void EnginePool::hold(std::span<const BlockId> blocks, bool hit, const RequestInfo& info) {
  for (const BlockId b : blocks) check_block(b);
  changed_.clear();
  for (const BlockId b : blocks) {
    if (b == kNullBlock) continue;
    ++references_[b];
    changed_.push_back(b);
  }
  storage_->order->on_held(changed_, hit, info);
}

// Takes the references off, or nothing at all.
void EnginePool::let_go(std::span<const BlockId> blocks) {
  changed_.clear();
  freed_.clear();
  for (const BlockId b : blocks) {
    if (b == kNullBlock) continue;
    if (b < options_.blocks && references_[b] > 0) {
      if (--references_[b] == 0) freed_.push_back(b);
      changed_.push_back(b);
      continue;
    }
    for (const BlockId done : changed_) ++references_[done];
    check_block(b);
    throw ReferenceCountError("block " + std::to_string(b) + " is released, but nobody holds it");
  }
}

void EnginePool::release(std::span<const BlockId> blocks, const RequestInfo& info) {
  let_go(blocks);
  storage_->empty.clear();
  storage_->cached.clear();
  for (const BlockId b : freed_) {
    if (storage_->order->contains(b)) continue;  // the engine counts beside the pool
    (storage_->index.has_key(b) ? storage_->cached : storage_->empty).push_back(b);
  }
  storage_->order->on_released(changed_, storage_->empty, storage_->cached, info);
}

void EnginePool::release_last(std::span<const BlockId> blocks, const RequestInfo& info) {
  let_go(blocks);
  std::erase_if(freed_, [this](BlockId b) { return storage_->order->contains(b); });
  storage_->order->on_released_last(freed_, info);
}

void EnginePool::set_references(BlockId block, std::int32_t references) {
  check_block(block);
  references_[block] = references;
  storage_->order->on_recounted(block);
}

// ---- content
// --------------------------------------------------------------------------------------------------------------

std::size_t EnginePool::drop_keys(BlockId block) {
  return storage_->index.remove(block, [this](BlockKey key) {
    if (note_removed_) removed_.emplace_back(key.begin(), key.end());
  });
}

std::size_t EnginePool::remove_keys(BlockId block) {
  check_block(block);
  const std::size_t removed = drop_keys(block);
  if (removed > 0) storage_->order->on_forgotten(block);
  return removed;
}

bool EnginePool::add_key(BlockId block, BlockKey key, std::uint32_t tokens) {
  const bool first = !storage_->index.has_key(block);
  if (!storage_->index.insert(key, block)) return false;
  if (first) tokens_[block] = tokens;
  return first;
}

void EnginePool::store(const FullBlocks& full, const RequestInfo& info) {
  if (full.count == 0) return;
  check_hash_bytes(full.hash_bytes);
  const auto wanted = [&](std::size_t i) {
    return full.blocks[i] != kNullBlock && (full.wanted == nullptr || full.wanted[i] != 0);
  };
  const auto tokens = [&](std::size_t i) {
    return static_cast<std::uint32_t>((full.first + i + 1) * full.block_tokens);
  };
  for (std::size_t i = 0; i < full.count; ++i) {
    const BlockId b = full.blocks[i];
    check_block(b);
    if (wanted(i) && cached(b) && tokens_[b] >= tokens(i)) {
      throw StaleBlockError("block " + std::to_string(b) + " is cached already, for " + std::to_string(tokens_[b]) +
                            " tokens; it cannot be stored for " + std::to_string(tokens(i)));
    }
  }
  KeyBuffer key(full.hash_bytes, full.group);
  std::vector<StoredBlock>& stored = storage_->stored;
  stored.clear();
  BlockId before = full.before;
  for (std::size_t i = 0; i < full.count; before = full.blocks[i++]) {
    if (!wanted(i)) continue;
    const BlockId b = full.blocks[i];
    if (cached(b)) remove_keys(b);  // it was reachable from inside, and is full now
    const BlockKey full_key = key.with(full.hashes[i]);
    add_key(b, full_key, tokens(i));
    stored.push_back({.block = b,
                      .before = before,
                      .depth = static_cast<std::uint32_t>(full.first + i),
                      .group = full.group,
                      .key = digest(full_key)});
  }
  storage_->order->on_stored(stored, info);
}

bool EnginePool::insert_key(BlockId block, BlockKey key, std::uint32_t tokens, const RequestInfo& info) {
  check_block(block);
  check_key(key);
  if (carries(block, key)) return false;
  if (add_key(block, key, tokens)) {
    const bool free = storage_->order->runs() != nullptr && storage_->order->contains(block);
    if (free) storage_->order->on_held({&block, 1}, false, info);
    const StoredBlock stored{.block = block,
                             .before = kNoBlock,
                             .depth = std::max(tokens / options_.block_tokens, std::uint32_t{1}) - 1,
                             .group = group_of(key),
                             .key = digest(key)};
    storage_->order->on_stored({&stored, 1}, info);
    if (free) storage_->order->on_released({&block, 1}, {}, {&block, 1}, info);
  }
  return true;
}

void EnginePool::move_keys(BlockId from, BlockId to, const RequestInfo& info) {
  check_block(from);
  check_block(to);
  if (cached(to)) throw StaleBlockError("block " + std::to_string(to) + " carries keys; it cannot take others over");
  std::vector<std::vector<std::uint8_t>> keys;
  storage_->index.remove(from, [&](BlockKey key) { keys.emplace_back(key.begin(), key.end()); });
  if (keys.empty()) return;
  storage_->order->on_forgotten(from);
  for (const auto& key : keys) insert_key(to, key, tokens_[from], info);
}

bool EnginePool::reset() {
  if (free_blocks() + 1 != options_.blocks) return false;
  const bool noting = std::exchange(note_removed_, false);
  for (BlockId b = 1; b < options_.blocks; ++b) {
    if (!cached(b)) continue;
    storage_->index.remove(b, [](BlockKey) {});
    storage_->order->on_forgotten(b);
  }
  note_removed_ = noting;
  return true;
}

bool EnginePool::cached(BlockId block) const { return storage_->index.has_key(block); }
BlockKey EnginePool::key(BlockId block) const { return storage_->index.key(block); }
std::vector<BlockKey> EnginePool::more_keys(BlockId block) const { return storage_->index.more_keys(block); }
BlockId EnginePool::find(BlockKey key) const { return storage_->index.find(key); }
bool EnginePool::carries(BlockId block, BlockKey key) const { return storage_->index.contains(key, block); }
std::size_t EnginePool::keys() const { return storage_->index.size(); }

// Looks a window of hashes ahead, so that their places in the table are in the cache when they are compared.
std::size_t EnginePool::longest_hit(std::span<const std::uint8_t* const> hashes, std::size_t hash_bytes,
                                    std::span<const std::uint32_t> groups, BlockId* out) const {
  if (hash_bytes + kGroupBytes > kMostKeyBytes || groups.empty()) return 0;
  constexpr std::size_t kAhead = 16;
  const BlockIndex& index = storage_->index;
  KeyBuffer key(hash_bytes, groups.front());
  std::array<BlockIndex::Tag, 2 * kAhead> tags{};
  const auto fetch = [&](std::size_t i) {
    if (i >= hashes.size()) return;
    BlockIndex::Tag& tag = tags[i % tags.size()];
    tag = index.tag(key.with(hashes[i]));
    index.prefetch(tag);
  };
  const auto fetch_entry = [&](std::size_t i) {
    if (i < hashes.size()) index.prefetch_entry(tags[i % tags.size()]);
  };
  for (std::size_t i = 0; i < 2 * kAhead - 1; ++i) fetch(i);
  for (std::size_t i = 0; i < kAhead; ++i) fetch_entry(i);
  for (std::size_t i = 0; i < hashes.size(); ++i) {
    fetch(i + 2 * kAhead - 1);
    fetch_entry(i + kAhead);
    for (std::size_t g = 0; g < groups.size(); ++g) {
      BlockId found = kNoBlock;
      if (g == 0) {
        found = index.find(key.with(hashes[i]), tags[i % tags.size()]);
      } else {
        KeyBuffer other(hash_bytes, groups[g]);
        found = index.find(other.with(hashes[i]));
      }
      if (found == kNoBlock) return i;
      out[i * groups.size() + g] = found;
    }
  }
  return hashes.size();
}

// ---- the policy and views
// ---------------------------------------------------------------------------------------------

void EnginePool::set_flat_group(std::uint32_t group) { storage_->order->set_flat_group(group); }
void EnginePool::miss(BlockKey key, const RequestInfo& info) { storage_->order->on_miss(digest(key), info); }
bool EnginePool::honours_priority() const { return storage_->order->honours_priority(); }

void EnginePool::set_priority(BlockId block, std::uint8_t priority) {
  check_block(block);
  if (priority > kMaxPriority) throw ConfigError("priority " + std::to_string(priority) + "; it must be 0 to 100");
  if (!honours_priority()) throw ConfigError("the pool's order does not look at priorities");
  storage_->order->set_priority(block, priority);
}

const std::string& EnginePool::failure() const { return storage_->order->failure(); }
std::vector<BlockId> EnginePool::free_order() const { return storage_->order->listing(); }
const RunTable* EnginePool::runs() const { return storage_->order->runs(); }

std::size_t EnginePool::bytes() const {
  return options_.blocks * (sizeof(std::int32_t) + sizeof(std::uint32_t)) + storage_->index.bytes() +
         storage_->order->bytes();
}

std::vector<std::string> EnginePool::verify() const {
  std::vector<std::string> broken;
  const auto note = [&](std::string what) {
    if (!what.empty()) broken.push_back(std::move(what));
  };
  note(storage_->index.verify());
  note(storage_->order->verify());
  std::uint32_t free = 0;
  for (BlockId b = 1; b < options_.blocks; ++b) {
    const bool listed = storage_->order->contains(b);
    free += listed ? 1 : 0;
    if (listed != (references_[b] <= 0)) {
      note("block " + std::to_string(b) + " has " + std::to_string(references_[b]) + " references and is " +
           (listed ? "free" : "not free"));
    }
  }
  if (free != free_blocks()) note("free blocks are miscounted");
  if (storage_->order->contains(kNullBlock) || cached(kNullBlock)) note("the null block is in use");
  return broken;
}

}  // namespace kvopt
