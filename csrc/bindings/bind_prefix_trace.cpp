#include "bindings/arrays.hpp"
#include "bindings/bindings.hpp"
#include "kvopt/error.hpp"
#include "kvopt/prefix_trace.hpp"

namespace kvopt::bindings {

namespace {

template <class T, class Get>
py::array_t<T> column(const PrefixTrace& trace, Get get) {
  std::vector<T> values(trace.requests());
  for (std::size_t r = 0; r < values.size(); ++r) values[r] = get(r);
  return to_array(std::move(values));
}

}  // namespace

void bind_prefix_trace(py::module_& m) {
  py::class_<PrefixTrace>(m, "PrefixTrace",
                          "A workload as a prefix tree: request r is the first shared[r] blocks of an earlier request "
                          "parent[r] followed by new[r] blocks numbered in order of first appearance.")
      .def(py::init([](const Array<std::int32_t>& parent, const Array<std::uint32_t>& shared,
                       const Array<std::uint32_t>& fresh) {
             return PrefixTrace(as_vector(parent), as_vector(shared), as_vector(fresh));
           }),
           py::arg("parent"), py::arg("shared_blocks"), py::arg("new_blocks"),
           "Check and take the columns (int32, uint32, uint32; one entry a request; parent -1 is none). "
           "Raises TraceError naming the first bad request.")
      .def_property_readonly("requests", &PrefixTrace::requests)
      .def_property_readonly("block_references", &PrefixTrace::block_references)
      .def_property_readonly("unique_blocks", &PrefixTrace::unique_blocks)
      .def_property_readonly("longest_request", &PrefixTrace::longest_request, "Blocks of the longest request.")
      .def_property_readonly(
          "parent",
          [](const PrefixTrace& t) { return column<std::int32_t>(t, [&](std::size_t r) { return t.parent(r); }); })
      .def_property_readonly(
          "shared_blocks",
          [](const PrefixTrace& t) { return column<std::uint32_t>(t, [&](std::size_t r) { return t.shared(r); }); })
      .def_property_readonly(
          "new_blocks",
          [](const PrefixTrace& t) { return column<std::uint32_t>(t, [&](std::size_t r) { return t.fresh(r); }); })
      .def(
          "chain",
          [](const PrefixTrace& t, std::int64_t r) {
            if (r < 0 || static_cast<std::size_t>(r) >= t.requests()) {
              throw py::index_error("request " + std::to_string(r) + " of " + std::to_string(t.requests()));
            }
            std::vector<std::uint32_t> out(t.length(static_cast<std::size_t>(r)));
            t.chain(static_cast<std::size_t>(r), out);
            return to_array(std::move(out));
          },
          py::arg("request"), "The block numbers of one request, root first (uint32).")
      .def(
          "reordered",
          [](const PrefixTrace& t, const Array<std::int64_t>& order) {
            const auto span = as_span(order);
            py::gil_scoped_release release;
            return t.reordered(span);
          },
          py::arg("order"),
          "The same requests in another order (a permutation, int64); blocks are renumbered by first appearance. "
          "Raises TraceError when it is not a permutation.");

  py::class_<PrefixTraceBuilder>(m, "PrefixTraceBuilder",
                                 "Builds a PrefixTrace from chains of arbitrary 64-bit block ids.")
      .def(py::init<>())
      .def(
          "append",
          [](PrefixTraceBuilder& b, const Array<std::uint64_t>& ids, std::uint32_t scope) {
            return b.append(as_span(ids), scope);
          },
          py::arg("ids"), py::arg("scope") = 0,
          "Append one request (uint64 ids, root first; ids are compared within a scope only). Returns how many of its "
          "leading blocks were known.")
      .def_property_readonly("requests", &PrefixTraceBuilder::requests)
      .def(
          "finish", [](PrefixTraceBuilder& b) { return std::move(b).finish(); },
          "The trace of what was appended; the builder is empty afterwards and must not be used again.");
}

}  // namespace kvopt::bindings
