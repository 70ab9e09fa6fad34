// One function per bound class; module.cpp calls them in order.
#pragma once

#include <pybind11/pybind11.h>

namespace kvopt::bindings {

void bind_errors(pybind11::module_& m);
void bind_build_info(pybind11::module_& m);
void bind_prefix_trace(pybind11::module_& m);
void bind_policy(pybind11::module_& m);
void bind_block_value(pybind11::module_& m);
void bind_block_pool(pybind11::module_& m);
void bind_replay(pybind11::module_& m);
void bind_upper_bound(pybind11::module_& m);
void bind_engine_block(pybind11::module_& m);
void bind_engine_pool(pybind11::module_& m);
void bind_block_hash(pybind11::module_& m);
void bind_scoring(pybind11::module_& m);
void bind_metrics(pybind11::module_& m);
void bind_request(pybind11::module_& m);
void bind_simulation(pybind11::module_& m);
void bind_scorer(pybind11::module_& m);  // where there is a CUDA compiler: cuda/

}  // namespace kvopt::bindings
