// Random operations on the pool equal the naive model step by step: hits, counts, victims, success or the type of the
// error; verify() is clean after every one.
//
// test_pool_random POLICY OPERATIONS runs episodes of 400 operations; test_pool_random POLICY 400 SEED runs one again.
#include <algorithm>
#include <array>
#include <charconv>
#include <cstring>

#include "check.hpp"
#include "random_operations.hpp"

namespace {

constexpr std::uint64_t kEpisode = 400;

std::uint64_t number(const char* argument) {
  std::uint64_t value = 0;
  std::from_chars(argument, argument + std::strlen(argument), value);
  return value;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 3) {
    std::cout << "usage: test_pool_random POLICY OPERATIONS [FIRST_SEED]\n";
    return 2;
  }
  const std::string policy = argv[1];
  const std::uint64_t operations = number(argv[2]);
  std::uint64_t seed = argc > 3 ? number(argv[3]) : 1;
  std::array<std::uint64_t, 6> reached{};
  for (std::uint64_t done = 0; done < operations; done += kEpisode, ++seed) {
    try {
      const kvopt::test::Tally t = kvopt::test::Episode(policy, seed).run(kEpisode);
      const std::uint64_t ended = policy == "faulty" ? t.policy_errors : t.leases_ended;
      const std::uint64_t retained = policy.starts_with("priority") ? t.retentions_ended : 1;
      const std::array now = {t.hits, t.evicted, t.forgotten, t.refused, ended, retained};
      for (std::size_t i = 0; i < now.size(); ++i) reached[i] += now[i];
    } catch (const std::exception& e) {
      std::cout << "FAILED  policy " << policy << ", seed " << seed << ": " << e.what() << "\n";
      return 1;
    }
  }
  std::cout << "ok      " << operations << " operations on " << policy << ":" << kvopt::test::text(reached) << "\n";
  return std::ranges::find(reached, 0U) == reached.end() ? 0 : 1;
}
