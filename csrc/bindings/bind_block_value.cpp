#include "bindings/bindings.hpp"
#include "kvopt/policy.hpp"

namespace kvopt::bindings {

namespace py = pybind11;

void bind_block_value(py::module_& m) {
  py::class_<BlockValue>(m, "BlockValue",
                         "What a run of cached blocks that nobody holds is worth to the policy, and why.")
      .def_readonly("run", &BlockValue::run, "Its id in the pool's `runs`.")
      .def_readonly("blocks", &BlockValue::blocks, "Blocks of the run; the last of them goes first.")
      .def_readonly("depth", &BlockValue::depth, "Blocks of its prefix in front of it.")
      .def_property_readonly(
          "covered", [](const BlockValue& v) { return v.children > 0; },
          "Whether something is cached behind it; then it is no victim.")
      .def_readonly("hits", &BlockValue::hits, "Requests that found it cached since it was stored.")
      .def_readonly("priority", &BlockValue::priority, "Retention priority, 0 to 100.")
      .def_readonly(
          "value", &BlockValue::value,
          "The least goes first. While `order` is by value: rate x cost x favour, prefill saved per block and "
          "second.")
      .def_readonly("rate", &BlockValue::rate,
                    "Returns per second that a block is kept, if it is kept as long as that is worth most.")
      .def_readonly("cost", &BlockValue::cost,
                    "Prefill time that losing a block adds, in units of a token at position 0.")
      .def_readonly("favour", &BlockValue::favour, "What its retention priority multiplies the value by.")
      .def_readonly("age", &BlockValue::age, "Seconds since somebody let go of it.")
      .def_readonly("usual_gap", &BlockValue::usual_gap, "Seconds that its session is expected to take.")
      .def_readonly("group", &BlockValue::group, "The class of releases that it is counted with, in words.")
      .def_readonly("order", &BlockValue::order, "What decides at present, in words.");
}

}  // namespace kvopt::bindings
