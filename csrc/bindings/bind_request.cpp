#include <pybind11/stl.h>

#include <string>

#include "bindings/arrays.hpp"
#include "bindings/bindings.hpp"
#include "kvopt/error.hpp"
#include "simulator/request.hpp"

namespace kvopt::bindings {

namespace {

using simulator::Request;
using simulator::RequestPtr;
using simulator::RequestQueue;

RequestPtr make_request(std::int64_t id, std::int64_t session, std::int32_t turn, std::int64_t prompt_tokens,
                        std::int64_t output_tokens, double arrival, double session_arrival,
                        const Array<std::uint64_t>& keys, std::size_t prompt_keys, std::int64_t priority,
                        bool subagent) {
  auto request = std::make_shared<Request>();
  request->id = id;
  request->session = session;
  request->turn = turn;
  request->prompt_tokens = prompt_tokens;
  request->output_tokens = output_tokens;
  request->arrival = arrival;
  request->session_arrival = session_arrival;
  request->keys = as_vector(keys);
  request->prompt_keys = prompt_keys;
  request->priority = priority;
  request->subagent = subagent;
  return request;
}

py::object state_of(const Request& request) {
  const py::object states = py::module_::import("kvopt.scheduler.request").attr("RequestState");
  return py::list(states)[static_cast<std::size_t>(request.state)];
}

const RequestPtr& front(const RequestQueue& queue) {
  if (queue.size() == 0) throw py::index_error("nobody waits");
  return queue.front();
}

}  // namespace

void bind_request(py::module_& m) {
  py::class_<Request, RequestPtr>(m, "Request",
                                  "One request. The simulator owns its state; a scheduler reads all and changes none.")
      .def(py::init(&make_request), py::kw_only(), py::arg("id"), py::arg("session"), py::arg("turn"),
           py::arg("prompt_tokens"), py::arg("output_tokens"), py::arg("arrival"), py::arg("session_arrival"),
           py::arg("keys"), py::arg("prompt_keys") = 0, py::arg("priority") = 0, py::arg("subagent") = false)
      .def_readonly("id", &Request::id, "Its place in the trace.")
      .def_readonly("session", &Request::session,
                    "Number of the session; the simulator numbers requests without one by themselves.")
      .def_readonly("turn", &Request::turn)
      .def_readonly("prompt_tokens", &Request::prompt_tokens)
      .def_readonly("output_tokens", &Request::output_tokens,
                    "How many tokens the answer will have (a scheduler that looks at it knows the future).")
      .def_readonly("arrival", &Request::arrival, "When it came to the server, in seconds.")
      .def_readonly("session_arrival", &Request::session_arrival, "When the first request of its session came.")
      .def_property_readonly(
          "keys",
          [](const Request& r) {
            return py::array_t<std::uint64_t>(static_cast<py::ssize_t>(r.keys.size()), r.keys.data());
          },
          "uint64 (a copy): keys of the full blocks of prompt and answer, root first.")
      .def_readonly("prompt_keys", &Request::prompt_keys,
                    "How many leading keys are of blocks that the trace names; the rest stand for the answer alone.")
      .def_readonly("priority", &Request::priority, "The lowest goes first, as in vLLM.")
      .def_readonly("subagent", &Request::subagent)
      .def_property_readonly("state", &state_of)
      .def_readonly("computed", &Request::computed, "Tokens in the cache when it was last scheduled, hits included.")
      .def_readonly("generated", &Request::generated,
                    "Tokens of the answer so far (of a decoding request: when its decoding began).")
      .def_readonly("preemptions", &Request::preemptions)
      .def_readonly("held_blocks", &Request::held_blocks)
      .def_property_readonly(
          "committed", [](const Request& r) { return r.allocation.committed(); },
          "Leading blocks that it holds and that others can hit.")
      .def_readonly("lost", &Request::lost, "The most tokens that it had computed when it was preempted.")
      .def_readonly("first_admitted", &Request::first_admitted, "Seconds; -1: not yet.")
      .def_readonly("first_token", &Request::first_token, "Seconds; -1: not yet.")
      .def_property_readonly("tokens", &Request::tokens,
                             "Tokens whose keys and values the next prefill must provide: the prompt and the answer so "
                             "far.")
      .def_property_readonly("remaining_prefill", &Request::remaining_prefill,
                             "Tokens of its prompt and of its answer so far that are not computed.");

  py::class_<RequestQueue, std::shared_ptr<RequestQueue>>(
      m, "RequestQueue",
      "First come, first served, as vLLM's FCFSRequestQueue: preempted requests come back to the front.")
      .def(py::init<>())
      .def("add", &RequestQueue::add, py::arg("request"), "Put a request at the end.")
      .def("prepend", &RequestQueue::prepend, py::arg("request"), "Put a request at the front.")
      .def("peek", &front, "The request at the front. Raises IndexError when there is none.")
      .def(
          "pop",
          [](RequestQueue& queue) {
            front(queue);
            return queue.pop();
          },
          "Take the request at the front. Raises IndexError when there is none.")
      .def(
          "remove",
          [](RequestQueue& queue, const Request& request) {
            if (!queue.remove(request)) {
              throw SchedulerError("request " + std::to_string(request.id) + " does not wait");
            }
          },
          py::arg("request"), "Take out a request, wherever it stands. Raises SchedulerError when it is not here.")
      .def("__len__", &RequestQueue::size)
      .def("__iter__", [](const RequestQueue& queue) { return py::iter(py::cast(queue.all())); });
}

}  // namespace kvopt::bindings
