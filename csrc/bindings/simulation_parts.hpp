// What a simulation takes from Python: schedulers, models of time and retention, as the engine's own interfaces.
#pragma once

#include <pybind11/pybind11.h>

#include <memory>

#include "simulator/retention.hpp"
#include "simulator/scheduler.hpp"
#include "simulator/step_time.hpp"

namespace kvopt::bindings {

// A RequestQueue is served first come, first served; anything else is asked as a kvopt.scheduler.Scheduler. Its view is
// what `view`, which outlives it, refers to at each call.
std::unique_ptr<simulator::Scheduler> to_scheduler(const pybind11::object& scheduler, const pybind11::handle& view);

// Six coefficients in milliseconds (k0, k1, k2, k3, d1, d2), or a kvopt.simulator.StepTime.
std::unique_ptr<simulator::StepTime> to_step_time(const pybind11::object& step_time);

// None, or a kvopt.simulator.retention.Retention.
std::unique_ptr<simulator::Retention> to_retention(const pybind11::object& retention);

}  // namespace kvopt::bindings
