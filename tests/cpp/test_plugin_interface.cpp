// What a library of policies finds in KVopt: virtual functions at their places in the table and with their types, and
// structs with their fields. A library that was compiled against another interface must be refused, by its version.
//
//   test_plugin_interface FILE         fails where the interface is not the one in the file, or the version is not
//   test_plugin_interface FILE write   writes the interface of a new version, once kPluginVersion was raised
//
// Described as libstdc++ and 64-bit Linux have it (the Itanium C++ ABI); elsewhere there is nothing to compare.
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <fstream>
#include <iostream>
#include <memory>
#include <sstream>
#include <string>
#include <typeinfo>
#include <vector>

#include "check.hpp"
#include "kvopt/plugin.hpp"

namespace {

using namespace kvopt;

// Stands behind all virtual functions of Policy.
struct Longer : Policy {
  virtual void end() {}
};

class Interface {
 public:
  Interface() {
    functions();
    fields();
  }

  std::string text() const { return text_.str(); }

 private:
  // A pointer to a virtual function begins with its offset in the table, on x86-64 plus one.
  template <class Function>
  void function(const char* name, Function pointer) {
    std::size_t offset = 0;
    std::memcpy(&offset, &pointer, sizeof offset);
    text_ << "virtual " << offset / sizeof(void*) << " " << name << " " << typeid(pointer).name() << "\n";
  }

  template <class Struct>
  void type(const char* name, const Struct& /*instance*/) {
    text_ << "struct " << sizeof(Struct) << " " << name << "\n";
  }

  template <class Struct, class Field>
  void field(const char* name, const Struct& instance, const Field& value) {
    const auto offset = reinterpret_cast<std::uintptr_t>(&value) - reinterpret_cast<std::uintptr_t>(&instance);
    text_ << "  " << offset << " " << name << " " << typeid(Field).name() << "\n";
  }

  void functions() {
    function("attach", &Policy::attach);
    function("on_miss", &Policy::on_miss);
    function("on_hit", &Policy::on_hit);
    function("on_stored", &Policy::on_stored);
    function("on_split", &Policy::on_split);
    function("on_referenced", &Policy::on_referenced);
    function("on_evictable", &Policy::on_evictable);
    function("on_dropped", &Policy::on_dropped);
    function("on_forgotten", &Policy::on_forgotten);
    function("on_uncovered", &Policy::on_uncovered);
    function("on_trimmed", &Policy::on_trimmed);
    function("on_evicted", &Policy::on_evicted);
    function("on_priority", &Policy::on_priority);
    function("honours_priority", &Policy::honours_priority);
    function("choose", &Policy::choose);
    function("expendable", &Policy::expendable);
    function("learns", &Policy::learns);
    function("save_state", &Policy::save_state);
    function("load_state", &Policy::load_state);
    function("explains", &Policy::explains);
    function("explain", &Policy::explain);
    function("check", &Policy::check);
    function("verify", &Policy::verify);
    function("bytes", &Policy::bytes);
    function("end", &Longer::end);
  }

  void fields() {
    const RequestInfo info;
    type("RequestInfo", info);
    field("now", info, info.now);
    field("request", info, info.request);
    field("session", info, info.session);
    field("turn", info, info.turn);
    field("tool", info, info.tool);
    field("output_tokens", info, info.output_tokens);
    field("gap", info, info.gap);
    field("expected_gap", info, info.expected_gap);
    field("return_probability", info, info.return_probability);
    field("steps", info, info.steps);
    field("stop", info, info.stop);
    field("subagent", info, info.subagent);
    field("last_turn", info, info.last_turn);

    const auto runs = std::make_shared<RunTable>(1);
    type("RunTable", *runs);
    field("capacity", *runs, runs->capacity);
    field("used", *runs, runs->used);
    field("slot_keys", *runs, runs->slot_keys);
    field("parent", *runs, runs->parent);
    field("first_slot", *runs, runs->first_slot);
    field("length", *runs, runs->length);
    field("depth", *runs, runs->depth);
    field("children", *runs, runs->children);
    field("references", *runs, runs->references);
    field("leases", *runs, runs->leases);
    field("hits", *runs, runs->hits);
    field("last_use", *runs, runs->last_use);
    field("priority", *runs, runs->priority);
    field("flags", *runs, runs->flags);

    const PolicyContext context{*runs};
    type("PolicyContext", context);
    field("rule", context, context.rule);
    field("block_tokens", context, context.block_tokens);
    field("p_star", context, context.p_star);

    const PolicyParameter parameter{};
    type("PolicyParameter", parameter);
    field("name", parameter, parameter.name);
    field("value", parameter, parameter.value);
    field("lowest", parameter, parameter.lowest);
    field("highest", parameter, parameter.highest);
    field("description", parameter, parameter.description);

    const PolicyEntry entry{};
    type("PolicyEntry", entry);
    field("make", entry, entry.make);
    type("PolicyInfo", entry.info);
    field("name", entry.info, entry.info.name);
    field("summary", entry.info, entry.info.summary);
    field("reference", entry.info, entry.info.reference);
    field("offline", entry.info, entry.info.offline);
    field("needs", entry.info, entry.info.needs);
    field("parameters", entry.info, entry.info.parameters);

    const PolicyPlugin plugin;
    type("PolicyPlugin", plugin);
    field("version", plugin, plugin.version);
    field("kvopt_version", plugin, plugin.kvopt_version);
    field("standard_library", plugin, plugin.standard_library);
    field("layout", plugin, plugin.layout);
    field("policies", plugin, plugin.policies);
    field("count", plugin, plugin.count);
  }

  std::ostringstream text_;
};

std::string contents(const char* path) {
  const std::ifstream file(path);
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

}  // namespace

int main(int count, char** arguments) {
  if (kStandardLibrary != StandardLibrary::kLibstdcxx || sizeof(void*) != 8) return 0;
  const std::vector<std::string> given(arguments + 1, arguments + count);
  if (given.empty()) return 2;
  const std::string version = "version " + std::to_string(kPluginVersion) + "\n";
  const std::string now = version + Interface().text();
  const std::string before = contents(given[0].c_str());
  if (now == before) return 0;
  if (given.size() > 1 && given[1] == "write" && !before.starts_with(version)) {
    std::ofstream(given[0]) << now;
    return 0;
  }
  std::cout << "The interface of policy libraries is not the one of " << given[0] << ":\n"
            << now << "Raise kPluginVersion (kvopt/plugin.hpp) above the one in the file, then run\n  " << arguments[0]
            << " " << given[0] << " write\n";
  return 1;
}
