// One number a block, written along whole paths of a prefix tree and read back as runs of equal values.
//
// Marked with the request that used it last, in either direction of time, a path always falls into few runs: a request
// overwrites its whole path, so a run ends only where two requests part.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "kvopt/prefix_trace.hpp"

namespace kvopt {

class PathMarks {
 public:
  static constexpr std::uint32_t kUnmarked = UINT32_MAX;

  explicit PathMarks(const PrefixTrace& trace) : trace_(trace), mark_(trace.unique_blocks(), kUnmarked) {}

  // Calls run(mark, count) for each run of equal marks on the path of request r, from the root down, then marks the
  // whole path with r.
  template <class Run>
  void visit(std::size_t r, Run run) {
    trace_.ranges(r, ranges_);
    std::uint32_t mark = kUnmarked;
    std::uint32_t count = 0;
    for (const BlockRange& range : ranges_) {
      const auto first = mark_.begin() + range.first;
      const auto last = first + range.count;
      for (auto at = first; at != last;) {
        if (*at != mark) {
          if (count > 0) run(mark, count);
          mark = *at;
          count = 0;
        }
        const auto end = std::find_if(at, last, [mark](std::uint32_t m) { return m != mark; });
        count += static_cast<std::uint32_t>(end - at);
        at = end;
      }
      std::fill(first, last, static_cast<std::uint32_t>(r));
    }
    if (count > 0) run(mark, count);
  }

 private:
  const PrefixTrace& trace_;
  std::vector<std::uint32_t> mark_;
  std::vector<BlockRange> ranges_;
};

}  // namespace kvopt
