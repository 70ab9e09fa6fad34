// A library of policies that is right or wrong in the way that KVOPT_TEST_CASE names.
#include <kvopt/plugin.hpp>

#include <cmath>
#include <cstdlib>
#include <string>
#include <string_view>

namespace {

using kvopt::RunId;

// The run that became evictable last or first goes first. For the flat rule, where every run is a leaf.
class ByAge final : public kvopt::Policy {
 public:
  explicit ByAge(std::span<const double> parameters) : oldest_(parameters[0] == 1) {
    if (parameters[0] != 0 && !oldest_) throw kvopt::ConfigError("by-age: oldest must be 0 or 1");
  }

  void attach(const kvopt::PolicyContext& context) override { runs_.reserve(context.runs.capacity); }
  void on_referenced(std::span<const RunId> runs) override { std::erase(runs_, runs[0]); }
  void on_evictable(std::span<const RunId> runs, const kvopt::RequestInfo& /*info*/) override {
    runs_.push_back(runs[0]);
  }
  void on_dropped(std::span<const RunId> runs) override { on_referenced(runs); }
  RunId choose(std::uint32_t /*wanted*/, kvopt::Time /*now*/) override {
    return oldest_ ? runs_.front() : runs_.back();
  }

 private:
  bool oldest_;
  std::vector<RunId> runs_;
};

// Names a run that there is not.
class Wrong : public kvopt::Policy {
 public:
  void attach(const kvopt::PolicyContext& /*context*/) override {}
  void on_referenced(std::span<const RunId> /*runs*/) override {}
  void on_evictable(std::span<const RunId> /*runs*/, const kvopt::RequestInfo& /*info*/) override {}
  void on_dropped(std::span<const RunId> /*runs*/) override {}
  RunId choose(std::uint32_t /*wanted*/, kvopt::Time /*now*/) override { return kvopt::kNoRun; }
};

// Fails with what it is told of the pool.
class Told final : public Wrong {
 public:
  void attach(const kvopt::PolicyContext& context) override {
    told_ = std::string("told: ") + (context.rule == kvopt::Rule::kFlat ? "flat" : "prefix") + ", " +
            std::to_string(context.block_tokens) + " tokens, p* " + std::to_string(std::lround(context.p_star));
  }
  void check() const override { throw kvopt::PolicyError(told_); }

 private:
  std::string told_;
};

kvopt::PolicyEntry by_age(const char* name, kvopt::PolicyParameter parameter, std::vector<std::string> needs = {}) {
  return kvopt::plugin_policy<ByAge>({.name = name,
                                      .summary = "by age",
                                      .reference = "a test",
                                      .needs = std::move(needs),
                                      .parameters = {std::move(parameter)}});
}

kvopt::PolicyEntry wrong(const char* name) {
  return kvopt::plugin_policy<Wrong>({.name = name, .summary = "wrong", .reference = "a test"});
}

const kvopt::PolicyParameter kOldest = {"oldest", 0, 0, 1, "1: the oldest first"};

std::vector<kvopt::PolicyEntry> entries_of(std::string_view test) {
  if (test == "none") return {};
  if (test == "existing name") return {by_age("by-age", kOldest), wrong("lru")};
  if (test == "same name") return {wrong("twice"), wrong("twice")};
  if (test == "bad name") return {wrong("a:b")};
  if (test == "bad default") return {by_age("by-age", {"oldest", 2, 0, 1, ""})};
  if (test == "bad parameter name") return {by_age("by-age", {"a,b", 0, 0, 1, ""})};
  if (test == "offline") {
    return {kvopt::plugin_policy<Wrong>({.name = "seer", .summary = "", .reference = "", .offline = true})};
  }
  if (test == "parameters that no constructor takes") {
    return {kvopt::plugin_policy<Wrong>({.name = "deaf", .summary = "", .reference = "", .parameters = {kOldest}})};
  }
  return {by_age("by-age", kOldest), by_age("by-session", kOldest, {"session"}), by_age("by-mood", kOldest, {"mood"}),
          wrong("wrong"),
          kvopt::plugin_policy<Told>({.name = "told", .summary = "fails", .reference = "a test"})};
}

}  // namespace

extern "C" const kvopt::PolicyPlugin* kvopt_policy_plugin() {
  const char* variable = std::getenv("KVOPT_TEST_CASE");
  const std::string_view test = variable == nullptr ? "" : variable;
  static const std::vector<kvopt::PolicyEntry> entries = entries_of(test);
  static kvopt::PolicyPlugin plugin = {.policies = entries.data(), .count = entries.size()};
  if (test == "version") plugin.version = 999, plugin.kvopt_version = "9.9.9";
  if (test == "sizes") plugin.layout.run_table += 8;
  if (test == "standard library") plugin.standard_library = kvopt::StandardLibrary::kOther;
  return test == "null" ? nullptr : &plugin;
}
