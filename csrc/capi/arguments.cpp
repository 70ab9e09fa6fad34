#include "capi/arguments.hpp"

#include <string>

#include "capi/rank_policy.hpp"
#include "capi/status.hpp"
#include "capi/structures.hpp"
#include "kvopt/error.hpp"

namespace kvopt::capi {

namespace {

kvopt_request_info unknown_info() {
  const RequestInfo unknown;
  return {.size = sizeof(kvopt_request_info),
          .now = unknown.now,
          .request = unknown.request,
          .session = unknown.session,
          .turn = unknown.turn,
          .tool = unknown.tool,
          .output_tokens = unknown.output_tokens,
          .gap = unknown.gap,
          .expected_gap = unknown.expected_gap,
          .return_probability = unknown.return_probability,
          .steps = unknown.steps,
          .stop = KVOPT_STOP_UNKNOWN,
          .subagent = 0,
          .last_turn = 0,
          .reserved = {}};
}

}  // namespace

bool to_bool(std::uint32_t value, const char* name) {
  if (value > 1) throw ConfigError(std::string(name) + " is " + std::to_string(value) + "; it must be 0 or 1");
  return value == 1;
}

RequestInfo to_info(const kvopt_request_info* given) {
  const kvopt_request_info info = read(given, "info", unknown_info());
  if (info.stop < KVOPT_STOP_UNKNOWN || info.stop > KVOPT_STOP_ABORT) {
    throw ConfigError("stop is " + std::to_string(info.stop) + "; it must be 0 to " + std::to_string(KVOPT_STOP_ABORT));
  }
  return {.now = info.now,
          .request = info.request,
          .session = info.session,
          .turn = info.turn,
          .tool = info.tool,
          .output_tokens = info.output_tokens,
          .gap = info.gap,
          .expected_gap = info.expected_gap,
          .return_probability = info.return_probability,
          .steps = info.steps,
          .stop = static_cast<StopReason>(info.stop),
          .subagent = to_bool(info.subagent, "subagent"),
          .last_turn = to_bool(info.last_turn, "last_turn")};
}

std::unique_ptr<Policy> to_policy(const char* policy, const kvopt_policy_functions* functions) {
  if (functions != nullptr) return std::make_unique<RankPolicy>(read(functions, "functions"));
  if (policy == nullptr) return nullptr;
  return make_policy(parse_policy(policy));
}

}  // namespace kvopt::capi

using namespace kvopt::capi;

kvopt_status kvopt_request_info_init(kvopt_request_info* info, size_t size) {
  return answer([&] { write(info, size, "info", unknown_info()); });
}

kvopt_status kvopt_policy_functions_init(kvopt_policy_functions* functions, size_t size) {
  return answer([&] { write(functions, size, "functions", kvopt_policy_functions{}); });
}
