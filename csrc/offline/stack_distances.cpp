#include <algorithm>
#include <string>

#include "kvopt/error.hpp"
#include "kvopt/replay.hpp"
#include "offline/path_marks.hpp"

namespace kvopt {

namespace {

// Sums over suffixes of a sequence of counts, by a Fenwick tree.
class SuffixSums {
 public:
  explicit SuffixSums(std::size_t n) : tree_(n + 1) {}

  void add(std::size_t at, std::uint32_t change) {
    for (std::size_t i = at + 1; i < tree_.size(); i += i & (~i + 1)) tree_[i] += change;
    total_ += change;
  }

  // Sum over all places after `at`.
  std::uint32_t after(std::size_t at) const {
    std::uint32_t before = 0;
    for (std::size_t i = at + 1; i > 0; i &= i - 1) before += tree_[i];
    return total_ - before;
  }

 private:
  std::vector<std::uint32_t> tree_;  // unsigned: subtracting wraps and comes out right
  std::uint32_t total_ = 0;
};

void check_capacity(std::int64_t capacity) {
  if (capacity < 1) throw ConfigError("capacity is " + std::to_string(capacity) + " blocks; it must be at least 1");
}

}  // namespace

// The LRU stack is the requests by time, newest first, each with the blocks that it used last, root first. A block that
// request g used last, with i blocks of g above it, lies at distance (blocks of requests after g) + i + 1.
StackDistances::StackDistances(const PrefixTrace& trace) : references_(trace.block_references()) {
  PathMarks marks(trace);
  SuffixSums used_last(trace.requests());
  first_run_.reserve(trace.requests() + 1);
  std::vector<std::pair<std::uint32_t, std::uint32_t>> moved;
  for (std::size_t r = 0; r < trace.requests(); ++r) {
    first_run_.push_back(runs_.size());
    moved.clear();
    marks.visit(r, [&](std::uint32_t mark, std::uint32_t count) {
      if (mark == PathMarks::kUnmarked) return;
      runs_.push_back({used_last.after(mark), count});
      moved.emplace_back(mark, count);
    });
    for (const auto& [mark, count] : moved) used_last.add(mark, ~count + 1);
    used_last.add(r, trace.length(r));
  }
  first_run_.push_back(runs_.size());
}

std::vector<std::uint64_t> StackDistances::hits_at(std::span<const std::int64_t> capacities) const {
  std::vector<std::uint64_t> hits;
  for (const std::int64_t capacity : capacities) {
    check_capacity(capacity);
    std::uint64_t total = 0;
    for (const Run& run : runs_) {
      if (run.newer < capacity)
        total += std::min<std::uint64_t>(run.count, static_cast<std::uint64_t>(capacity) - run.newer);
    }
    hits.push_back(total);
  }
  return hits;
}

std::vector<std::uint32_t> StackDistances::request_hits_at(std::int64_t capacity) const {
  check_capacity(capacity);
  std::vector<std::uint32_t> hits(first_run_.size() - 1);
  for (std::size_t r = 0; r < hits.size(); ++r) {
    for (std::size_t i = first_run_[r]; i < first_run_[r + 1]; ++i) {
      const Run& run = runs_[i];
      if (run.newer < capacity) {
        hits[r] += static_cast<std::uint32_t>(std::min<std::int64_t>(run.count, capacity - run.newer));
      }
    }
  }
  return hits;
}

}  // namespace kvopt
