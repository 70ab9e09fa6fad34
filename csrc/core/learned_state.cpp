#include "core/learned_state.hpp"

#include <algorithm>
#include <array>
#include <cstdio>

namespace kvopt {

namespace {

constexpr std::string_view kMark = "KVOPTLS\n";
constexpr std::uint32_t kVersion = 1;
constexpr std::size_t kHead = kMark.size() + sizeof(std::uint32_t) + sizeof(std::uint64_t);

std::uint64_t checksum(std::string_view bytes) {
  std::uint64_t hash = 0xCBF29CE484222325U;
  for (const char byte : bytes) hash = (hash ^ static_cast<std::uint8_t>(byte)) * 0x100000001B3U;
  return hash;
}

[[noreturn]] void refuse(const std::string& why) { throw PolicyStateError("policy state: " + why); }

std::string number(double x) {
  std::array<char, 32> text{};
  std::snprintf(text.data(), text.size(), "%g", x);
  return text.data();
}

}  // namespace

std::string seal_state(const PolicyInfo& policy, std::span<const double> parameters, std::string_view learned) {
  StateWriter body;
  body.put_text(policy.name);
  body.put(static_cast<std::uint32_t>(parameters.size()));
  body.put(parameters);
  body.put_text(learned);
  StateWriter whole;
  whole.put(std::span<const char>(kMark.data(), kMark.size()));
  whole.put(kVersion);
  whole.put(static_cast<std::uint64_t>(body.bytes().size()));
  whole.put(std::span<const char>(body.bytes().data(), body.bytes().size()));
  whole.put(checksum(whole.bytes()));
  return whole.bytes();
}

std::string_view open_state(std::string_view state, const PolicyInfo& policy, std::span<const double> parameters) {
  if (state.substr(0, kMark.size()) != kMark.substr(0, std::min(state.size(), kMark.size())) || state.empty()) {
    refuse("these bytes are none; it begins with KVOPTLS");
  }
  if (state.size() < kHead) refuse("truncated: " + std::to_string(state.size()) + " bytes");
  StateReader head(state.substr(kMark.size()));
  const auto version = head.get<std::uint32_t>();
  if (version != kVersion) {
    refuse("it is of version " + std::to_string(version) + "; this KVopt reads version " + std::to_string(kVersion));
  }
  const auto size = head.get<std::uint64_t>();
  const std::size_t rest = state.size() - kHead;
  if (rest < sizeof(std::uint64_t) || size != rest - sizeof(std::uint64_t)) {
    refuse((size + sizeof(std::uint64_t) > rest ? "truncated: " : "damaged: ") + std::to_string(state.size()) +
           " bytes of " + std::to_string(size) + " + " + std::to_string(kHead + sizeof(std::uint64_t)));
  }
  StateReader foot(state.substr(kHead + size));
  if (foot.get<std::uint64_t>() != checksum(state.substr(0, kHead + size))) {
    refuse("damaged: its checksum is not that of its content");
  }
  StateReader body(state.substr(kHead, size));
  if (const std::string_view name = body.get_text(); name != policy.name) {
    const bool printable = std::ranges::all_of(name, [](char c) { return c > ' ' && c <= '~'; });
    refuse("it is of policy '" + (printable ? std::string(name) : "?") + "', not of '" + policy.name + "'");
  }
  if (const auto count = body.get<std::uint32_t>(); count != parameters.size()) {
    refuse("it is of a policy '" + policy.name + "' with " + std::to_string(count) + " settings, not " +
           std::to_string(parameters.size()));
  }
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    if (const auto saved = body.get<double>(); saved != parameters[i]) {
      refuse("it was learned with " + policy.name + ":" + policy.parameters[i].name + "=" + number(saved) +
             ", and this policy has " + number(parameters[i]));
    }
  }
  const std::string_view learned = body.get_text();
  body.finish();
  return learned;
}

}  // namespace kvopt
