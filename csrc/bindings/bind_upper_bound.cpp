#include <string>

#include "bindings/arrays.hpp"
#include "bindings/bindings.hpp"
#include "kvopt/error.hpp"
#include "kvopt/upper_bound.hpp"

namespace kvopt::bindings {

namespace {

std::uint32_t positive(const char* name, std::int64_t value) {
  if (value < 1 || value >= kNoBlock) {
    throw ConfigError(std::string(name) + " is " + std::to_string(value) + "; it must be 1 to " +
                      std::to_string(kNoBlock - 1));
  }
  return static_cast<std::uint32_t>(value);
}

BoundMetric to_metric(const std::string& metric) {
  if (metric == "block_hit") return BoundMetric::kBlockHit;
  if (metric == "cost_saved") return BoundMetric::kCostSaved;
  throw ConfigError("metric is '" + metric + "'; it must be 'block_hit' or 'cost_saved'");
}

UpperBound search(const PrefixTrace& trace, std::int64_t capacity, const std::string& metric, bool bypass,
                  std::int64_t window, std::int64_t steps, std::int64_t block_tokens, double p_star) {
  if (steps < 0 || steps > UINT32_MAX) {
    throw ConfigError("steps is " + std::to_string(steps) + "; it must be 0 to " + std::to_string(UINT32_MAX));
  }
  const BoundOptions options{positive("capacity", capacity),
                             to_metric(metric),
                             bypass,
                             positive("window", window),
                             static_cast<std::uint32_t>(steps),
                             positive("block_tokens", block_tokens),
                             p_star};
  const py::gil_scoped_release release;
  return upper_bound(trace, options);
}

UpperBound at_prices(const PrefixTrace& trace, const Array<double>& prices, std::int64_t capacity,
                     const std::string& metric, bool bypass, std::int64_t block_tokens, double p_star) {
  const BoundOptions options{.capacity = positive("capacity", capacity),
                             .metric = to_metric(metric),
                             .bypass = bypass,
                             .block_tokens = positive("block_tokens", block_tokens),
                             .p_star = p_star};
  const auto given = as_span(prices);
  const py::gil_scoped_release release;
  return upper_bound_at(trace, options, given);
}

}  // namespace

void bind_upper_bound(py::module_& m) {
  py::class_<UpperBound>(m, "UpperBound", "What no policy saves more than, for one trace, capacity and metric.")
      .def_readonly("value", &UpperBound::value, "Hit blocks, or prefill cost in units of a first token's.")
      .def_readonly("uniform", &UpperBound::uniform, "The same from the best single price.")
      .def_readonly("total", &UpperBound::total, "What hitting every block of the requests not skipped would give.")
      .def_readonly("skipped", &UpperBound::skipped, "Requests with at least as many blocks as the capacity.")
      .def_readonly("steps", &UpperBound::steps, "Steps that the search for prices took.")
      .def_readonly("seconds", &UpperBound::seconds, "Time of the computation, on one thread.")
      .def_property_readonly(
          "prices", [](const UpperBound& b) { return to_array(b.prices); },
          "float64, one a request: the price of one block's place while it runs; 0 when skipped.");

  m.def(
      "upper_bound", &search, py::arg("prefix"), py::arg("capacity"), py::arg("metric") = "block_hit", py::kw_only(),
      py::arg("bypass") = false, py::arg("window") = 1, py::arg("steps") = 1000, py::arg("block_tokens") = 16,
      py::arg("p_star") = 28600.0,
      "A certified upper bound on the hit blocks ('block_hit') or the prefill cost saved ('cost_saved'; `block_tokens` "
      "and `p_star` in tokens set it) by any policy at `capacity` blocks, knowing the future, under the prefix rule; "
      "conditional on the order of the requests. `bypass`: a request's own blocks need no place while it runs, as in "
      "'min-bypass'. One price for each `window` requests, improved in at most `steps` subgradient steps. The GIL is "
      "released. Raises ConfigError.");

  m.def("upper_bound_at", &at_prices, py::arg("prefix"), py::arg("prices"), py::arg("capacity"),
        py::arg("metric") = "block_hit", py::kw_only(), py::arg("bypass") = false, py::arg("block_tokens") = 16,
        py::arg("p_star") = 28600.0,
        "The bound that given prices prove: float64, one a request, finite and at least 0. The GIL is released. Raises "
        "ConfigError.");
}

}  // namespace kvopt::bindings
