#include "bindings/simulation_parts.hpp"

#include <pybind11/stl.h>

#include <array>
#include <string>
#include <utility>

#include "kvopt/error.hpp"

namespace kvopt::bindings {

namespace py = pybind11;
using simulator::RequestPtr;

namespace {

std::string type_name(const py::object& object) { return Py_TYPE(object.ptr())->tp_name; }

class PythonScheduler final : public simulator::Scheduler {
 public:
  PythonScheduler(py::object scheduler, const py::handle& view)
      : scheduler_(std::move(scheduler)),
        view_(view),
        add_(scheduler_.attr("add")),
        prepend_(scheduler_.attr("prepend")),
        peek_(scheduler_.attr("peek")),
        pop_(scheduler_.attr("pop")),
        remove_(scheduler_.attr("remove")),
        stable_until_(scheduler_.attr("stable_until")) {}

  void add(const RequestPtr& request) override { add_(request); }
  void prepend(const RequestPtr& request) override { prepend_(request); }
  RequestPtr peek(simulator::SchedulerView& /*view*/) override { return named(peek_(view_), "peek"); }
  void pop(const RequestPtr& request) override {
    if (named(pop_(), "pop") == request) return;
    throw SchedulerError(type_name(scheduler_) + ".pop() gave another request than peek() named");
  }
  void remove(const RequestPtr& request) override { remove_(request); }
  Time stable_until() override { return py::cast<double>(stable_until_()); }
  std::size_t size() override { return py::len(scheduler_); }

 private:
  RequestPtr named(const py::object& answer, const char* method) const {
    if (py::isinstance<simulator::Request>(answer)) return py::cast<RequestPtr>(answer);
    throw SchedulerError(type_name(scheduler_) + "." + method + "() gave " + py::cast<std::string>(py::repr(answer)) +
                         "; it must give a request");
  }

  py::object scheduler_;
  const py::handle& view_;  // the engine that owns this, while it runs
  py::object add_;
  py::object prepend_;
  py::object peek_;
  py::object pop_;
  py::object remove_;
  py::object stable_until_;
};

class PythonStepTime final : public simulator::StepTime {
 public:
  explicit PythonStepTime(const py::object& model)
      : step_ms_(model.attr("step_ms")), prefill_ms_(model.attr("prefill_ms")) {}

  double step_ms(std::span<const simulator::Chunk> chunks, std::int64_t decodes, std::int64_t context) override {
    py::list shapes;
    for (const simulator::Chunk& chunk : chunks) shapes.append(py::make_tuple(chunk.tokens, chunk.context));
    return py::cast<double>(step_ms_(shapes, decodes, context));
  }
  double prefill_ms(std::int64_t tokens, std::int64_t context) override {
    return py::cast<double>(prefill_ms_(tokens, context));
  }

 private:
  py::object step_ms_;
  py::object prefill_ms_;
};

class PythonRetention final : public simulator::Retention {
 public:
  explicit PythonRetention(py::object retention) : retention_(std::move(retention)) {}

  Time next_due() override { return py::cast<double>(retention_.attr("next_due")); }
  bool before_step(Time now) override { return py::cast<bool>(retention_.attr("before_step")(now)); }
  void planned(Time now) override { retention_.attr("planned")(now); }
  void arrived(const RequestPtr& request, Time now) override { retention_.attr("arrived")(request, now); }
  void scheduled(const RequestPtr& request, std::int64_t hit, Time now) override {
    retention_.attr("scheduled")(request, hit, now);
  }
  void preempted(const RequestPtr& request, Time now) override { retention_.attr("preempted")(request, now); }
  void finished(const RequestPtr& request, const RequestInfo& info, Time now) override {
    retention_.attr("finished")(request, info, now);
  }
  void aborted(const RequestPtr& request, Time now) override { retention_.attr("aborted")(request, now); }
  bool make_room(std::int64_t blocks, Time now, const RequestPtr& waiting) override {
    return py::cast<bool>(retention_.attr("make_room")(blocks, now, waiting));
  }
  void close(Time now) override { retention_.attr("close")(now); }

 private:
  py::object retention_;
};

}  // namespace

std::unique_ptr<simulator::Scheduler> to_scheduler(const py::object& scheduler, const py::handle& view) {
  if (py::isinstance<simulator::RequestQueue>(scheduler)) {
    return std::make_unique<simulator::FifoScheduler>(py::cast<std::shared_ptr<simulator::RequestQueue>>(scheduler));
  }
  return std::make_unique<PythonScheduler>(scheduler, view);
}

std::unique_ptr<simulator::StepTime> to_step_time(const py::object& step_time) {
  if (!py::isinstance<py::tuple>(step_time)) return std::make_unique<PythonStepTime>(step_time);
  const auto [k0, k1, k2, k3, d1, d2] = py::cast<std::array<double, 6>>(step_time);
  return std::make_unique<simulator::LinearStepTime>(simulator::LinearCoefficients{k0, k1, k2, k3, d1, d2});
}

std::unique_ptr<simulator::Retention> to_retention(const py::object& retention) {
  if (retention.is_none()) return std::make_unique<simulator::Retention>();
  return std::make_unique<PythonRetention>(retention);
}

}  // namespace kvopt::bindings
