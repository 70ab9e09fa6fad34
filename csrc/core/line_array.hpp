// A LazyArray of records that are cache lines of their own: none lies across two.
#pragma once

#include <cstddef>
#include <memory>

#include "kvopt/run_table.hpp"

namespace kvopt {

template <class T>
class LineArray {
  static constexpr std::size_t kLine = 64;
  static_assert(alignof(T) == kLine);

 public:
  explicit LineArray(std::size_t size) : memory_((size + 1) * sizeof(T)), size_(size) {
    void* first = memory_.data();
    std::size_t space = memory_.size();
    records_ = static_cast<T*>(std::align(kLine, size * sizeof(T), first, space));
  }

  T& operator[](std::size_t i) { return records_[i]; }
  const T& operator[](std::size_t i) const { return records_[i]; }
  T* data() { return records_; }
  std::size_t size() const { return size_; }

 private:
  LazyArray<std::byte> memory_;
  T* records_;
  std::size_t size_;
};

}  // namespace kvopt
