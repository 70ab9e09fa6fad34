// The list of policies, and reading "name:parameter=value,..." against it.
#include <algorithm>
#include <array>
#include <charconv>
#include <deque>
#include <mutex>
#include <numeric>

#include "kvopt/error.hpp"
#include "policies/builtin.hpp"

namespace kvopt {

namespace {

const std::vector<BuiltinPolicy>& builtin_policies() {
  static const std::vector<BuiltinPolicy> kEntries = {
      builtin::lru(),
      builtin::fifo(),
      builtin::lfu(),
      builtin::clock(),
      builtin::slru(),
      builtin::two_q(),
      builtin::mq(),
      builtin::arc(),
      builtin::s3_fifo(),
      builtin::sieve(),
      builtin::lirs(),
      builtin::lfu_da(),
      builtin::lru_k(),
      builtin::w_tinylfu(),
      builtin::lecar(),
      builtin::cacheus(),
      builtin::gdsf(),
      builtin::lhd(),
      builtin::hyperbolic(),
      builtin::random(),
      builtin::priority(),
      builtin::t_lru(),
      builtin::workload_aware(),
      builtin::asymcache(),
      builtin::pensieve(),
      builtin::pgdsf(),
      builtin::marconi(),
      builtin::kvflow(),
      builtin::lpc(),
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

// Entries never move, so that one that was found stays valid while others are added.
struct Registry {
  std::mutex mutex;
  std::deque<PolicyEntry> entries{builtin_policies().begin(), builtin_policies().end()};
};

Registry& registry() {
  static Registry registry;
  return registry;
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

const PolicyEntry* find_name(const std::deque<PolicyEntry>& all, std::string_view name) {
  const auto found = std::ranges::find(all, name, [](const PolicyEntry& e) { return std::string_view(e.info.name); });
  return found == all.end() ? nullptr : &*found;
}

const PolicyEntry& find_entry(std::string_view name) {
  const std::scoped_lock lock(registry().mutex);
  const auto& all = registry().entries;
  if (const PolicyEntry* found = find_name(all, name)) return *found;
  const auto nearest = std::ranges::min_element(all, [&](const PolicyEntry& x, const PolicyEntry& y) {
    return edit_distance(name, x.info.name) < edit_distance(name, y.info.name);
  });
  std::string known;
  for (const PolicyEntry& e : all) known += (known.empty() ? "" : ", ") + e.info.name;
  throw UnknownPolicyError("no policy is called '" + std::string(name) + "'; did you mean '" + nearest->info.name +
                           "'? Known: " + known);
}

std::string number(double x) {
  std::array<char, 32> text{};
  const char* end = std::to_chars(text.data(), text.data() + text.size(), x).ptr;
  return {text.data(), static_cast<std::size_t>(end - text.data())};
}

void set_parameter(const PolicyInfo& info, std::string_view setting, std::vector<double>& values) {
  const std::size_t equals = setting.find('=');
  const std::string name(setting.substr(0, equals));
  const auto found = std::ranges::find(info.parameters, name, &PolicyParameter::name);
  if (equals == std::string_view::npos || found == info.parameters.end()) {
    std::string known;
    for (const PolicyParameter& p : info.parameters) known += (known.empty() ? "" : ", ") + p.name;
    throw ConfigError("policy " + info.name + ": '" + std::string(setting) + "' is not a setting; " +
                      (known.empty() ? "it has none" : "write name=value with one of: " + known));
  }
  const std::string_view text = setting.substr(equals + 1);
  double value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  const bool within = value >= found->lowest && value <= found->highest;
  if (error != std::errc() || end != text.data() + text.size() || !within) {
    throw ConfigError("policy " + info.name + ": " + name + "=" + std::string(text) + "; it must be a number from " +
                      number(found->lowest) + " to " + number(found->highest));
  }
  values[static_cast<std::size_t>(found - info.parameters.begin())] = value;
}

// Letters, digits, '_' and what else may stand in it: what can be written in a spec.
bool is_name(std::string_view text, std::string_view also) {
  return !text.empty() && std::ranges::all_of(text, [&](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' ||
           also.find(c) != std::string_view::npos;
  });
}

void check_entry(const std::deque<PolicyEntry>& all, const PolicyEntry& entry) {
  const PolicyInfo& info = entry.info;
  if (!is_name(info.name, "-")) {
    throw ConfigError("policy '" + info.name + "': a name is letters, digits, '-' and '_'");
  }
  if (find_name(all, info.name) != nullptr) throw ConfigError("a policy is called '" + info.name + "' already");
  if (entry.make == nullptr || info.offline) {
    throw ConfigError("policy " + info.name + " cannot be made: only built-in policies are offline");
  }
  for (const PolicyParameter& p : info.parameters) {
    const auto same = [&p](const PolicyParameter& other) { return other.name == p.name; };
    if (!is_name(p.name, "") || std::ranges::count_if(info.parameters, same) > 1) {
      throw ConfigError("policy " + info.name + ": parameter '" + p.name +
                        "': a name is letters, digits and '_', and comes once");
    }
    const bool within = p.lowest <= p.value && p.value <= p.highest;  // false for NaN
    if (!within) {
      throw ConfigError("policy " + info.name + ": parameter " + p.name + " is " + number(p.value) +
                        " by default, which is not from " + number(p.lowest) + " to " + number(p.highest));
    }
  }
}

}  // namespace

std::vector<PolicyInfo> policies() {
  const std::scoped_lock lock(registry().mutex);
  std::vector<PolicyInfo> infos;
  for (const PolicyEntry& e : registry().entries) infos.push_back(e.info);
  return infos;
}

void add_policies(std::span<const PolicyEntry> entries) {
  const std::scoped_lock lock(registry().mutex);
  auto& all = registry().entries;
  const std::size_t before = all.size();
  try {
    for (const PolicyEntry& entry : entries) {
      check_entry(all, entry);
      all.push_back(entry);
    }
  } catch (...) {
    all.resize(before);
    throw;
  }
}

PolicySpec parse_policy(std::string_view spec) {
  const std::size_t colon = spec.find(':');
  const PolicyEntry& entry = find_entry(spec.substr(0, colon));
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
  const PolicyEntry& entry = find_entry(spec.name);
  if (entry.make == nullptr) {
    throw ConfigError("policy " + spec.name + " knows the future; it can only be replayed, not run in a pool");
  }
  if (spec.parameters.size() != entry.info.parameters.size()) {
    throw ConfigError("policy " + spec.name + " takes " + std::to_string(entry.info.parameters.size()) +
                      " parameters, not " + std::to_string(spec.parameters.size()));
  }
  std::unique_ptr<Policy> policy = entry.make(spec.parameters);
  if (policy == nullptr) throw PolicyError("policy " + spec.name + " was not made: its function returned nothing");
  return policy;
}

}  // namespace kvopt
