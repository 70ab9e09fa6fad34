#include <string>
#include <utility>

#include <pybind11/stl.h>

#include "bindings/arrays.hpp"
#include "bindings/bindings.hpp"
#include "bindings/score_params.hpp"
#include "kvopt/error.hpp"
#include "kvopt/scoring.hpp"

namespace kvopt::bindings {

namespace {

// Columns of one length, kept alive while they are read.
class Columns {
 public:
  explicit Columns(const py::dict& columns) {
    for (const auto& [key, value] : columns) {
      const auto name = py::cast<std::string>(key);
      if (name == "last_use") {
        view_.last_use = take<float>(name, value);
      } else if (name == "cost") {
        view_.cost = take<float>(name, value);
      } else if (name == "pace") {
        view_.pace = take<float>(name, value);
      } else if (name == "hits") {
        view_.hits = take<std::uint32_t>(name, value);
      } else if (name == "depth") {
        view_.depth = take<std::uint32_t>(name, value);
      } else if (name == "class") {
        view_.cls = take<std::uint8_t>(name, value);
      } else if (name == "extra") {
        view_.extra = take<float>(name, value, 2);
      } else {
        throw ConfigError("feature '" + name + "' is unknown");
      }
    }
    if (kept_.empty()) throw ConfigError("no feature is given; the score reads at least one");
  }

  const BlockFeatures& view() const { return view_; }

 private:
  template <class T>
  const T* take(const std::string& name, const py::handle& value, py::ssize_t axes = 1) {
    if (!Array<T>::check_(value)) throw ConfigError("feature '" + name + "' is not contiguous, or of another dtype");
    const auto array = py::reinterpret_borrow<Array<T>>(value);
    if (array.ndim() != axes) {
      throw ConfigError("feature '" + name + "' has " + std::to_string(array.ndim()) + " axes; it must have " +
                        std::to_string(axes));
    }
    const auto count = static_cast<std::size_t>(array.shape(axes - 1));
    if (!kept_.empty() && count != view_.count) {
      throw ConfigError("feature '" + name + "' has " + std::to_string(count) + " blocks; those before it have " +
                        std::to_string(view_.count));
    }
    view_.count = count;
    if (axes == 2) view_.extra_columns = static_cast<std::uint32_t>(array.shape(0));
    kept_.append(array);
    return array.data();
  }

  py::list kept_;
  BlockFeatures view_;
};

const std::uint8_t* to_mask(const py::object& eligible, std::size_t count) {
  if (eligible.is_none()) return nullptr;
  const auto array = py::cast<py::array>(eligible);
  const bool fits = array.ndim() == 1 && array.itemsize() == 1 && (array.flags() & py::array::c_style) != 0 &&
                    static_cast<std::size_t>(array.size()) == count;
  if (!fits) throw ConfigError("eligible must be a contiguous array of " + std::to_string(count) + " bytes");
  return static_cast<const std::uint8_t*>(array.data());
}

py::array_t<std::uint32_t> indices(std::size_t sets, std::size_t k) {
  return py::array_t<std::uint32_t>({static_cast<py::ssize_t>(sets), static_cast<py::ssize_t>(k)});
}

void run_score(const py::dict& columns, const ScoreParamsHandle& params, double now, Array<float> out,
               std::uint32_t threads, bool checked, const std::string& instructions) {
  const Columns features(columns);
  const auto size = features.view().count * params.view().sets;
  if (static_cast<std::size_t>(out.size()) != size) {
    throw ConfigError("out has " + std::to_string(out.size()) + " scores; there are " + std::to_string(size));
  }
  float* scores = out.mutable_data();
  const py::gil_scoped_release release;
  score(features.view(), params.view(), now, scores, {threads, checked, instructions});
}

py::array_t<std::uint32_t> run_select_k(const Array<float>& scores, std::size_t k, const py::object& eligible,
                                        std::uint32_t threads, const std::string& instructions) {
  if (scores.ndim() != 2) throw ConfigError("scores have " + std::to_string(scores.ndim()) + " axes; 2 it is");
  const auto sets = static_cast<std::size_t>(scores.shape(0));
  const auto count = static_cast<std::size_t>(scores.shape(1));
  const std::uint8_t* mask = to_mask(eligible, count);
  require_selectable(count, k, mask);
  auto out = indices(sets, k);
  const float* row = scores.data();
  std::uint32_t* chosen = out.mutable_data();
  const py::gil_scoped_release release;
  for (std::size_t set = 0; set < sets; ++set) {
    select_k(row + set * count, count, k, mask, chosen + set * k, {threads, false, instructions});
  }
  return out;
}

py::array_t<std::uint32_t> run_score_select(const py::dict& columns, const ScoreParamsHandle& params, double now,
                                            std::size_t k, const py::object& eligible, std::uint32_t threads,
                                            bool checked, const std::string& instructions) {
  const Columns features(columns);
  const std::uint8_t* mask = to_mask(eligible, features.view().count);
  require_selectable(features.view().count, k, mask);
  auto out = indices(params.view().sets, k);
  std::uint32_t* chosen = out.mutable_data();
  const py::gil_scoped_release release;
  score_select(features.view(), params.view(), now, k, mask, chosen, {threads, checked, instructions});
  return out;
}

}  // namespace

void bind_scoring(py::module_& m) {
  py::class_<ScoreParamsHandle>(m, "ScoreParams", "Parameter sets of one score, as the core reads them.")
      .def(py::init<const std::string&, Array<float>, std::uint32_t, std::pair<std::uint32_t, std::uint32_t>,
                    std::uint32_t, const std::vector<std::uint8_t>&, const std::vector<bool>&>(),
           py::arg("score"), py::arg("values").noconvert(), py::kw_only(), py::arg("classes") = 0,
           py::arg("forest") = std::pair<std::uint32_t, std::uint32_t>(0, 0), py::arg("hidden") = 0,
           py::arg("inputs") = std::vector<std::uint8_t>(), py::arg("logarithm") = std::vector<bool>(),
           "values: float32 [sets, width]; `forest`: trees and their depth. What does not fit is found when the "
           "parameters are used. Raises ConfigError.");
  m.attr("AGE_BINS") = kAgeBins;
  m.attr("MOST_CLASSES") = kMostClasses;
  m.attr("MOST_EXTRA") = kMostExtra;
  m.def(
      "scoring_instructions",
      [] {
        std::vector<std::string> names;
        for (const std::string_view name : scoring_instructions()) names.emplace_back(name);
        return names;
      },
      "The vector instructions that scores can be computed with here, the best first.");
  m.def("score", &run_score, py::arg("columns"), py::arg("params"), py::arg("now"), py::arg("out").noconvert(),
        py::kw_only(), py::arg("threads") = 1, py::arg("checked") = false, py::arg("instructions") = "",
        "Writes the scores of all sets to `out`, float32 of sets * blocks. GIL released. Raises ConfigError.");
  m.def("select_k", &run_select_k, py::arg("scores").noconvert(), py::arg("k"), py::arg("eligible"), py::kw_only(),
        py::arg("threads") = 1, py::arg("instructions") = "",
        "uint32 [sets, k]: indices of the lowest scores (float32 [sets, blocks]). GIL released. Raises ConfigError.");
  m.def("score_select", &run_score_select, py::arg("columns"), py::arg("params"), py::arg("now"), py::arg("k"),
        py::arg("eligible"), py::kw_only(), py::arg("threads") = 1, py::arg("checked") = false,
        py::arg("instructions") = "",
        "uint32 [sets, k]: indices of the lowest scores, which are not kept. GIL released. Raises ConfigError.");
}

}  // namespace kvopt::bindings
