// Policies in a shared library of their own, compiled outside the project against these headers alone.
//
//   class Mine final : public kvopt::Policy { ... };
//   KVOPT_POLICY_PLUGIN(kvopt::plugin_policy<Mine>({.name = "mine", .summary = "...", .reference = "..."}))
//
// load_policy_library() calls the C function that the macro defines, and refuses a library that was compiled against
// other headers or with another C++ standard library: policies are C++ objects, so both sides must agree on the layout
// of every type that crosses. GCC and Clang agree with each other where they use the same standard library.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <type_traits>
#include <utility>
#include <vector>
#include <version>

#include "kvopt/error.hpp"
#include "kvopt/policy.hpp"
#include "kvopt/run_table.hpp"
#include "kvopt/version.hpp"

namespace kvopt {

// Rises with every change to a type or virtual function that a plugin sees: tests/cpp/test_plugin_interface.cpp fails
// where it does not.
inline constexpr std::uint32_t kPluginVersion = 3;

enum class StandardLibrary : std::uint32_t { kOther, kLibstdcxx, kLibstdcxxBefore11, kLibcxx };

#if defined(_LIBCPP_VERSION)
inline constexpr StandardLibrary kStandardLibrary = StandardLibrary::kLibcxx;
#elif defined(__GLIBCXX__) && _GLIBCXX_USE_CXX11_ABI
inline constexpr StandardLibrary kStandardLibrary = StandardLibrary::kLibstdcxx;
#elif defined(__GLIBCXX__)
inline constexpr StandardLibrary kStandardLibrary = StandardLibrary::kLibstdcxxBefore11;
#else
inline constexpr StandardLibrary kStandardLibrary = StandardLibrary::kOther;
#endif

// Sizes of what crosses, in bytes: they catch what a version number was not raised for.
struct PluginLayout {
  std::uint32_t policy = sizeof(Policy);
  std::uint32_t policy_entry = sizeof(PolicyEntry);
  std::uint32_t policy_parameter = sizeof(PolicyParameter);
  std::uint32_t policy_context = sizeof(PolicyContext);
  std::uint32_t request_info = sizeof(RequestInfo);
  std::uint32_t run_table = sizeof(RunTable);

  bool operator==(const PluginLayout&) const = default;
};

struct PolicyPlugin {
  std::uint32_t version = kPluginVersion;     // first in every version
  const char* kvopt_version = KVOPT_VERSION;  // of the headers; second in every version
  StandardLibrary standard_library = kStandardLibrary;
  PluginLayout layout = {};
  const PolicyEntry* policies = nullptr;
  std::size_t count = 0;
};

// A policy class as an entry. It is made from its parameters, std::span<const double> in the order of
// PolicyInfo::parameters and within their limits, where it has a constructor that takes them; else without arguments.
template <class P>
PolicyEntry plugin_policy(PolicyInfo info) {
  static_assert(std::is_base_of_v<Policy, P>);
  constexpr bool kTakesParameters = std::is_constructible_v<P, std::span<const double>>;
  if (!kTakesParameters && !info.parameters.empty()) {
    throw ConfigError("policy " + info.name + " has parameters, but its class has no constructor that takes them");
  }
  return {std::move(info), [](std::span<const double> parameters) -> std::unique_ptr<Policy> {
            if constexpr (kTakesParameters) {
              return std::make_unique<P>(parameters);
            } else {
              return std::make_unique<P>();
            }
          }};
}

}  // namespace kvopt

// Once a library, with one entry or several.
#define KVOPT_POLICY_PLUGIN(...)                                                                       \
  extern "C" __attribute__((visibility("default"))) const kvopt::PolicyPlugin* kvopt_policy_plugin() { \
    static const std::vector<kvopt::PolicyEntry> entries = {__VA_ARGS__};                              \
    static const kvopt::PolicyPlugin plugin = {.policies = entries.data(), .count = entries.size()};   \
    return &plugin;                                                                                    \
  }
