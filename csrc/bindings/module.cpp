#include "bindings/bindings.hpp"

PYBIND11_MODULE(_core, m) {
  using namespace kvopt::bindings;
  m.doc() = "The native core of KVopt.";
  bind_errors(m);
  bind_build_info(m);
  bind_prefix_trace(m);
  bind_policy(m);
  bind_request(m);
  bind_block_value(m);
  bind_block_pool(m);
  bind_replay(m);
  bind_upper_bound(m);
  bind_engine_block(m);
  bind_engine_pool(m);
  bind_block_hash(m);
  bind_scoring(m);
  bind_metrics(m);
  bind_simulation(m);
#if KVOPT_BUILD_CUDA
  bind_scorer(m);
#endif
}
