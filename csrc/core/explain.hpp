// Why blocks stay or go: what a policy thinks of every run that nobody holds, in the order in which they would go.
#pragma once

#include <algorithm>
#include <tuple>
#include <vector>

#include "kvopt/policy.hpp"

namespace kvopt {

inline BlockValue explain_run(const RunTable& runs, const Policy& policy, RunId r, Time now) {
  return {policy.explain(r, now), r, runs.length[r], runs.depth[r], runs.children[r], runs.hits[r], runs.priority[r]};
}

// Possible victims first, the least value in front; then runs with something cached behind them. Looks at every run.
inline std::vector<BlockValue> explain_runs(const RunTable& runs, const Policy& policy, Time now) {
  std::vector<BlockValue> values;
  for (RunId r = 0; r < runs.used; ++r) {
    if (runs.evictable(r)) values.push_back(explain_run(runs, policy, r, now));
  }
  std::ranges::sort(values, {}, [](const BlockValue& v) { return std::tuple(v.children > 0, v.value, -v.age, v.run); });
  return values;
}

}  // namespace kvopt
