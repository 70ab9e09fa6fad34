// The C interface: which policies there are.
#include <string>
#include <vector>

#include "capi/status.hpp"
#include "capi/text.hpp"
#include "kvopt/kvopt.h"
#include "kvopt/policy.hpp"

using namespace kvopt::capi;

kvopt_status kvopt_policy_check(const char* policy) {
  return answer([&] {
    check_not_null(policy, "policy");
    kvopt::make_policy(kvopt::parse_policy(policy));
  });
}

kvopt_status kvopt_policy_names(char* text, size_t capacity, size_t* length) {
  return answer([&] {
    check_array(text, capacity, "text");
    std::vector<std::string> names;
    for (const kvopt::PolicyInfo& info : kvopt::policies()) names.push_back(info.name);
    const std::string all = lines(names);
    write_text(all, text, capacity);
    if (length != nullptr) *length = all.size();
  });
}

kvopt_status kvopt_load_policies(const char* path) {
  return answer([&] {
    check_not_null(path, "path");
    kvopt::load_policy_library(path);
  });
}
