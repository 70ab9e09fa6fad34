// Native exceptions become the classes of kvopt.errors, which hold the documentation.
#include <exception>
#include <utility>

#include "bindings/bindings.hpp"
#include "kvopt/error.hpp"

namespace kvopt::bindings {

namespace py = pybind11;

namespace {

void raise(const char* name, const char* message) {
  const py::object type = py::module_::import("kvopt.errors").attr(name);
  PyErr_SetString(type.ptr(), message);
}

}  // namespace

void bind_errors(py::module_& /*m*/) {
  py::register_exception_translator([](std::exception_ptr pointer) {
    try {
      if (pointer) std::rethrow_exception(std::move(pointer));
    } catch (const UnknownPolicyError& e) {
      raise("UnknownPolicyError", e.what());
    } catch (const PolicyLibraryError& e) {
      raise("PolicyLibraryError", e.what());
    } catch (const PolicyStateError& e) {
      raise("PolicyStateError", e.what());
    } catch (const ConfigError& e) {
      raise("ConfigError", e.what());
    } catch (const TraceError& e) {
      raise("TraceError", e.what());
    } catch (const NotEnoughBlocksError& e) {
      raise("NotEnoughBlocksError", e.what());
    } catch (const StaleBlockError& e) {
      raise("StaleBlockError", e.what());
    } catch (const ReferenceCountError& e) {
      raise("ReferenceCountError", e.what());
    } catch (const LeaseError& e) {
      raise("LeaseError", e.what());
    } catch (const PoolError& e) {
      raise("PoolError", e.what());
    } catch (const CudaError& e) {
      raise("DeviceError", e.what());
    } catch (const PolicyError& e) {
      raise("PolicyError", e.what());
    } catch (const SchedulerError& e) {
      raise("SchedulerError", e.what());
    } catch (const SimulationError& e) {
      raise("SimulationError", e.what());
    } catch (const Error& e) {
      raise("KvoptError", e.what());
    }
  });
}

}  // namespace kvopt::bindings
