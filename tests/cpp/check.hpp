// Checks that say where they failed and with which values; a list of named tests; nothing else.
#pragma once

#include <exception>
#include <initializer_list>
#include <iostream>
#include <sstream>
#include <stdexcept>
#include <string>
#include <string_view>

namespace kvopt::test {

struct Failure : std::runtime_error {
  using std::runtime_error::runtime_error;
};

[[noreturn]] inline void fail(std::string_view file, int line, const std::string& what) {
  throw Failure(std::string(file) + ":" + std::to_string(line) + ": " + what);
}

template <class T>
std::string text(const T& value) {
  std::ostringstream out;
  if constexpr (requires { out << value; }) {
    out << value;
  } else if constexpr (requires { value.begin(); }) {
    out << "[";
    for (const auto& item : value) out << " " << text(item);
    out << " ]";
  } else {
    out << "(no text)";
  }
  return out.str();
}

struct NamedTest {
  const char* name;
  void (*run)();
};

// Runs all tests; the exit status is 1 when one failed.
inline int run_all(std::initializer_list<NamedTest> tests) {
  int failed = 0;
  for (const NamedTest& test : tests) {
    try {
      test.run();
      std::cout << "ok      " << test.name << "\n";
    } catch (const std::exception& e) {
      ++failed;
      std::cout << "FAILED  " << test.name << "\n        " << e.what() << "\n";
    }
  }
  return failed == 0 ? 0 : 1;
}

}  // namespace kvopt::test

#define CHECK(condition)                                            \
  do {                                                              \
    if (condition) break;                                           \
    kvopt::test::fail(__FILE__, __LINE__, "not true: " #condition); \
  } while (false)

#define CHECK_EQUAL(actual, expected)                                                 \
  do {                                                                                \
    const auto& actual_value = (actual);                                              \
    const auto& expected_value = (expected);                                          \
    if (!(actual_value == expected_value)) {                                          \
      kvopt::test::fail(__FILE__, __LINE__,                                           \
                        #actual " is " + kvopt::test::text(actual_value) + ", not " + \
                            kvopt::test::text(expected_value) + " (" #expected ")");  \
    }                                                                                 \
  } while (false)

// The expression throws exactly this type.
#define CHECK_THROWS(type, expression)                                                                               \
  do {                                                                                                               \
    std::string thrown = "nothing";                                                                                  \
    try {                                                                                                            \
      expression;                                                                                                    \
    } catch (const std::exception& e) {                                                                              \
      thrown = typeid(e) == typeid(type) ? "" : e.what();                                                            \
    }                                                                                                                \
    if (!thrown.empty()) kvopt::test::fail(__FILE__, __LINE__, #expression " threw '" + thrown + "', not a " #type); \
  } while (false)
