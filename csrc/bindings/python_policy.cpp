#include "bindings/python_policy.hpp"

#include <algorithm>
#include <optional>
#include <string>
#include <utility>

#include "bindings/arrays.hpp"
#include "kvopt/error.hpp"

namespace kvopt::bindings {

namespace {

class PythonPolicy final : public Policy {
 public:
  explicit PythonPolicy(py::object policy) : policy_(std::move(policy)) {}
  PythonPolicy(const PythonPolicy&) = delete;
  PythonPolicy& operator=(const PythonPolicy&) = delete;
  ~PythonPolicy() override {  // of the C API, since gil_scoped_acquire may throw
    const PyGILState_STATE gil = PyGILState_Ensure();
    Py_DecRef(policy_.release().ptr());
    PyGILState_Release(gil);
  }

  void attach(const PolicyContext& context) override {
    const py::gil_scoped_acquire gil;
    call("attach", py::cast(std::const_pointer_cast<RunTable>(context.runs.shared_from_this())));
    check();
  }

  void on_hit(std::span<const RunId> hit, const RequestInfo& info) override { notify("on_hit", hit, info); }
  void on_stored(std::span<const RunId> stored, const RequestInfo& info) override { notify("on_stored", stored, info); }
  void on_evictable(std::span<const RunId> runs, const RequestInfo& info) override {
    notify("on_evictable", runs, info);
  }
  void on_referenced(std::span<const RunId> runs) override { notify("on_referenced", runs); }
  void on_dropped(std::span<const RunId> runs) override { notify("on_dropped", runs); }
  void on_split(RunId head, RunId tail) override { notify_run("on_split", head, tail); }
  void on_uncovered(RunId run) override { notify_run("on_uncovered", run); }
  void on_trimmed(RunId run) override { notify_run("on_trimmed", run); }
  void on_priority(RunId run) override { notify_run("on_priority", run); }

  bool honours_priority() const override {
    const py::gil_scoped_acquire gil;
    return py::cast<bool>(policy_.attr("honours_priority"));
  }

  // The pool calls this at the start of an operation: what was named in the last one and not needed is void.
  void check() const override {
    next_ = answer_.size();
    raise_failure();
  }

  void raise_interrupt() const {
    if (!interrupt_) return;
    throw py::error_already_set(*std::exchange(interrupt_, std::nullopt));
  }

  // The policy may name one run or several at once; those are handed out one by one while they are asked for.
  RunId choose(std::uint32_t wanted, Time now) override {
    const py::gil_scoped_acquire gil;
    raise_failure();
    if (next_ < answer_.size() && asked_ > wanted) {
      asked_ = wanted;
      return answer_[next_++];
    }
    ask(wanted, now);
    return answer_[next_++];
  }

 private:
  std::string describe(const char* hook) const { return std::string(Py_TYPE(policy_.ptr())->tp_name) + "." + hook; }

  void raise_failure() const {
    raise_interrupt();
    if (!failure_.empty()) throw PolicyError(failure_);
  }

  void ask(std::uint32_t wanted, Time now) {
    answer_.clear();
    next_ = 0;
    asked_ = wanted;
    py::object answer;
    try {
      answer = policy_.attr("choose")(wanted, now);
    } catch (py::error_already_set& e) {
      if (!e.matches(PyExc_Exception)) throw;
      throw PolicyError(describe("choose") + " raised " + e.what());
    }
    if (!take(answer)) {
      throw PolicyError(describe("choose") + " returned " + shown(answer) +
                        "; it must return a run id, or a sequence of at least one");
    }
  }

  // Fills answer_; false when it is neither a run id nor a sequence of them.
  bool take(const py::object& answer) {
    try {
      if (PyIndex_Check(answer.ptr()) != 0 && !py::isinstance<py::array>(answer)) {
        answer_.push_back(to_run(py::cast<std::int64_t>(answer)));
      } else if (const auto runs = to_integers<std::int64_t>(answer); runs && runs.ndim() == 1) {
        for (const std::int64_t run : as_span(runs)) answer_.push_back(to_run(run));
      }
    } catch (py::cast_error&) {  // a number beyond 64 bits
      answer_.clear();
    }
    PyErr_Clear();
    return !answer_.empty() && std::ranges::find(answer_, kNoRun) == answer_.end();
  }

  static RunId to_run(std::int64_t id) { return id < 0 || id > kNoRun ? kNoRun : static_cast<RunId>(id); }

  static std::string shown(const py::object& answer) {
    constexpr std::size_t kMost = 200;
    auto text = py::cast<std::string>(py::repr(answer));
    return text.size() <= kMost ? text : text.substr(0, kMost) + "...";
  }

  static Array<std::uint32_t> ids(std::span<const RunId> runs) {
    return Array<std::uint32_t>(static_cast<py::ssize_t>(runs.size()), runs.data());
  }

  void notify(const char* hook, std::span<const RunId> runs) {
    const py::gil_scoped_acquire gil;
    call(hook, ids(runs));
  }

  void notify(const char* hook, std::span<const RunId> runs, const RequestInfo& info) {
    const py::gil_scoped_acquire gil;
    call(hook, ids(runs), info);
  }

  template <class... Runs>
  void notify_run(const char* hook, Runs... runs) {
    const py::gil_scoped_acquire gil;
    call(hook, runs...);
  }

  // A hook cannot stop what is under way: the first failure is kept, and the pool's next call raises it. An interrupt
  // is raised as soon as the call is over; the policy missed what it was being told, so it is of no use from then on.
  template <class... Args>
  void call(const char* hook, Args&&... args) {
    if (!failure_.empty()) return;
    try {
      policy_.attr(hook)(std::forward<Args>(args)...);
    } catch (py::error_already_set& e) {
      failure_ = describe(hook) + " raised " + e.what();
      if (!e.matches(PyExc_Exception)) interrupt_.emplace(e);
    }
  }

  py::object policy_;
  std::vector<RunId> answer_;
  mutable std::size_t next_ = 0;  // of the answer, to be handed out
  std::uint32_t asked_ = 0;
  std::string failure_;
  mutable std::optional<py::error_already_set> interrupt_;
};

}  // namespace

void raise_interrupt(const Policy& policy) {
  if (const auto* python = dynamic_cast<const PythonPolicy*>(&policy)) python->raise_interrupt();
}

bool is_python_policy(const py::object& policy) {
  return py::isinstance(policy, py::module_::import("kvopt.policies.base").attr("Policy"));
}

std::unique_ptr<Policy> to_policy(const py::object& policy) {
  if (py::isinstance<py::str>(policy)) return make_policy(parse_policy(py::cast<std::string>(policy)));
  if (!is_python_policy(policy)) {
    throw ConfigError("a policy is a name, such as 'lru', or an instance of kvopt.policies.Policy; got " +
                      py::cast<std::string>(py::repr(policy)));
  }
  if (py::cast<bool>(policy.attr("attached"))) {
    throw ConfigError("this policy object serves a pool already; make a new one for each pool");
  }
  policy.attr("attached") = true;
  return std::make_unique<PythonPolicy>(policy);
}

}  // namespace kvopt::bindings
