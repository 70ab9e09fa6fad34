// Belady's MIN under the prefix rule: evict the block whose next use is farthest, among equals the deepest.
//
// Along a path the next use never comes sooner with depth, so the cached blocks that request q will use next are a
// prefix of q's path, cut from its deep end. A count a request is therefore the whole state: q's hit is what is left of
// its count. Structure: counts by next use, and a heap of the non-empty ones. Complexity: O(log requests) a run of
// blocks with one next use, plus one sequential pass over the references.
#include <chrono>
#include <queue>
#include <string>

#include "kvopt/error.hpp"
#include "kvopt/replay.hpp"
#include "offline/flat_cache.hpp"
#include "offline/path_marks.hpp"

namespace kvopt {

namespace {

struct NextUse {
  std::uint32_t request;  // that uses the run next; number of requests: never
  std::uint32_t count;
};

// The runs of every request's path by next use, found by walking the trace backwards.
class NextUses {
 public:
  NextUses(const PrefixTrace& trace, const std::vector<std::uint8_t>& skipped) : first_(trace.requests() + 1) {
    const auto never = static_cast<std::uint32_t>(trace.requests());
    PathMarks marks(trace);
    for (std::size_t r = trace.requests(); r-- > 0;) {
      first_[r + 1] = runs_.size();
      if (skipped[r] != 0) continue;
      marks.visit(r, [&](std::uint32_t mark, std::uint32_t count) {
        runs_.push_back({mark == PathMarks::kUnmarked ? never : mark, count});
      });
    }
    first_[0] = runs_.size();
  }

  std::span<const NextUse> of(std::size_t r) const {
    return std::span(runs_).subspan(first_[r + 1], first_[r] - first_[r + 1]);
  }

 private:
  std::vector<NextUse> runs_;
  std::vector<std::size_t> first_;  // runs of request r: first_[r + 1] to first_[r], since they were found backwards
};

class FarthestFirst {
 public:
  explicit FarthestFirst(std::size_t requests) : count_(requests + 1), queued_(requests + 1) {}

  std::uint32_t total() const { return total_; }

  void add(NextUse run) {
    count_[run.request] += run.count;
    total_ += run.count;
    if (queued_[run.request] == 0) {
      queued_[run.request] = 1;
      farthest_.push(run.request);
    }
  }

  // What is left for request r; its blocks are in use now and no longer counted.
  std::uint32_t take(std::size_t r) {
    const std::uint32_t left = count_[r];
    count_[r] = 0;
    total_ -= left;
    return left;
  }

  void evict(std::uint32_t n) {
    total_ -= n;
    while (n > 0) {
      const std::uint32_t far = farthest_.top();
      const std::uint32_t some = std::min(n, count_[far]);
      count_[far] -= some;
      n -= some;
      if (count_[far] == 0) {
        farthest_.pop();
        queued_[far] = 0;
      }
    }
  }

 private:
  std::vector<std::uint32_t> count_;
  std::vector<std::uint8_t> queued_;
  std::priority_queue<std::uint32_t> farthest_;
  std::uint32_t total_ = 0;
};

}  // namespace

ReplayCounts replay_min(const PrefixTrace& trace, std::uint32_t capacity, bool bypass, Rule rule) {
  if (rule == Rule::kFlat) return replay_min_flat(trace, capacity, bypass);
  if (capacity < 1) throw ConfigError("capacity is 0 blocks; it must be at least 1");
  const std::size_t requests = trace.requests();
  ReplayCounts counts{std::vector<std::uint32_t>(requests), std::vector<std::uint8_t>(requests)};
  const auto start = std::chrono::steady_clock::now();
  for (std::size_t r = 0; r < requests; ++r) counts.skipped[r] = trace.length(r) >= capacity ? 1 : 0;
  const NextUses next(trace, counts.skipped);
  FarthestFirst cached(requests);
  for (std::size_t r = 0; r < requests; ++r) {
    if (counts.skipped[r] != 0) continue;
    counts.hit_blocks[r] = cached.take(r);
    const std::uint32_t own = trace.length(r);
    if (!bypass && cached.total() + own > capacity) {
      const std::uint32_t excess = cached.total() + own - capacity;
      cached.evict(excess);
      counts.evictions += excess;
    }
    for (const NextUse& run : next.of(r)) cached.add(run);
    if (bypass && cached.total() > capacity) {
      const std::uint32_t excess = cached.total() - capacity;
      cached.evict(excess);
      counts.evictions += excess;
    }
  }
  const auto end = std::chrono::steady_clock::now();
  counts.seconds = std::chrono::duration<double>(end - start).count();
  return counts;
}

}  // namespace kvopt
