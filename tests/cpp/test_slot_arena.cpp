// SlotArena against a bitmap: what it hands out was free, is as long as promised, and keeps its keys until it is
// released.
#include <algorithm>
#include <random>
#include <vector>

#include "check.hpp"
#include "core/slot_arena.hpp"

namespace {

using kvopt::Extent;
using kvopt::SlotArena;

class Bitmap {
 public:
  explicit Bitmap(std::size_t slots) : used_(slots, false) {}

  void take(Extent e) {
    for (std::size_t s = e.first; s < std::size_t{e.first} + e.count; ++s) {
      CHECK(!used_.at(s));
      used_[s] = true;
    }
  }
  void give(Extent e) {
    for (std::size_t s = e.first; s < std::size_t{e.first} + e.count; ++s) {
      CHECK(used_.at(s));
      used_[s] = false;
    }
  }
  std::uint32_t free_from(std::size_t slot) const {
    std::uint32_t length = 0;
    while (slot + length < used_.size() && !used_[slot + length]) ++length;
    return length;
  }
  std::uint32_t longest() const {
    std::uint32_t best = 0;
    for (std::size_t s = 0; s < used_.size(); ++s) best = std::max(best, free_from(s));
    return best;
  }
  std::uint32_t free() const { return static_cast<std::uint32_t>(std::ranges::count(used_, false)); }

 private:
  std::vector<bool> used_;
};

// Random allocations, extensions and releases, whole or of the deep end only, as a pool makes them.
void random_operations(std::uint32_t blocks, std::uint64_t seed, std::size_t operations) {
  std::mt19937_64 random(seed);
  SlotArena arena(blocks, 0);
  Bitmap bitmap(arena.slots());
  CHECK(arena.slots() >= blocks + blocks / 8);
  std::vector<Extent> held;
  const auto key_of = [](std::uint32_t slot) { return std::uint64_t{slot} * 0x9E3779B97F4A7C15U + 1; };
  const auto write = [&](Extent e) {
    for (std::uint32_t s = e.first; s < e.first + e.count; ++s) *arena.keys(s) = key_of(s);
  };
  for (std::size_t i = 0; i < operations; ++i) {
    const std::size_t choice = random() % 10;
    if (choice < 5 && arena.free_slots() > 0) {
      const auto wanted = static_cast<std::uint32_t>(1 + random() % (random() % 4 == 0 ? blocks : 8));
      const std::uint32_t longest = bitmap.longest();
      const Extent e = arena.allocate(wanted);
      if (longest >= wanted + (wanted + 7) / 8) CHECK_EQUAL(e.count, wanted);
      CHECK(e.count >= std::min(wanted, longest - longest / 8) && e.count <= wanted);
      bitmap.take(e);
      write(e);
      held.push_back(e);
    } else if (choice < 7 && !held.empty()) {
      Extent& e = held[random() % held.size()];
      const auto wanted = static_cast<std::uint32_t>(1 + random() % 10);
      const std::uint32_t free = bitmap.free_from(e.first + e.count);
      const std::uint32_t got = arena.extend(e.first + e.count, wanted);
      CHECK_EQUAL(got, std::min(wanted, free));
      const Extent added{e.first + e.count, got};
      bitmap.take(added);
      write(added);
      e.count += got;
    } else if (!held.empty()) {
      const std::size_t at = random() % held.size();
      Extent& e = held[at];
      const auto count = static_cast<std::uint32_t>(random() % 2 == 0 ? e.count : 1 + random() % e.count);
      const Extent end{e.first + e.count - count, count};
      arena.release(end);
      bitmap.give(end);
      e.count -= count;
      if (e.count == 0) held.erase(held.begin() + static_cast<std::ptrdiff_t>(at));
    }
    CHECK_EQUAL(arena.free_slots(), bitmap.free());
    CHECK_EQUAL(arena.verify(), "");
    for (const Extent& e : held) {
      CHECK_EQUAL(*arena.keys(e.first), key_of(e.first));
      CHECK_EQUAL(*arena.keys(e.first + e.count - 1), key_of(e.first + e.count - 1));
    }
  }
}

void hands_out_what_is_free() {
  for (const std::uint32_t blocks : {1U, 2U, 7U, 64U, 300U}) {
    for (std::uint64_t seed = 0; seed < 5; ++seed) random_operations(blocks, seed, 1500);
  }
}

// A pool never needs more slots than blocks, however they are scattered.
void every_block_finds_a_slot() {
  SlotArena arena(50, 0);
  Bitmap bitmap(arena.slots());
  for (std::uint32_t s = 0; s < arena.slots(); ++s) bitmap.take(arena.allocate(1));
  for (std::uint32_t s = 0; s < arena.slots(); s += 2) arena.release({s, 1});
  for (std::uint32_t left = arena.free_slots(); left > 0; --left) CHECK_EQUAL(arena.allocate(8).count, 1U);
  CHECK_EQUAL(arena.free_slots(), 0U);
}

void clear_frees_all_and_merges() {
  SlotArena arena(100, 16);
  for (int i = 0; i < 30; ++i) arena.allocate(3);
  arena.clear();
  CHECK_EQUAL(arena.verify(), "");
  CHECK_EQUAL(arena.free_slots(), arena.slots());
  CHECK_EQUAL(arena.allocate(100).count, 100U);
}

}  // namespace

int main() {
  return kvopt::test::run_all({{"hands out what is free", hands_out_what_is_free},
                               {"every block finds a slot", every_block_finds_a_slot},
                               {"clear frees all and merges", clear_frees_all_and_merges}});
}
