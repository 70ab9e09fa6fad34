// The GPU's scorer for Python. Arrays come as addresses and sizes that the Python side has checked.
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include <pybind11/stl.h>

#include "bindings/arrays.hpp"
#include "bindings/bindings.hpp"
#include "bindings/score_params.hpp"
#include "kvopt/error.hpp"
#include "scorer.hpp"
#include "table.hpp"

namespace kvopt::bindings {

namespace {

using Address = std::uintptr_t;

template <class T>
T* at(Address address) {
  return reinterpret_cast<T*>(address);  // NOLINT(performance-no-int-to-ptr): an array's own description
}

// {name: (address, extra columns or 0)} of `count` blocks.
BlockFeatures to_features(const py::dict& columns, std::size_t count) {
  BlockFeatures features;
  features.count = count;
  for (const auto& [key, value] : columns) {
    const auto name = py::cast<std::string>(key);
    const auto [address, rows] = py::cast<std::pair<Address, std::uint32_t>>(value);
    if (name == "last_use") {
      features.last_use = at<const float>(address);
    } else if (name == "cost") {
      features.cost = at<const float>(address);
    } else if (name == "pace") {
      features.pace = at<const float>(address);
    } else if (name == "hits") {
      features.hits = at<const std::uint32_t>(address);
    } else if (name == "depth") {
      features.depth = at<const std::uint32_t>(address);
    } else if (name == "class") {
      features.cls = at<const std::uint8_t>(address);
    } else if (name == "extra") {
      features.extra = at<const float>(address);
      features.extra_columns = rows;
    } else {
      throw ConfigError("feature '" + name + "' is unknown");
    }
  }
  return features;
}

void run_score(cuda::Scorer& scorer, const py::dict& columns, std::size_t count, const ScoreParamsHandle& params,
               double now, Address out, cuda::Stream stream, bool checked) {
  const BlockFeatures features = to_features(columns, count);
  const py::gil_scoped_release release;
  scorer.score(features, params.view(), now, at<float>(out), stream, {checked});
}

void run_select_k(cuda::Scorer& scorer, Address scores, std::size_t sets, std::size_t count, std::size_t k,
                  Address eligible, Address out, cuda::Stream stream, bool checked) {
  const py::gil_scoped_release release;
  for (std::size_t set = 0; set < sets; ++set) {
    scorer.select_k(at<const float>(scores) + set * count, count, k, at<const std::uint8_t>(eligible),
                    at<std::int64_t>(out) + set * k, stream, {checked});
  }
}

void run_score_select(cuda::Scorer& scorer, const py::dict& columns, std::size_t count, const ScoreParamsHandle& params,
                      double now, std::size_t k, Address eligible, Address out, cuda::Stream stream, bool checked) {
  const BlockFeatures features = to_features(columns, count);
  const py::gil_scoped_release release;
  scorer.score_select(features, params.view(), now, k, at<const std::uint8_t>(eligible), at<std::int64_t>(out), stream,
                      {checked});
}

void set_rows(cuda::Table& table, const Array<std::uint32_t>& rows, const Array<float>& last_use,
              const Array<float>& cost, const Array<float>& pace, const Array<std::uint32_t>& hits,
              const Array<std::uint32_t>& depth, const Array<std::uint8_t>& cls) {
  const auto count = static_cast<std::size_t>(rows.size());
  for (const py::array* column : {static_cast<const py::array*>(&last_use), static_cast<const py::array*>(&cost),
                                  static_cast<const py::array*>(&pace), static_cast<const py::array*>(&hits),
                                  static_cast<const py::array*>(&depth), static_cast<const py::array*>(&cls)}) {
    if (static_cast<std::size_t>(column->size()) != count) {
      throw ConfigError("a column has " + std::to_string(column->size()) + " values for " + std::to_string(count) +
                        " rows");
    }
  }
  std::vector<cuda::Row> values(count);
  for (std::size_t i = 0; i < count; ++i) {
    values[i] = {last_use.data()[i], cost.data()[i], pace.data()[i], hits.data()[i], depth.data()[i], cls.data()[i]};
  }
  table.set(rows.data(), values.data(), count);
}

py::dict addresses_of(const cuda::Table& table) {
  const BlockFeatures features = table.features();
  py::dict addresses;
  const auto add = [&](const char* name, const void* column) { addresses[name] = reinterpret_cast<Address>(column); };
  add("last_use", features.last_use);
  add("cost", features.cost);
  add("pace", features.pace);
  add("hits", features.hits);
  add("depth", features.depth);
  add("class", features.cls);
  return addresses;
}

}  // namespace

void bind_scorer(py::module_& m) {
  m.def("cuda_unavailable", &cuda::unavailable, "Why no GPU can be used, in words; empty where one can.");
  m.def(
      "cuda_device_of", [](Address address) { return cuda::device_of(at<const void>(address)); }, py::arg("address"),
      "The GPU whose memory this is, or -1.");
  m.def(
      "cuda_to_host",
      [](Address from, const py::array& out, int device, cuda::Stream stream) {
        void* to = py::array(out).mutable_data();
        const auto bytes = static_cast<std::size_t>(out.nbytes());
        const py::gil_scoped_release release;
        cuda::copy_to_host(to, from, bytes, device, stream);
      },
      py::arg("address"), py::arg("out"), py::arg("device"), py::arg("stream"),
      "Fills `out` from the device, and waits for the stream. GIL released. Raises DeviceError.");
  py::class_<cuda::Memory>(m, "CudaMemory", "Bytes on a GPU, allocated and freed in the order of a stream.")
      .def(py::init<int, std::size_t, cuda::Stream>(), py::arg("device"), py::arg("size"), py::arg("stream"),
           "Raises DeviceError.")
      .def_property_readonly("address", &cuda::Memory::pointer);
  py::class_<cuda::Table>(m, "CudaTable", "A mirror of a block table on a GPU. Raises DeviceError and ConfigError.")
      .def(py::init<int, std::size_t, cuda::Stream>(), py::arg("device"), py::arg("rows"), py::arg("stream"))
      .def("set", &set_rows, py::arg("rows").noconvert(), py::arg("last_use").noconvert(), py::arg("cost").noconvert(),
           py::arg("pace").noconvert(), py::arg("hits").noconvert(), py::arg("depth").noconvert(),
           py::arg("cls").noconvert())
      .def("flush", &cuda::Table::flush, py::arg("stream"), py::call_guard<py::gil_scoped_release>())
      .def_property_readonly("pending", &cuda::Table::pending)
      .def("addresses", &addresses_of);
  py::class_<cuda::Scorer>(m, "CudaScorer",
                           "Scores and selection on a GPU; work is queued on the stream. Raises DeviceError for what "
                           "CUDA refuses, ConfigError for parameters that do not fit. GIL released.")
      .def(py::init<int>(), py::arg("device"))
      .def("score", &run_score, py::arg("columns"), py::arg("count"), py::arg("params"), py::arg("now"), py::arg("out"),
           py::arg("stream"), py::kw_only(), py::arg("checked") = false,
           "columns: {name: (address, rows of 'extra' or 0)}. `out`: float32 [sets, count].")
      .def("select_k", &run_select_k, py::arg("scores"), py::arg("sets"), py::arg("count"), py::arg("k"),
           py::arg("eligible"), py::arg("out"), py::arg("stream"), py::kw_only(), py::arg("checked") = false,
           "`out`: int64 [sets, k]; -1 where fewer are eligible.")
      .def("score_select", &run_score_select, py::arg("columns"), py::arg("count"), py::arg("params"), py::arg("now"),
           py::arg("k"), py::arg("eligible"), py::arg("out"), py::arg("stream"), py::kw_only(),
           py::arg("checked") = false, "`out`: int64 [sets, k]; -1 where fewer are eligible.");
}

}  // namespace kvopt::bindings
