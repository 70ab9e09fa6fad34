// EnginePool: what blocks hold. Storing, finding, moving and dropping keys.
#include <string>

#include "engine/block_key.hpp"
#include "engine/engine_pool_storage.hpp"
#include "kvopt/error.hpp"

namespace kvopt {

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
  stored_ += stored.size();
  storage_->order->on_stored(stored, info);
}

bool EnginePool::insert_key(BlockId block, BlockKey key, std::uint32_t tokens, const RequestInfo& info) {
  check_block(block);
  check_key(key);
  if (carries(block, key)) return false;
  if (add_key(block, key, tokens)) {
    ++stored_;
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

}  // namespace kvopt
