#include "bindings/bindings.hpp"
#include "kvopt/scoring.hpp"
#include "kvopt/version.hpp"

namespace kvopt::bindings {

namespace py = pybind11;

void bind_build_info(py::module_& m) {
  m.attr("__version__") = KVOPT_VERSION;
  m.def(
      "build_info",
      [] {
        py::dict info;
        info["version"] = KVOPT_VERSION;
        info["build_type"] = KVOPT_BUILD_TYPE;
        info["compiler"] = KVOPT_BUILD_COMPILER;
        info["baseline"] = KVOPT_BUILD_BASELINE;
        info["lto"] = KVOPT_BUILD_LTO != 0;
        info["cuda"] = KVOPT_BUILD_CUDA != 0;
        py::list scoring;
        for (const std::string_view name : scoring_instructions()) scoring.append(py::str(name.data(), name.size()));
        info["scoring"] = py::tuple(scoring);
        info["sanitize"] = KVOPT_BUILD_SANITIZE;
#ifdef KVOPT_INTERNAL_CHECKS
        info["internal_checks"] = true;
#else
        info["internal_checks"] = false;
#endif
        return info;
      },
      "What this extension was built with: version, compiler, baseline instruction set, LTO, CUDA, sanitizers, "
      "checks; and the vector instructions that scores can be computed with here, the best first.");
}

}  // namespace kvopt::bindings
