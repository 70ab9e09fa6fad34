// PrefixIndex against a list in order of insertion: of the runs with one key, the first that was inserted is found
// first.
#include <algorithm>
#include <random>
#include <vector>

#include "check.hpp"
#include "core/prefix_index.hpp"

namespace {

using kvopt::kNoRun;
using kvopt::RunId;

struct KeyOf {
  const std::vector<std::uint64_t>* keys;
  std::uint64_t operator()(RunId r) const { return (*keys)[r]; }
};

void against_a_list(std::uint32_t capacity, std::uint64_t different_keys, std::uint64_t seed) {
  std::mt19937_64 random(seed);
  std::vector<std::uint64_t> keys(capacity);
  kvopt::PrefixIndex<KeyOf> index(capacity, KeyOf{&keys});
  std::vector<RunId> inserted;  // oldest first
  std::vector<RunId> outside(capacity);
  for (RunId r = 0; r < capacity; ++r) outside[r] = r;

  for (int i = 0; i < 3000; ++i) {
    const std::size_t choice = random() % 10;
    if (choice < 5 && !outside.empty()) {
      const std::size_t at = random() % outside.size();
      const RunId r = outside[at];
      outside.erase(outside.begin() + static_cast<std::ptrdiff_t>(at));
      keys[r] = random() % different_keys;
      index.insert(r);
      inserted.push_back(r);
    } else if (choice < 8 && !inserted.empty()) {
      const std::size_t at = random() % inserted.size();
      index.erase(inserted[at]);
      outside.push_back(inserted[at]);
      inserted.erase(inserted.begin() + static_cast<std::ptrdiff_t>(at));
    } else if (!inserted.empty() && !outside.empty()) {
      RunId& r = inserted[random() % inserted.size()];
      std::swap(r, outside.back());
      keys[r] = keys[outside.back()];
      index.replace(outside.back(), r);
    }
    CHECK_EQUAL(index.size(), inserted.size());
    const std::uint64_t key = random() % different_keys;
    for (const RunId divisor : {1U, 2U, 3U}) {
      const auto fits = [&](RunId r) { return r % divisor == 0; };
      const auto first = std::ranges::find_if(inserted, [&](RunId r) { return keys[r] == key && fits(r); });
      CHECK_EQUAL(index.find(key, fits), first == inserted.end() ? kNoRun : *first);
    }
    for (const RunId r : inserted) CHECK(index.contains(r));
  }
  index.clear();
  CHECK_EQUAL(index.size(), 0U);
  CHECK_EQUAL(index.find(0, [](RunId) { return true; }), kNoRun);
}

void first_inserted_is_found_first() {
  for (std::uint64_t seed = 0; seed < 4; ++seed) {
    against_a_list(1, 2, seed);
    against_a_list(6, 3, seed);
    against_a_list(40, 4, seed);
    against_a_list(40, 1000, seed);
  }
}

}  // namespace

int main() { return kvopt::test::run_all({{"first inserted is found first", first_inserted_is_found_first}}); }
