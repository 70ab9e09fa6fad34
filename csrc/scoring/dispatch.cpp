// Which instructions to compute with: what this build has and this processor knows.
#include <array>
#include <string>

#include "kvopt/error.hpp"
#include "scoring/kernels.hpp"

namespace kvopt::scoring {

// kernels.cpp defines one of these each time that it is compiled; its own namespace is the inline one here.
inline namespace baseline {
extern const Kernels kKernels;
}
#ifdef KVOPT_SCORING_X86
namespace avx2 {
extern const Kernels kKernels;
}
namespace avx512 {
extern const Kernels kKernels;
}
#endif

namespace {

struct Known {
  std::array<std::string_view, 3> names;
  std::array<const Kernels*, 3> kernels;
  std::size_t count = 0;

  void add(std::string_view name, const Kernels& table) {
    names[count] = name;
    kernels[count++] = &table;
  }
};

Known find() {
  Known known{};
#ifdef KVOPT_SCORING_X86
  __builtin_cpu_init();
  const bool has_avx2 = __builtin_cpu_supports("avx2") != 0 && __builtin_cpu_supports("fma") != 0 &&
                        __builtin_cpu_supports("bmi") != 0 && __builtin_cpu_supports("bmi2") != 0;
  const bool has_avx512 = __builtin_cpu_supports("avx512f") != 0 && __builtin_cpu_supports("avx512dq") != 0 &&
                          __builtin_cpu_supports("avx512bw") != 0 && __builtin_cpu_supports("avx512vl") != 0 &&
                          __builtin_cpu_supports("avx512cd") != 0;
  if (has_avx2 && has_avx512) known.add("avx512", avx512::kKernels);
  if (has_avx2) known.add("avx2", avx2::kKernels);
#endif
  known.add("baseline", baseline::kKernels);
  return known;
}

const Known& known() {
  static const Known found = find();
  return found;
}

}  // namespace

const Kernels& kernels_for(std::string_view name) {
  const Known& found = known();
  if (name.empty()) return *found.kernels[0];
  std::string names;
  for (std::size_t i = 0; i < found.count; ++i) {
    if (found.names[i] == name) return *found.kernels[i];
    if (i > 0) names.append(", ");
    names.append(found.names[i]);
  }
  throw ConfigError("instructions '" + std::string(name) + "' are not available; this build and processor have " +
                    names);
}

}  // namespace kvopt::scoring

namespace kvopt {

std::span<const std::string_view> scoring_instructions() {
  const auto& found = scoring::known();
  return {found.names.data(), found.count};
}

}  // namespace kvopt
