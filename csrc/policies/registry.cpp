// The list of built-in policies, and reading "name:parameter=value,..." against it.
#include <algorithm>
#include <charconv>
#include <numeric>

#include "kvopt/error.hpp"
#include "policies/builtin.hpp"

namespace kvopt {

namespace {

const std::vector<BuiltinPolicy>& entries() {
  static const std::vector<BuiltinPolicy> kEntries = {
      builtin::lru(),
      builtin::fifo(),
      builtin::lfu(),
      builtin::priority(),
      builtin::dummy(),
      builtin::cost_aware(),
      {.info = {.name = "min",
                .summary = "farthest next use; everything is stored (forced insertion)",
                .reference = "Belady, IBM Systems Journal 1966",
                .offline = true}},
      {.info = {.name = "min-bypass",
                .summary = "farthest next use; what is used later than all that is cached is not stored",
                .reference = "Belady, IBM Systems Journal 1966, with bypass",
                .offline = true}},
  };
  return kEntries;
}

std::size_t edit_distance(std::string_view a, std::string_view b) {
  std::vector<std::size_t> row(b.size() + 1);
  std::iota(row.begin(), row.end(), std::size_t{0});
  for (std::size_t i = 1; i <= a.size(); ++i) {
    std::size_t diagonal = row[0];
    row[0] = i;
    for (std::size_t j = 1; j <= b.size(); ++j) {
      const std::size_t change = diagonal + (a[i - 1] == b[j - 1] ? 0 : 1);
      diagonal = row[j];
      row[j] = std::min({row[j] + 1, row[j - 1] + 1, change});
    }
  }
  return row[b.size()];
}

const BuiltinPolicy& find_entry(std::string_view name) {
  const auto& all = entries();
  const auto found = std::find_if(all.begin(), all.end(), [&](const BuiltinPolicy& e) { return e.info.name == name; });
  if (found != all.end()) return *found;
  const auto nearest = std::min_element(all.begin(), all.end(), [&](const BuiltinPolicy& x, const BuiltinPolicy& y) {
    return edit_distance(name, x.info.name) < edit_distance(name, y.info.name);
  });
  std::string known;
  for (const BuiltinPolicy& e : all) known += (known.empty() ? "" : ", ") + e.info.name;
  throw UnknownPolicyError("no policy is called '" + std::string(name) + "'; did you mean '" + nearest->info.name +
                           "'? Known: " + known);
}

std::string number(double x) {
  char text[32];
  const auto end = std::to_chars(text, text + sizeof text, x).ptr;
  return {text, end};
}

void set_parameter(const PolicyInfo& info, std::string_view setting, std::vector<double>& values) {
  const std::size_t equals = setting.find('=');
  const std::string name(setting.substr(0, equals));
  const auto found = std::find_if(info.parameters.begin(), info.parameters.end(),
                                  [&](const PolicyParameter& p) { return p.name == name; });
  if (equals == std::string_view::npos || found == info.parameters.end()) {
    std::string known;
    for (const PolicyParameter& p : info.parameters) known += (known.empty() ? "" : ", ") + p.name;
    throw ConfigError("policy " + info.name + ": '" + std::string(setting) + "' is not a setting; " +
                      (known.empty() ? "it has none" : "write name=value with one of: " + known));
  }
  const std::string_view text = setting.substr(equals + 1);
  double value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size() ||
      !(value >= found->lowest && value <= found->highest)) {
    throw ConfigError("policy " + info.name + ": " + name + "=" + std::string(text) + "; it must be a number from " +
                      number(found->lowest) + " to " + number(found->highest));
  }
  values[static_cast<std::size_t>(found - info.parameters.begin())] = value;
}

}  // namespace

const std::vector<PolicyInfo>& policies() {
  static const std::vector<PolicyInfo> kInfos = [] {
    std::vector<PolicyInfo> infos;
    for (const BuiltinPolicy& e : entries()) infos.push_back(e.info);
    return infos;
  }();
  return kInfos;
}

PolicySpec parse_policy(std::string_view spec) {
  const std::size_t colon = spec.find(':');
  const BuiltinPolicy& entry = find_entry(spec.substr(0, colon));
  PolicySpec parsed{entry.info.name, {}};
  for (const PolicyParameter& p : entry.info.parameters) parsed.parameters.push_back(p.value);
  if (colon == std::string_view::npos) return parsed;
  std::string_view rest = spec.substr(colon + 1);
  while (true) {
    const std::size_t comma = rest.find(',');
    set_parameter(entry.info, rest.substr(0, comma), parsed.parameters);
    if (comma == std::string_view::npos) return parsed;
    rest.remove_prefix(comma + 1);
  }
}

std::unique_ptr<Policy> make_policy(const PolicySpec& spec) {
  const BuiltinPolicy& entry = find_entry(spec.name);
  if (entry.make == nullptr) {
    throw ConfigError("policy " + spec.name + " knows the future; it can only be replayed, not run in a pool");
  }
  if (spec.parameters.size() != entry.info.parameters.size()) {
    throw ConfigError("policy " + spec.name + " takes " + std::to_string(entry.info.parameters.size()) +
                      " parameters, not " + std::to_string(spec.parameters.size()));
  }
  return entry.make(spec.parameters);
}

}  // namespace kvopt
