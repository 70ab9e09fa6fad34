// Moving vectors to NumPy without a copy, and reading NumPy arrays as spans.
#pragma once

#include <pybind11/numpy.h>
#include <pybind11/pybind11.h>

#include <memory>
#include <span>
#include <utility>
#include <vector>

namespace kvopt::bindings {

namespace py = pybind11;

// A C-contiguous array of exactly T; other dtypes that convert safely are copied by pybind11.
template <class T>
using Array = py::array_t<T, py::array::c_style>;

// Whole numbers as an array of T; null when there are others. NumPy itself would cut the fractions off a list.
template <class T>
Array<T> to_integers(const py::object& values) {
  if (!py::isinstance<py::array>(values) && py::isinstance<py::sequence>(values)) {
    for (const auto& value : py::reinterpret_borrow<py::sequence>(values)) {
      if (PyIndex_Check(value.ptr()) == 0) return py::reinterpret_steal<Array<T>>(py::handle());
    }
  }
  return Array<T>::ensure(values);
}

template <class T>
std::span<const T> as_span(const Array<T>& array) {
  return {array.data(), static_cast<std::size_t>(array.size())};
}

template <class T>
std::vector<T> as_vector(const Array<T>& array) {
  return {array.data(), array.data() + array.size()};
}

// The array owns the vector.
template <class T>
py::array_t<T> to_array(std::vector<T> values) {
  auto owned = std::make_unique<std::vector<T>>(std::move(values));
  const T* data = owned->data();
  const auto size = static_cast<py::ssize_t>(owned->size());
  py::capsule owner(owned.release(), [](void* p) { delete static_cast<std::vector<T>*>(p); });
  return py::array_t<T>({size}, {static_cast<py::ssize_t>(sizeof(T))}, data, owner);
}

}  // namespace kvopt::bindings
