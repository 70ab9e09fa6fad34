#include <pybind11/stl.h>

#include <algorithm>
#include <optional>
#include <string>

#include "bindings/arrays.hpp"
#include "bindings/bindings.hpp"
#include "bindings/python_policy.hpp"
#include "bindings/rule.hpp"
#include "kvopt/error.hpp"
#include "kvopt/replay.hpp"

namespace kvopt::bindings {

namespace {

// The columns of a trace that a policy may look at, kept alive while they are read.
class Context {
 public:
  Context(const Array<double>& time, const py::object& columns) : time_(time) {
    view_.time = as_span(time_);
    if (columns.is_none()) return;
    for (const auto& [key, value] : py::cast<py::dict>(columns)) {
      const auto name = py::cast<std::string>(key);
      if (name == "session") {
        view_.session = take<std::int32_t>(name, value);
      } else if (name == "turn") {
        view_.turn = take<std::int32_t>(name, value);
      } else if (name == "tool") {
        view_.tool = take<std::int32_t>(name, value);
      } else if (name == "output_tokens") {
        view_.output_tokens = take<std::uint32_t>(name, value);
      } else if (name == "gap") {
        view_.gap = take<float>(name, value);
      } else if (name == "stop") {
        view_.stop = take<std::uint8_t>(name, value);
      } else if (name == "subagent") {
        view_.subagent = take<std::uint8_t>(name, value);
      } else if (name == "steps") {
        view_.steps = take<std::int32_t>(name, value);
      } else if (name == "return_probability") {
        view_.return_probability = take<float>(name, value);
      } else {
        throw ConfigError("context column '" + name +
                          "' is unknown; known: session, turn, tool, output_tokens, gap, stop, subagent, "
                          "steps, return_probability");
      }
    }
    for (const std::uint8_t stop : view_.stop) {
      if (stop > static_cast<std::uint8_t>(StopReason::kAbort)) {
        throw ConfigError("stop reason " + std::to_string(stop) + "; it must be 0 to 4");
      }
    }
  }

  const RequestColumns& view() const { return view_; }

 private:
  template <class T>
  std::span<const T> take(const std::string& name, const py::handle& value) {
    auto array = Array<T>::ensure(value);
    if (!array || array.ndim() != 1) {
      PyErr_Clear();
      throw ConfigError("context column '" + name + "' must be a one-dimensional array of numbers");
    }
    kept_.append(array);
    return as_span(array);
  }

  Array<double> time_;
  py::list kept_;
  RequestColumns view_;
};

ReplayCounts run(const PrefixTrace& trace, const Array<double>& time, const py::object& policy, std::int64_t capacity,
                 const std::string& rule, std::int64_t block_tokens, double p_star, const py::object& context,
                 const std::optional<py::bytes>& state, bool save_state) {
  if (capacity < 1 || capacity >= kNoBlock) {
    throw ConfigError("capacity is " + std::to_string(capacity) + " blocks; it must be 1 to " +
                      std::to_string(kNoBlock - 1));
  }
  if (block_tokens < 1 || block_tokens > INT32_MAX) {
    throw ConfigError("block_tokens is " + std::to_string(block_tokens) + "; it must be at least 1");
  }
  ReplayOptions options{.capacity = static_cast<std::uint32_t>(capacity),
                        .rule = to_rule(rule),
                        .block_tokens = static_cast<std::uint32_t>(block_tokens),
                        .p_star = p_star,
                        .state = {},
                        .save_state = save_state};
  if (state) options.state = std::string_view(*state);
  const Context columns(time, context);
  if (py::isinstance<py::str>(policy)) {
    const PolicySpec spec = parse_policy(py::cast<std::string>(policy));
    if (spec.name == "min" || spec.name == "min-bypass") {
      if (state || save_state) throw PolicyStateError("policy " + spec.name + " knows the future and learns nothing");
      const py::gil_scoped_release release;
      return replay_min(trace, options.capacity, spec.name == "min-bypass", options.rule);
    }
  }
  std::unique_ptr<Policy> native = to_policy(policy);
  if (save_state && !native->learns()) native->save_state();  // refuses before the work
  if (is_python_policy(policy)) return replay(trace, columns.view(), std::move(native), options);
  const py::gil_scoped_release release;
  return replay(trace, columns.view(), std::move(native), options);
}

}  // namespace

void bind_replay(py::module_& m) {
  py::class_<ReplayCounts>(m, "ReplayCounts", "What one replay counted.")
      .def_property_readonly(
          "hit_blocks", [](const ReplayCounts& c) { return to_array(c.hit_blocks); },
          "uint32, one a request: leading blocks found cached; 0 when skipped.")
      .def_property_readonly(
          "skipped",
          [](const ReplayCounts& c) {
            py::array_t<bool> out(static_cast<py::ssize_t>(c.skipped.size()));
            std::ranges::copy(c.skipped, out.mutable_data());
            return out;
          },
          "bool, one a request: it has at least as many blocks as the capacity.")
      .def_property_readonly(
          "state", [](const ReplayCounts& c) { return py::bytes(c.state); },
          "bytes: what the policy had learned at the end; empty unless it was asked for.")
      .def_readonly("evictions", &ReplayCounts::evictions)
      .def_readonly("seconds", &ReplayCounts::seconds, "Time of the replay itself, on one thread.");

  m.def(
      "replay", &run, py::arg("prefix"), py::arg("time"), py::arg("policy"), py::arg("capacity"), py::kw_only(),
      py::arg("rule") = "prefix", py::arg("block_tokens") = 16, py::arg("p_star") = 28600.0,
      py::arg("context") = py::none(), py::arg("state") = py::none(), py::arg("save_state") = false,
      "Replay a trace through a fresh pool of `capacity` blocks. `time`: float64 seconds, one a request, not "
      "decreasing. `policy`: a spec such as 'lru', the offline 'min' or 'min-bypass', or a new kvopt.policies.Policy. "
      "`rule`: 'prefix', or 'flat' (every reference is an access to a block by itself). `block_tokens`, `p_star` "
      "(tokens): "
      "what policies with a cost model compute with. `context`: columns that the policy may look at (session, turn, "
      "tool int32; output_tokens uint32; gap float32 "
      "seconds, NaN unknown; stop, subagent uint8; the hints steps int32, -1 unknown, and return_probability float32, "
      "NaN unknown). `state`: what such a policy has learned elsewhere, to go on from (bytes); "
      "`save_state`: keep what it has learned. The GIL is released for native policies. Raises ConfigError, "
      "UnknownPolicyError, PolicyStateError, PolicyError, or PoolError when time goes back.");

  py::class_<StackDistances>(m, "StackDistances", "LRU at all capacities, from one pass over a trace.")
      .def(
          "hits_at",
          [](const StackDistances& s, const Array<std::int64_t>& capacities) {
            return to_array(s.hits_at(as_span(capacities)));
          },
          py::arg("capacities"),
          "uint64: hit blocks of the whole trace at each capacity (int64). Exact above the longest request; below it, "
          "requests that a replay would skip take part. Raises ConfigError below 1.")
      .def(
          "request_hits_at",
          [](const StackDistances& s, std::int64_t capacity) { return to_array(s.request_hits_at(capacity)); },
          py::arg("capacity"), "uint32: hit blocks of each request at one capacity.")
      .def_property_readonly("block_references", &StackDistances::block_references);

  m.def(
      "lru_stack_distances", [](const PrefixTrace& trace) { return StackDistances(trace); }, py::arg("prefix"),
      py::call_guard<py::gil_scoped_release>(), "Compute LRU's stack distances (one pass, GIL released).");
}

}  // namespace kvopt::bindings
