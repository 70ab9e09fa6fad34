// vLLM's block pool in the plainest form: a list of free blocks, a list of blocks for each key. The model of
// EnginePool.
#pragma once

#include <algorithm>
#include <cstdint>
#include <list>
#include <map>
#include <string>
#include <vector>

#include "kvopt/types.hpp"

namespace kvopt::test {

class NaiveEnginePool {
 public:
  explicit NaiveEnginePool(BlockId blocks) : references(blocks), keys(blocks), tokens(blocks) {
    for (BlockId b = 1; b < blocks; ++b) free.push_back(b);
  }

  std::vector<BlockId> take(std::size_t n) {
    std::vector<BlockId> out;
    for (; n > 0; --n) {
      out.push_back(free.front());
      free.pop_front();
      drop(out.back());
      references[out.back()] = 1;
    }
    return out;
  }

  void hold(const std::vector<BlockId>& blocks) {
    for (const BlockId b : blocks) {
      if (b == 0) continue;
      if (references[b]++ == 0) free.remove(b);
    }
  }

  void release(const std::vector<BlockId>& blocks) {
    std::list<BlockId> first;
    for (const BlockId b : blocks) {
      if (b == 0 || --references[b] > 0) continue;
      if (keys[b].empty()) {
        first.push_back(b);
      } else {
        free.push_back(b);
      }
    }
    free.splice(free.begin(), first);
  }

  void release_last(const std::vector<BlockId>& blocks) {
    for (const BlockId b : blocks) {
      if (b != 0 && --references[b] == 0) free.push_back(b);
    }
  }

  void insert(BlockId b, const std::string& key, std::uint32_t key_tokens) {
    if (std::ranges::find(keys[b], key) != keys[b].end()) return;
    if (keys[b].empty()) tokens[b] = key_tokens;
    keys[b].push_back(key);
    carriers[key].push_back(b);
  }

  void drop(BlockId b) {
    for (const std::string& key : keys[b]) {
      std::erase(carriers[key], b);
      if (carriers[key].empty()) carriers.erase(key);
    }
    keys[b].clear();
  }

  BlockId find(const std::string& key) const {
    const auto found = carriers.find(key);
    return found == carriers.end() ? kNoBlock : found->second.front();
  }

  std::list<BlockId> free;
  std::vector<int> references;
  std::vector<std::vector<std::string>> keys;  // of each block, in order
  std::vector<std::uint32_t> tokens;
  std::map<std::string, std::vector<BlockId>> carriers;
};

}  // namespace kvopt::test
