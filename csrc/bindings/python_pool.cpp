#include "bindings/python_pool.hpp"

#include <exception>

namespace kvopt::bindings {

namespace py = pybind11;

// Releasing may run hooks, which may drop more.
void PythonPool::release_abandoned() noexcept {
  const bool outer = std::exchange(busy_, true);
  const py::error_scope keep_error;  // an object may be dropped while an exception is on its way
  while (!abandoned_.empty()) {
    Allocation allocation = std::move(abandoned_.back());
    abandoned_.pop_back();
    try {
      pool_.release(allocation, {.now = pool_.now()});
    } catch (const std::exception& e) {
      PyErr_SetString(PyExc_RuntimeError, e.what());
      PyErr_WriteUnraisable(nullptr);
    }
  }
  busy_ = outer;
}

PythonAllocation::~PythonAllocation() {
  if (!allocation.live()) return;
  try {
    pool->abandon(std::move(allocation));
  } catch (const std::bad_alloc&) {
    PyErr_WriteUnraisable(nullptr);
  }
}

}  // namespace kvopt::bindings
