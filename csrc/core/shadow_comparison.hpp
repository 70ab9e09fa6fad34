// The face of policies that keep a shadow of LRU beside them. Found by a cast: libraries of policies are compiled
// against the functions of Policy, to which this adds none.
#pragma once

#include "kvopt/policy.hpp"

namespace kvopt {

class ComparesWithLru {
 public:
  virtual ShadowComparison compare_with_lru() const = 0;

 protected:
  ~ComparesWithLru() = default;
};

}  // namespace kvopt
