#include <pybind11/stl.h>

#include "bindings/arrays.hpp"
#include "bindings/bindings.hpp"
#include "kvopt/policy.hpp"

namespace kvopt::bindings {

namespace {

// A read-only view of a column; the table lives as long as the view.
template <class T>
py::array column(const std::shared_ptr<RunTable>& table, const LazyArray<T>& values) {
  auto owner = std::make_unique<std::shared_ptr<RunTable>>(table);
  const py::capsule base(owner.release(), [](void* p) { delete static_cast<std::shared_ptr<RunTable>*>(p); });
  py::array_t<T> view(static_cast<py::ssize_t>(values.size()), values.data(), base);
  py::detail::array_proxy(view.ptr())->flags &= ~py::detail::npy_api::NPY_ARRAY_WRITEABLE_;
  return view;
}

}  // namespace

void bind_policy(py::module_& m) {
  py::enum_<StopReason>(m, "StopReason", "Why a request stopped.")
      .value("UNKNOWN", StopReason::kUnknown)
      .value("TOOL_USE", StopReason::kToolUse)
      .value("END_TURN", StopReason::kEndOfTurn)
      .value("LENGTH", StopReason::kLength)
      .value("ABORT", StopReason::kAbort);

  py::class_<RequestInfo>(m, "RequestInfo",
                          "What the server knows of a request and its session. Only `now` is required; -1 is unknown.")
      .def(py::init([](double now, std::int64_t request, std::int32_t session, std::int32_t turn, std::int32_t tool,
                       std::uint32_t output_tokens, float gap, float expected_gap, StopReason stop, bool subagent,
                       bool last_turn, std::int32_t steps, float return_probability) {
             return RequestInfo{
                 now,   request, session,  turn,     tool, output_tokens, gap, expected_gap, return_probability,
                 steps, stop,    subagent, last_turn};
           }),
           py::arg("now"), py::kw_only(), py::arg("request") = -1, py::arg("session") = -1, py::arg("turn") = -1,
           py::arg("tool") = -1, py::arg("output_tokens") = 0, py::arg("gap") = -1.0F, py::arg("expected_gap") = -1.0F,
           py::arg("stop") = StopReason::kUnknown, py::arg("subagent") = false, py::arg("last_turn") = false,
           py::arg("steps") = -1, py::arg("return_probability") = -1.0F)
      .def_readonly("now", &RequestInfo::now, "Seconds on the caller's monotonic clock.")
      .def_readonly("request", &RequestInfo::request, "Running number of the request in a trace.")
      .def_readonly("session", &RequestInfo::session)
      .def_readonly("turn", &RequestInfo::turn, "0 for the first request of a session.")
      .def_readonly("tool", &RequestInfo::tool, "Index of the tool that the request called.")
      .def_readonly("output_tokens", &RequestInfo::output_tokens)
      .def_readonly("gap", &RequestInfo::gap, "Seconds between the session's previous answer and this request.")
      .def_readonly("expected_gap", &RequestInfo::expected_gap, "A client's hint: seconds until it returns.")
      .def_readonly("stop", &RequestInfo::stop)
      .def_readonly("subagent", &RequestInfo::subagent)
      .def_readonly("last_turn", &RequestInfo::last_turn)
      .def_readonly("steps", &RequestInfo::steps, "A hint: requests of the session until this prefix is needed again.")
      .def_readonly("return_probability", &RequestInfo::return_probability,
                    "A hint: how likely the session goes on, 0 to 1.");

  py::class_<PolicyParameter>(m, "PolicyParameter", "A setting of a policy.")
      .def_readonly("name", &PolicyParameter::name)
      .def_readonly("default", &PolicyParameter::value)
      .def_readonly("lowest", &PolicyParameter::lowest)
      .def_readonly("highest", &PolicyParameter::highest)
      .def_readonly("description", &PolicyParameter::description);

  py::class_<PolicyInfo>(m, "PolicyInfo", "What a native policy is.")
      .def_readonly("name", &PolicyInfo::name)
      .def_readonly("summary", &PolicyInfo::summary)
      .def_readonly("reference", &PolicyInfo::reference, "The paper or engine that it comes from.")
      .def_readonly("offline", &PolicyInfo::offline, "Whether it knows the future: for replay only.")
      .def_readonly("needs", &PolicyInfo::needs, "Trace columns (fields of RequestInfo) that it is nothing without.")
      .def_readonly("parameters", &PolicyInfo::parameters);

  m.def("policies", &policies, "All policies: built-in ones, online before offline; then those of loaded libraries.");
  m.def(
      "load_policy_library", &load_policy_library, py::arg("path"),
      "Add the policies of a shared library that was compiled against kvopt/plugin.hpp, and return what they are; the "
      "same again where it is loaded already. Raises PolicyLibraryError.");
  m.def(
      "parse_policy",
      [](const std::string& spec) {
        const PolicySpec parsed = parse_policy(spec);
        py::dict parameters;
        for (const PolicyInfo& info : policies()) {
          if (info.name != parsed.name) continue;
          for (std::size_t i = 0; i < parsed.parameters.size(); ++i) {
            parameters[py::str(info.parameters[i].name)] = parsed.parameters[i];
          }
        }
        return py::make_tuple(parsed.name, parameters);
      },
      py::arg("spec"),
      "Split 'name:parameter=value,...' into the name and all parameters, defaults included. Raises UnknownPolicyError "
      "(with the nearest name) or ConfigError.");

  using Table = std::shared_ptr<RunTable>;
  py::class_<RunTable, Table>(
      m, "RunTable",
      "The cached blocks of a pool by runs: stretches of consecutive blocks of one prefix that share their whole "
      "state. "
      "Read-only NumPy views, one entry a run, always current; entries of runs that are not live mean nothing.")
      .def_readonly("capacity", &RunTable::capacity, "Entries of each column: the pool's blocks.")
      .def_readonly("used", &RunTable::used, "Runs with an id of `used` or more were never live.")
      .def_property_readonly(
          "parent", [](const Table& t) { return column(t, t->parent); },
          "uint32: the run in front of it in its prefix; 4294967295 is none.")
      .def_property_readonly(
          "length", [](const Table& t) { return column(t, t->length); }, "uint32: blocks.")
      .def_property_readonly(
          "depth", [](const Table& t) { return column(t, t->depth); }, "uint32: blocks of its prefix in front of it.")
      .def_property_readonly(
          "children", [](const Table& t) { return column(t, t->children); },
          "uint32: runs behind it; a run with any is no victim.")
      .def_property_readonly(
          "references", [](const Table& t) { return column(t, t->references); },
          "uint16: requests and leases that hold it.")
      .def_property_readonly(
          "leases", [](const Table& t) { return column(t, t->leases); }, "uint16: leases that hold it.")
      .def_property_readonly(
          "hits", [](const Table& t) { return column(t, t->hits); },
          "uint32: requests that found it cached since it was stored.")
      .def_property_readonly(
          "last_use", [](const Table& t) { return column(t, t->last_use); },
          "float64: seconds, when a request last let go of it.")
      .def_property_readonly(
          "priority", [](const Table& t) { return column(t, t->priority); },
          "uint8: retention priority, 0 to 100, default 35.")
      .def_property_readonly(
          "live",
          [](const RunTable& t) {
            py::array_t<bool> out(t.used);
            for (RunId r = 0; r < t.used; ++r) out.mutable_data()[r] = (t.flags[r] & run_flag::kLive) != 0;
            return out;
          },
          "bool, one entry a run below `used` (a copy): whether it holds blocks.");
}

}  // namespace kvopt::bindings
