#include <pybind11/stl.h>

#include <string>
#include <tuple>

#include "bindings/arrays.hpp"
#include "bindings/bindings.hpp"
#include "kvopt/error.hpp"
#include "simulator/collector.hpp"

namespace kvopt::bindings {

namespace {

using simulator::Collector;
using simulator::EventKind;
using simulator::EventLog;
using simulator::ExactSample;
using simulator::QuantileSketch;
using simulator::Sample;
using simulator::TimeSeries;

template <class T>
Array<T> copied(const std::vector<T>& values) {
  return Array<T>(static_cast<py::ssize_t>(values.size()), values.data());
}

py::dict to_dict(const simulator::Totals& t) {
  py::dict d;
  d["requests"] = t.requests;
  d["finished"] = t.finished;
  d["refused"] = t.refused;
  d["aborted"] = t.aborted;
  d["unsent"] = t.unsent;
  d["sessions"] = t.sessions;
  d["steps"] = t.steps;
  d["prompt_tokens"] = t.prompt_tokens;
  d["hit_tokens"] = t.hit_tokens;
  d["reread_tokens"] = t.reread_tokens;
  d["loaded_tokens"] = t.loaded_tokens;
  d["output_tokens"] = t.output_tokens;
  d["preemptions"] = t.preemptions;
  d["evictions"] = t.evictions;
  d["evicted_hits"] = t.evicted_hits;
  d["busy_s"] = t.busy_s;
  d["held_block_s"] = t.held_block_s;
  d["cached_block_s"] = t.cached_block_s;
  d["useful_block_s"] = t.useful_block_s;
  d["wasted_block_s"] = t.wasted_block_s;
  d["unresolved_block_s"] = t.unresolved_block_s;
  return d;
}

void hold(TimeSeries& series, double begin, double end, const std::vector<double>& values) {
  series.hold(begin, end, values);
}

void add_event(EventLog& log, double time, std::int64_t kind, std::int64_t request, std::int64_t amount) {
  if (kind < 0 || kind > static_cast<std::int64_t>(EventKind::kEvicted)) {
    throw ConfigError("event kind " + std::to_string(kind) + "; it must be 0 to 8");
  }
  log.add(time, static_cast<EventKind>(kind), request, amount);
}

using LogState = std::tuple<Array<double>, Array<std::uint8_t>, Array<std::int64_t>, Array<std::int64_t>>;

LogState state_of(const EventLog& log) {
  return {copied(log.time()), copied(log.kind()), copied(log.request()), copied(log.amount())};
}

std::shared_ptr<EventLog> restored(const LogState& state) {
  const auto& [time, kind, request, amount] = state;
  auto log = std::make_shared<EventLog>();
  for (py::ssize_t row = 0; row < time.size(); ++row) {
    add_event(*log, time.at(row), kind.at(row), request.at(row), amount.at(row));
  }
  return log;
}

Collector make_collector(const std::vector<std::shared_ptr<Sample>>& latency, std::shared_ptr<Sample> eviction_age,
                         std::shared_ptr<TimeSeries> series, std::shared_ptr<EventLog> log) {
  if (latency.size() != simulator::kLatencies) {
    throw ConfigError(std::to_string(latency.size()) + " samples of latencies; there must be 5");
  }
  if (series->columns() != simulator::kGauges + simulator::kCounts) {
    throw ConfigError("a series of " + std::to_string(series->columns()) + " columns; there must be 10");
  }
  Collector collector;
  std::ranges::copy(latency, collector.latency.begin());
  collector.eviction_age = std::move(eviction_age);
  collector.series = std::move(series);
  collector.log = std::move(log);
  return collector;
}

}  // namespace

void bind_metrics(py::module_& m) {
  py::class_<Sample, std::shared_ptr<Sample>>(m, "Sample", "Values in seconds that are added one by one.")
      .def("add", &Sample::add, py::arg("value"), py::arg("weight") = 1, "Add a value `weight` times.");
  py::class_<ExactSample, Sample, std::shared_ptr<ExactSample>>(m, "ExactSample", "Keeps every value.")
      .def(py::init<>())
      .def_property_readonly(
          "values", [](const ExactSample& s) { return copied(s.values()); }, "float64, in the order of adding.");
  py::class_<QuantileSketch, Sample, std::shared_ptr<QuantileSketch>>(
      m, "QuantileSketch", "Counts in bins whose edges grow by a constant factor from `lowest`.")
      .def(py::init<double, double, std::size_t>(), py::arg("lowest"), py::arg("log_growth"), py::arg("bins"))
      .def_property_readonly(
          "counts", [](const QuantileSketch& s) { return copied(s.counts()); },
          "int64: values a bin; the first holds those up to `lowest`, the last those above all edges.")
      .def_property_readonly("count", &QuantileSketch::count)
      .def_property_readonly("sum", &QuantileSketch::sum)
      .def_property_readonly("max", &QuantileSketch::max);
  py::class_<TimeSeries, std::shared_ptr<TimeSeries>>(
      m, "TimeSeries", "Means of gauges and sums of counts in at most `points` equal buckets from second 0.")
      .def(py::init<std::size_t, std::size_t, std::size_t>(), py::arg("gauges"), py::arg("counts"), py::arg("points"))
      .def("hold", &hold, py::arg("begin"), py::arg("end"), py::arg("values"),
           "The gauges had these values from `begin` to `end` (seconds).")
      .def("count", &TimeSeries::count, py::arg("time"), py::arg("number"), py::arg("amount"),
           "Add to the count of this number at a time in seconds.")
      .def_property_readonly("width", &TimeSeries::width, "Seconds a bucket.")
      .def_property_readonly(
          "sums",
          [](const TimeSeries& s) {
            const auto columns = static_cast<py::ssize_t>(s.columns());
            const auto rows = static_cast<py::ssize_t>(s.covered().size());
            return py::array_t<double>({rows, columns}, s.sums().data());
          },
          "float64[buckets, columns]: gauges times seconds, then counts.")
      .def_property_readonly(
          "covered", [](const TimeSeries& s) { return copied(s.covered()); },
          "float64[buckets]: seconds in which the gauges had a value.");
  py::class_<EventLog, std::shared_ptr<EventLog>>(m, "EventLog", "Rows of what happened, in that order.")
      .def(py::init<>())
      .def("add", &add_event, py::arg("time"), py::arg("kind"), py::arg("request"), py::arg("amount"),
           "Note an event at `time` (seconds); its kind is a number of kvopt.metrics.EventKind.")
      .def("__len__", [](const EventLog& log) { return log.time().size(); })
      .def_property_readonly("time", [](const EventLog& log) { return copied(log.time()); })
      .def_property_readonly("kind", [](const EventLog& log) { return copied(log.kind()); })
      .def_property_readonly("request", [](const EventLog& log) { return copied(log.request()); })
      .def_property_readonly("amount", [](const EventLog& log) { return copied(log.amount()); })
      .def(py::pickle(&state_of, &restored));
  py::class_<Collector>(m, "Collector", "What one simulated run measures.")
      .def(py::init(&make_collector), py::arg("latency"), py::arg("eviction_age"), py::arg("series"), py::arg("log"),
           "Samples in the order of kvopt.metrics.LATENCIES; a series of four gauges and six counts; a log or None.")
      .def(
          "totals", [](const Collector& c) { return to_dict(c.totals); }, "The fields of kvopt.metrics.Totals.")
      .def_readonly("prefill_tokens", &Collector::prefill_tokens, "By cause, in the order of kvopt.metrics.CAUSES.")
      .def_readonly("prefill_ms", &Collector::prefill_ms, "By cause, likewise.");
}

}  // namespace kvopt::bindings
