// How the C interface answers: a status, and a message for the thread that called.
#pragma once

#include <stdexcept>
#include <string>

#include "kvopt/kvopt.h"

namespace kvopt::capi {

// What only the C interface refuses; the core's own errors have a status each.
struct Refusal : std::runtime_error {
  Refusal(kvopt_status answer, const std::string& message) : std::runtime_error(message), status(answer) {}

  kvopt_status status;
};

// Notes the message of the exception in flight, and returns its status.
kvopt_status answer_of_exception() noexcept;
const char* last_error() noexcept;

// Runs call(), and lets nothing out.
template <class Call>
kvopt_status answer(Call call) noexcept {
  try {
    call();
    return KVOPT_OK;
  } catch (...) {
    return answer_of_exception();
  }
}

inline void check_not_null(const void* pointer, const char* name) {
  if (pointer == nullptr) throw Refusal(KVOPT_NULL_POINTER, std::string(name) + " is a null pointer");
}

// An array may be null where it has no elements.
inline void check_array(const void* pointer, std::size_t count, const char* name) {
  if (count > 0) check_not_null(pointer, name);
}

}  // namespace kvopt::capi
