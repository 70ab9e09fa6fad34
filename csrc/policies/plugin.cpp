// Loading policies from a shared library that was compiled outside the project (kvopt/plugin.hpp).
//
// A library is never closed once its code has run: its policies, and what they throw, refer to it to the end.
#include "kvopt/plugin.hpp"

#include <dlfcn.h>

#include <filesystem>
#include <map>
#include <mutex>
#include <string>
#include <string_view>

#include "kvopt/error.hpp"

namespace kvopt {

namespace {

constexpr const char* kEntryPoint = "kvopt_policy_plugin";

[[noreturn]] void refuse(const std::string& path, const std::string& why) {
  throw PolicyLibraryError("policy library " + path + ": " + why);
}

// What dlerror() says, without the path that it often begins with.
std::string last_error(const std::string& path) {
  const char* text = dlerror();  // NOLINT(concurrency-mt-unsafe): the state is a thread's own
  std::string_view reason = text != nullptr ? text : "no reason given";
  if (reason.starts_with(path + ": ")) reason.remove_prefix(path.size() + 2);
  return std::string(reason);
}

void* open(const std::string& path) {
  if (!std::filesystem::exists(path)) refuse(path, "there is no such file");
  // An absolute path: dlopen looks for a plain name elsewhere.
  const std::string full = std::filesystem::absolute(path).string();
  void* handle = dlopen(full.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (handle == nullptr) refuse(path, "it cannot be loaded as a shared library: " + last_error(full));
  return handle;
}

std::string sizes(const PluginLayout& layout) {
  std::string text;
  const auto add = [&text](const char* name, std::uint32_t size) {
    text += (text.empty() ? "" : ", ") + std::string(name) + " " + std::to_string(size);
  };
  add("Policy", layout.policy);
  add("PolicyEntry", layout.policy_entry);
  add("PolicyParameter", layout.policy_parameter);
  add("PolicyContext", layout.policy_context);
  add("RequestInfo", layout.request_info);
  add("RunTable", layout.run_table);
  return text;
}

void check(const std::string& path, const PolicyPlugin& plugin) {
  const std::string again = "; compile it again with the headers of this KVopt (python -m kvopt.config --include-dir)";
  if (plugin.version != kPluginVersion) {
    refuse(path, "it was compiled for plugin version " + std::to_string(plugin.version) + " (KVopt " +
                     plugin.kvopt_version + "), but this KVopt " KVOPT_VERSION " loads version " +
                     std::to_string(kPluginVersion) + again);
  }
  if (plugin.standard_library != kStandardLibrary) {
    refuse(path, "it was compiled with another C++ standard library than this KVopt");
  }
  if (plugin.layout != PluginLayout{}) {
    refuse(path, "its types have other sizes (" + sizes(plugin.layout) + ") than those of this KVopt (" +
                     sizes(PluginLayout{}) + ")" + again);
  }
  if (plugin.count == 0) refuse(path, "it holds no policy");
}

std::vector<PolicyInfo> take(const std::string& path, const PolicyPlugin& plugin) {
  check(path, plugin);
  const std::span<const PolicyEntry> entries(plugin.policies, plugin.count);
  try {
    add_policies(entries);
  } catch (const ConfigError& e) {
    refuse(path, e.what());
  }
  std::vector<PolicyInfo> infos;
  for (const PolicyEntry& entry : entries) infos.push_back(entry.info);
  return infos;
}

}  // namespace

std::vector<PolicyInfo> load_policy_library(const std::string& path) {
  static std::mutex mutex;
  static std::map<void*, std::vector<PolicyInfo>> loaded;
  const std::scoped_lock lock(mutex);
  void* handle = open(path);
  if (const auto found = loaded.find(handle); found != loaded.end()) {
    dlclose(handle);  // opened twice, and counted by the system
    return found->second;
  }
  using EntryPoint = const PolicyPlugin* (*)();
  const auto entry_point = reinterpret_cast<EntryPoint>(dlsym(handle, kEntryPoint));
  if (entry_point == nullptr) {
    dlclose(handle);
    refuse(path, "it has no function " + std::string(kEntryPoint) + "; KVOPT_POLICY_PLUGIN(...) defines it");
  }
  const PolicyPlugin* plugin = nullptr;
  try {
    plugin = entry_point();
  } catch (const std::exception& e) {
    refuse(path, e.what());
  }
  if (plugin == nullptr) refuse(path, std::string(kEntryPoint) + "() returned nothing");
  return loaded[handle] = take(path, *plugin);
}

}  // namespace kvopt
