// DeadlineHeap, RetentionTable and LeaseTable: what is due ends, in order, once; what was dropped never does.
#include <algorithm>
#include <map>
#include <memory>
#include <random>
#include <vector>

#include "check.hpp"
#include "core/deadline_heap.hpp"
#include "core/lease_table.hpp"
#include "core/retention_table.hpp"

namespace {

using kvopt::DeadlineHeap;
using kvopt::kNever;
using kvopt::RunId;
using kvopt::Time;

void heap_hands_out_what_is_due_in_order() {
  DeadlineHeap heap;
  std::multimap<Time, std::uint32_t> expected;
  std::mt19937_64 random(1);
  Time now = 0;
  for (std::uint32_t i = 0; i < 20000; ++i) {
    if (random() % 3 != 0) {
      const Time deadline = now + static_cast<double>(random() % 100);
      heap.push({deadline, i, 0});
      expected.emplace(deadline, i);
      continue;
    }
    if (random() % 20 == 0) {
      heap.compact([](const auto& e) { return e.item % 3 != 0; });
      std::erase_if(expected, [](const auto& e) { return e.second % 3 == 0; });
    }
    now += static_cast<double>(random() % 4);
    Time last = -kNever;
    heap.pop_due(now, [&](const DeadlineHeap::Entry& e) {
      CHECK(last <= e.deadline && e.deadline <= now);
      last = e.deadline;
      const auto [first, end] = expected.equal_range(e.deadline);
      const auto found = std::find_if(first, end, [&](const auto& x) { return x.second == e.item; });
      CHECK(found != end);
      expected.erase(found);
    });
    CHECK(expected.empty() || expected.begin()->first > now);
    CHECK_EQUAL(heap.size(), expected.size());
  }
}

struct Retention {
  Time deadline;
  Time renewal;
};

// Against a map: set, set again (the newest wins), renewed, dropped, given up and reused.
void retentions_equal_a_map() {
  constexpr std::uint32_t kRuns = 30;
  const auto runs = std::make_shared<kvopt::RunTable>(kRuns);
  runs->used = kRuns;
  kvopt::RetentionTable table(*runs);
  std::map<RunId, Retention> expected;
  std::mt19937_64 random(2);
  Time now = 1;
  for (int i = 0; i < 50000; ++i) {
    const auto r = static_cast<RunId>(random() % kRuns);
    const auto seconds = static_cast<double>(1 + random() % 50);
    switch (random() % 8) {
      case 0:
      case 1:
        table.set(r, now + seconds, 0);
        expected[r] = {now + seconds, 0};
        break;
      case 2:
        table.set(r, now + seconds, seconds);
        expected[r] = {now + seconds, seconds};
        break;
      case 3:
        table.set(r, kNever, 0);
        expected[r] = {kNever, 0};
        break;
      case 4:
        table.renew(r, now);
        if (expected.contains(r) && expected[r].renewal > 0) expected[r].deadline = now + expected[r].renewal;
        break;
      case 5:
        table.drop(r);
        expected.erase(r);
        break;
      default: {
        now += static_cast<double>(random() % 10);
        std::vector<RunId> ended;
        table.pop_due(now, [&](RunId due) { ended.push_back(due); });
        std::vector<RunId> due;
        for (const auto& [run, retention] : expected) {
          if (retention.deadline <= now) due.push_back(run);
        }
        for (const RunId run : due) expected.erase(run);
        std::ranges::sort(ended);
        CHECK_EQUAL(ended, due);
      }
    }
    CHECK_EQUAL(table.deadline(r), expected.contains(r) ? expected[r].deadline : 0);
  }
}

// Setting one run's retention again and again, far ahead, takes no more memory.
void retentions_take_bounded_memory() {
  const auto runs = std::make_shared<kvopt::RunTable>(4);
  runs->used = 4;
  kvopt::RetentionTable table(*runs);
  for (int i = 0; i < 5000; ++i) table.set(static_cast<RunId>(i % 4), 1e9 + i, 0);
  const std::size_t bytes = table.bytes();
  for (int i = 0; i < 500000; ++i) table.set(static_cast<RunId>(i % 4), 2e9 + i, 0);
  CHECK_EQUAL(table.bytes(), bytes);
  table.clear();
  for (RunId r = 0; r < 4; ++r) table.drop(r);
  for (int i = 0; i < 500000; ++i) table.set(static_cast<RunId>(i % 4), 3e9 + i, 0);
  CHECK_EQUAL(table.bytes(), bytes);
}

void a_lease_ends_once() {
  kvopt::LeaseTable leases;
  const std::vector<RunId> holds = {3, 5};
  const std::uint64_t first = leases.open(holds, 10);
  const std::uint64_t second = leases.open(holds, 20);
  CHECK_EQUAL(leases.live(), 2U);
  CHECK_EQUAL(leases.latest(), static_cast<std::size_t>(leases.find(second)));
  const auto slot = static_cast<std::size_t>(leases.find(first));
  const auto held = leases.close(slot);
  CHECK_EQUAL(std::vector<RunId>(held.begin(), held.end()), holds);
  CHECK_EQUAL(leases.find(first), -1);
  const std::uint64_t third = leases.open(holds, 30);  // takes the slot again
  CHECK_EQUAL(leases.find(third), static_cast<std::int64_t>(slot));
  CHECK_EQUAL(leases.find(first), -1);
  CHECK_EQUAL(leases.find(UINT64_MAX), -1);
  std::vector<std::size_t> due;
  leases.pop_due(15, [&](std::size_t s) { due.push_back(s); });
  CHECK_EQUAL(due.size(), 0U);  // the first one's entry is stale, the third one ends later
  leases.pop_due(30, [&](std::size_t s) {
    due.push_back(s);
    leases.close(s);
  });
  CHECK_EQUAL(due, (std::vector<std::size_t>{static_cast<std::size_t>(second & 0xFFFFFFFFU), slot}));
  CHECK_EQUAL(leases.live(), 0U);
}

void leases_take_bounded_memory() {
  kvopt::LeaseTable leases;
  const auto open_and_close = [&](int times) {
    for (int i = 0; i < times; ++i) leases.close(static_cast<std::size_t>(leases.find(leases.open({}, 1e9 + i))));
    return leases.bytes();
  };
  const std::size_t bytes = open_and_close(1000);
  CHECK_EQUAL(open_and_close(200000), bytes);
}

}  // namespace

int main() {
  return kvopt::test::run_all({{"heap: hands out what is due, in order", heap_hands_out_what_is_due_in_order},
                               {"retentions: equal a map", retentions_equal_a_map},
                               {"retentions: take bounded memory", retentions_take_bounded_memory},
                               {"leases: end once", a_lease_ends_once},
                               {"leases: take bounded memory", leases_take_bounded_memory}});
}
