#include <pybind11/stl.h>

#include <memory>
#include <optional>
#include <string>
#include <tuple>

#include "bindings/arrays.hpp"
#include "bindings/bindings.hpp"
#include "bindings/python_policy.hpp"
#include "bindings/python_pool.hpp"
#include "bindings/simulation_parts.hpp"
#include "kvopt/error.hpp"
#include "simulator/engine.hpp"

namespace kvopt::bindings {

namespace {

using simulator::Engine;
using simulator::EngineOptions;
using simulator::FollowerLists;
using simulator::RequestColumns;
using simulator::RequestSource;
using simulator::ThreadTable;

// One column of a trace, by its name.
template <class T>
std::vector<T> take(const py::dict& columns, const char* name, std::size_t requests) {
  const auto array = Array<T>::ensure(columns[name]);
  if (!array || array.ndim() != 1 || static_cast<std::size_t>(array.size()) != requests) {
    PyErr_Clear();
    throw ConfigError("column '" + std::string(name) + "' must be an array of " + std::to_string(requests) +
                      " numbers");
  }
  return as_vector(array);
}

RequestSource make_source(const PrefixTrace& prefix, const py::dict& columns, std::int64_t block_tokens,
                          bool answers_reused) {
  if (block_tokens < 1) throw ConfigError("block_tokens is " + std::to_string(block_tokens) + "; it must be 1 up");
  const std::size_t n = prefix.requests();
  RequestColumns taken{
      .prompt_tokens = take<std::int64_t>(columns, "prompt_tokens", n),
      .output_tokens = take<std::int64_t>(columns, "output_tokens", n),
      .follower = take<std::int64_t>(columns, "follower", n),
      .session = take<std::int64_t>(columns, "session", n),
      .priority = take<std::int64_t>(columns, "priority", n),
      .trace_session = take<std::int32_t>(columns, "trace_session", n),
      .turn = take<std::int32_t>(columns, "turn", n),
      .tool = take<std::int32_t>(columns, "tool", n),
      .steps = take<std::int32_t>(columns, "steps", n),
      .gap = take<float>(columns, "gap", n),
      .return_probability = take<float>(columns, "return_probability", n),
      .stop = take<std::uint8_t>(columns, "stop", n),
      .subagent = take<std::uint8_t>(columns, "subagent", n),
  };
  for (std::size_t r = 0; r < n; ++r) {
    if (taken.prompt_tokens[r] < 1 || taken.output_tokens[r] < 1) {
      throw ConfigError("request " + std::to_string(r) + ": prompt and answer must have a token each");
    }
    if (taken.follower[r] < -1 || taken.follower[r] >= static_cast<std::int64_t>(n)) {
      throw ConfigError("request " + std::to_string(r) + ": follower " + std::to_string(taken.follower[r]) +
                        " is no request");
    }
    if (taken.stop[r] > static_cast<std::uint8_t>(StopReason::kAbort)) {
      throw ConfigError("request " + std::to_string(r) + ": stop reason " + std::to_string(taken.stop[r]) +
                        "; it must be 0 to 4");
    }
  }
  return {prefix, std::move(taken), block_tokens, answers_reused};
}

using Lists = std::tuple<Array<std::int64_t>, Array<std::int64_t>, Array<double>>;

FollowerLists take(const Lists& given, std::size_t requests) {
  const auto& [begin, request, seconds] = given;
  FollowerLists lists{as_vector(begin), as_vector(request), as_vector(seconds)};
  const auto entries = static_cast<std::int64_t>(lists.request.size());
  bool good = lists.begin.size() == requests + 1 && lists.begin.front() == 0 && lists.begin.back() == entries &&
              lists.seconds.size() == lists.request.size() && std::ranges::is_sorted(lists.begin);
  for (const std::int64_t r : lists.request) good = good && r >= 0 && r < static_cast<std::int64_t>(requests);
  if (!good) throw ConfigError("lists of followers must be (begin[R + 1], request[n], seconds[n]) of requests below R");
  return lists;
}

ThreadTable make_threads(const Array<std::int64_t>& session, const Array<std::int64_t>& waits,
                         const Lists& after_answer, const Lists& after_arrival) {
  const auto n = static_cast<std::size_t>(session.size());
  ThreadTable table{.session = as_vector(session), .waits = as_vector(waits)};
  if (table.waits.size() != n) throw ConfigError("session and waits must be of the same length");
  for (const std::int64_t number : table.session) {
    if (number < 0 || number >= static_cast<std::int64_t>(n)) {
      throw ConfigError("session " + std::to_string(number) + " of " + std::to_string(n) +
                        " requests; sessions are numbered from 0 up");
    }
    table.sessions = std::max(table.sessions, number + 1);
  }
  table.after_answer = take(after_answer, n);
  table.after_arrival = take(after_arrival, n);
  return table;
}

simulator::Preemption to_preemption(const std::string& name) {
  if (name == "last") return simulator::Preemption::kLast;
  if (name == "priority") return simulator::Preemption::kPriority;
  if (name == "cost") return simulator::Preemption::kCost;
  throw ConfigError("preemption: '" + name + "' is none of last, priority, cost");
}

// One run, with all that it is made of.
class Simulation {
 public:
  Simulation(const py::object& pool, const py::object& source, const py::object& threads, const py::object& collector,
             const py::object& scheduler, const py::object& step_time, const py::object& retention,
             const Array<double>& times, const EngineOptions& options)
      : kept_(py::make_tuple(pool, source, threads, collector)),
        policy_(py::cast<PythonPool&>(pool).served().policy()),
        scheduler_(to_scheduler(scheduler, view_)),
        time_(to_step_time(step_time)),
        retention_(to_retention(retention)),
        engine_({.pool = py::cast<PythonPool&>(pool).served(),
                 .source = py::cast<const RequestSource&>(source),
                 .threads = py::cast<const ThreadTable&>(threads),
                 .scheduler = *scheduler_,
                 .time = *time_,
                 .retention = *retention_,
                 .collector = py::cast<simulator::Collector&>(collector)},
                as_vector(times), options) {}

  Engine& engine() { return engine_; }

  void run(const py::handle& self, const py::object& report) {
    view_ = self;
    engine_.run([&](std::int64_t done) {
      raise_interrupt(policy_);
      if (PyErr_CheckSignals() != 0) throw py::error_already_set();
      if (!report.is_none()) report(done);
    });
    raise_interrupt(policy_);
  }

 private:
  py::tuple kept_;
  py::handle view_;
  Policy& policy_;
  std::unique_ptr<simulator::Scheduler> scheduler_;
  std::unique_ptr<simulator::StepTime> time_;
  std::unique_ptr<simulator::Retention> retention_;
  Engine engine_;
};

std::unique_ptr<Simulation> make_simulation(const py::object& pool, const py::object& source, const py::object& threads,
                                            const Array<double>& times, const py::object& collector,
                                            const py::object& scheduler, const py::object& step_time,
                                            const py::object& retention, const std::string& preemption,
                                            std::int64_t token_budget, std::int64_t max_sequences, bool closed,
                                            std::optional<std::int64_t> session_limit, std::optional<double> patience,
                                            const std::optional<std::tuple<std::uint32_t, double, double>>& tier,
                                            bool whole_hits, bool jump) {
  const std::size_t requests = py::cast<const RequestSource&>(source).requests();
  if (py::cast<const ThreadTable&>(threads).session.size() != requests ||
      static_cast<std::size_t>(times.size()) != requests) {
    throw ConfigError("source, threads and times must be of the same requests");
  }
  EngineOptions options;
  options.limits = {token_budget, max_sequences};
  options.preemption = to_preemption(preemption);
  options.clients = {closed, session_limit, patience};
  if (tier) options.tier = simulator::TierOptions{std::get<0>(*tier), std::get<1>(*tier), std::get<2>(*tier)};
  options.whole_hits = whole_hits;
  options.jump = jump;
  return std::make_unique<Simulation>(pool, source, threads, collector, scheduler, step_time, retention, times,
                                      options);
}

}  // namespace

void bind_simulation(py::module_& m) {
  py::class_<RequestSource>(m, "RequestSource", "The requests of a trace, each made when it is sent.")
      .def(
          py::init(&make_source), py::arg("prefix"), py::arg("columns"), py::kw_only(), py::arg("block_tokens"),
          py::arg("answers_reused"),
          "`columns`: one entry a request each of prompt_tokens, output_tokens, follower, session, priority int64; "
          "trace_session, turn, tool, steps int32; gap, return_probability float32 (negative: unknown); stop, subagent "
          "uint8. Raises ConfigError.")
      .def("make", &RequestSource::make, py::arg("request"), py::arg("arrival"), py::arg("session_arrival"),
           "The request as it comes to the server at `arrival` (seconds).");

  py::class_<ThreadTable>(m, "ThreadTable", "Who waits for whom among R requests.")
      .def(py::init(&make_threads), py::arg("session"), py::arg("waits"), py::arg("after_answer"),
           py::arg("after_arrival"),
           "session, waits: int64[R]. The other two: which requests come how many seconds after the answer to each, or "
           "after it came, as (begin int64[R + 1], request int64[n], seconds float64[n]). Raises ConfigError.");

  py::class_<Simulation>(m, "Simulation",
                         "The timed engine: one server and one run. It is the view that schedulers have.")
      .def(py::init(&make_simulation), py::kw_only(), py::arg("pool"), py::arg("source"), py::arg("threads"),
           py::arg("times"), py::arg("collector"), py::arg("scheduler"), py::arg("step_time"), py::arg("retention"),
           py::arg("preemption"), py::arg("token_budget"), py::arg("max_sequences"), py::arg("closed"),
           py::arg("session_limit"), py::arg("patience"), py::arg("tier"), py::arg("whole_hits"), py::arg("jump"),
           "`times`: float64[R], when each request would come in an open loop. `scheduler`: a RequestQueue, served "
           "first "
           "come, first served, or a kvopt.scheduler.Scheduler. `step_time`: (k0, k1, k2, k3, d1, d2) in ms, or a "
           "kvopt.simulator.StepTime. `retention`: None, or an object with the hooks of the simulator's Retention. "
           "`preemption`: 'last', 'priority' or 'cost'. `tier`: None, or (blocks, ms a block, ms a load). Raises "
           "ConfigError.")
      .def(
          "run",
          [](const py::object& self, const py::object& report) { py::cast<Simulation&>(self).run(self, report); },
          py::arg("report") = py::none(),
          "Serve until no client sends anything; `report` is called now and then with the number of requests done "
          "with. "
          "Raises SimulationError when it cannot go on or a check fails, and what policy, scheduler or model raise.")
      .def_property_readonly(
          "now", [](Simulation& s) { return s.engine().now(); }, "Seconds since the beginning of the trace.")
      .def_property_readonly(
          "version", [](Simulation& s) { return s.engine().version(); },
          "Changes whenever what is cached may have changed.")
      .def(
          "cached_tokens",
          [](Simulation& s, const simulator::Request& request) { return s.engine().cached_tokens(request); },
          py::arg("request"),
          "Tokens of the longest cached prefix of a waiting request, at most all but its last one.");
}

}  // namespace kvopt::bindings
