// State of the cached blocks of a pool, by runs, as a structure of arrays.
//
// A run is a stretch of consecutive blocks of one prefix that share their whole state: stored by one request, held, hit
// and released together since. Where two requests part, a run is split, so state never has to be kept a block. Runs
// form the prefix tree: `parent` is the run that ends where this one begins. A prompt of 6,400 blocks is a few runs,
// and what a policy sees of a request is an event, not thousands.
//
// Arrays are sized for the worst case (every block a run) at construction; pages that were never used take no memory.
#pragma once

#include <cstdint>
#include <cstdlib>
#include <memory>
#include <new>
#include <type_traits>

#include "kvopt/types.hpp"

namespace kvopt {

// Zeros, of fixed size, in memory that the system provides page by page as it is touched.
template <class T>
class LazyArray {
  static_assert(std::is_trivially_copyable_v<T>);

 public:
  explicit LazyArray(std::size_t size) : data_(static_cast<T*>(std::calloc(size, sizeof(T)))), size_(size) {
    if (data_ == nullptr && size > 0) throw std::bad_alloc();
  }

  T& operator[](std::size_t i) { return data_.get()[i]; }
  const T& operator[](std::size_t i) const { return data_.get()[i]; }
  T* data() { return data_.get(); }
  const T* data() const { return data_.get(); }
  std::size_t size() const { return size_; }

 private:
  struct Free {
    void operator()(T* p) const { std::free(p); }
  };
  std::unique_ptr<T, Free> data_;
  std::size_t size_;
};

// How many may hold a run at once.
inline constexpr std::uint32_t kMostReferences = UINT16_MAX;

// Retention priority, 0 (evict first) to 100 (evict last), as TensorRT-LLM has it.
inline constexpr std::uint8_t kDefaultPriority = 35;
inline constexpr std::uint8_t kMaxPriority = 100;

namespace run_flag {
inline constexpr std::uint8_t kLive = 1;
inline constexpr std::uint8_t kDuplicate = 2;  // another run had the same key when this one was stored
inline constexpr std::uint8_t kForgotten = 4;  // cannot be hit any more; empty as soon as nobody holds it
inline constexpr std::uint8_t kChosen = 8;     // is about to be evicted
}  // namespace run_flag

// Always owned by a shared_ptr, so that views of it may outlive the pool.
struct RunTable : std::enable_shared_from_this<RunTable> {
  explicit RunTable(std::uint32_t runs)
      : capacity(runs),
        parent(runs),
        first_slot(runs),
        length(runs),
        depth(runs),
        children(runs),
        references(runs),
        leases(runs),
        hits(runs),
        last_use(runs),
        priority(runs),
        flags(runs) {}

  // A request can find it.
  bool hittable(RunId r) const { return (flags[r] & (run_flag::kLive | run_flag::kForgotten)) == run_flag::kLive; }
  // Held by nobody and of use to a later request.
  bool evictable(RunId r) const {
    return references[r] == 0 &&
           (flags[r] & (run_flag::kLive | run_flag::kForgotten | run_flag::kChosen)) == run_flag::kLive;
  }
  // Key of its first block.
  std::uint64_t first_key(RunId r) const { return slot_keys[first_slot[r]]; }
  // Blocks of its prefix up to its deep end.
  std::uint32_t end(RunId r) const { return depth[r] + length[r]; }
  // Evictable, and nothing cached behind it: what a policy may choose.
  bool is_victim(RunId r) const { return children[r] == 0 && evictable(r); }
  // Bytes if every block were a run of its own. Without leases nothing is written to that column.
  std::size_t bytes(bool leasing) const {
    constexpr std::size_t kRun = 6 * sizeof(std::uint32_t) + sizeof(std::uint16_t) + sizeof(Time) + 2;
    return capacity * (kRun + (leasing ? sizeof(std::uint16_t) : 0));
  }

  std::uint32_t capacity;                    // runs, equal to the pool's blocks
  std::uint32_t used = 0;                    // runs with an id of `used` or more were never live
  const std::uint64_t* slot_keys = nullptr;  // of cached blocks, a run's side by side; the pool's own
  LazyArray<RunId> parent;
  LazyArray<std::uint32_t> first_slot;  // where its keys and block ids lie
  LazyArray<std::uint32_t> length;      // blocks
  LazyArray<std::uint32_t> depth;       // blocks of its prefix before it
  LazyArray<std::uint32_t> children;    // runs
  LazyArray<std::uint16_t> references;  // requests and leases that hold it
  LazyArray<std::uint16_t> leases;      // of these, leases
  LazyArray<std::uint32_t> hits;        // requests that found it cached
  LazyArray<Time> last_use;             // when a request last let go of it
  LazyArray<std::uint8_t> priority;     // retention priority
  LazyArray<std::uint8_t> flags;        // run_flag
};

}  // namespace kvopt
