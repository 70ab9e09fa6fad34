// LeafHeap and RunList against the plainest order: the least of all leaves, and a std::list.
#include <algorithm>
#include <list>
#include <memory>
#include <random>
#include <set>
#include <vector>

#include "check.hpp"
#include "core/leaf_heap.hpp"
#include "core/run_list.hpp"

namespace {

using kvopt::RunId;
using kvopt::RunTable;

constexpr std::uint32_t kRuns = 50;

std::shared_ptr<RunTable> live_runs() {
  auto runs = std::make_shared<RunTable>(kRuns);
  runs->used = kRuns;
  for (RunId r = 0; r < kRuns; ++r) {
    runs->flags[r] = kvopt::run_flag::kLive;
    runs->parent[r] = kvopt::kNoRun;
    runs->references[r] = 1;
  }
  return runs;
}

struct LowerHits {
  const RunTable* runs;
  bool operator()(RunId a, RunId b) const {
    return runs->hits[a] != runs->hits[b] ? runs->hits[a] < runs->hits[b] : a < b;
  }
};

// The front is the least of the leaves, whatever was added, removed or changed before.
void heap_front_is_the_least() {
  const auto runs = live_runs();
  const LowerHits less{runs.get()};
  kvopt::LeafHeap<LowerHits> heap(*runs, less);
  std::set<RunId> leaves;
  std::mt19937_64 random(1);
  for (int i = 0; i < 20000; ++i) {
    const auto r = static_cast<RunId>(random() % kRuns);
    const auto key = static_cast<std::uint32_t>(random() % 20);
    if (leaves.contains(r)) {
      if (random() % 2 == 0) {
        heap.remove(std::vector<RunId>{r});
        runs->references[r] = 1;
        leaves.erase(r);
      } else {
        runs->hits[r] = key;
        heap.update(r);
      }
    } else {
      runs->references[r] = 0;
      runs->hits[r] = key;
      heap.add(std::vector<RunId>{r});
      leaves.insert(r);
    }
    CHECK_EQUAL(heap.verify(), "");
    if (!leaves.empty()) CHECK_EQUAL(heap.front(), *std::ranges::min_element(leaves, less));
  }
}

// Interior runs stay outside; removing or updating what is not inside does nothing.
void heap_holds_leaves_only() {
  const auto runs = live_runs();
  kvopt::LeafHeap<LowerHits> heap(*runs, {runs.get()});
  runs->children[0] = 1;
  runs->references[0] = runs->references[1] = 0;
  heap.add(std::vector<RunId>{1, 0});
  CHECK_EQUAL(heap.front(), 1U);
  CHECK_EQUAL(heap.verify(), "");
  heap.update(0);
  heap.remove(std::vector<RunId>{0});
  CHECK_EQUAL(heap.verify(), "");
  runs->children[0] = 0;
  CHECK_EQUAL(heap.verify(), "run 0 is a victim outside the heap");
}

// A changed key that nobody reported is noticed.
void heap_verify_finds_disorder() {
  const auto runs = live_runs();
  kvopt::LeafHeap<LowerHits> heap(*runs, {runs.get()});
  runs->references[0] = runs->references[1] = 0;
  heap.add(std::vector<RunId>{0, 1});
  runs->hits[0] = 5;
  CHECK_EQUAL(heap.verify(), "the heap is out of order at 1");
}

void list_equals_std_list() {
  kvopt::RunList list(kRuns);
  std::list<RunId> expected;
  const auto runs = live_runs();
  std::mt19937_64 random(2);
  for (int i = 0; i < 20000; ++i) {
    const auto r = static_cast<RunId>(random() % kRuns);
    const auto at = std::ranges::find(expected, r);
    if (at != expected.end()) {
      list.remove(r);
      expected.erase(at);
      runs->references[r] = 1;
    } else if (!expected.empty() && random() % 2 == 0) {
      const auto place = std::next(expected.begin(), static_cast<std::ptrdiff_t>(random() % expected.size()));
      list.insert_after(*place, r);
      expected.insert(std::next(place), r);
      runs->references[r] = 0;
    } else {
      list.append(r);
      expected.push_back(r);
      runs->references[r] = 0;
    }
    CHECK_EQUAL(list.verify(*runs), "");
    CHECK_EQUAL(list.empty(), expected.empty());
    if (!expected.empty()) CHECK_EQUAL(list.front(), expected.front());
  }
  while (!expected.empty()) {  // the whole order, not only its front
    CHECK_EQUAL(list.front(), expected.front());
    list.remove(expected.front());
    expected.pop_front();
  }
  CHECK(list.empty());
}

// A run before its child, one that is held, one that is missing: each is noticed.
void list_verify_finds_faults() {
  const auto runs = live_runs();
  kvopt::RunList list(kRuns);
  runs->parent[1] = 0;
  runs->children[0] = 1;
  runs->references[0] = runs->references[1] = 0;
  list.append(0);
  CHECK_EQUAL(list.verify(*runs), "run 0 comes before its children");
  list.remove(0);
  list.append(1);
  CHECK_EQUAL(list.verify(*runs), "1 runs in the list, 2 evictable");
  list.append(0);
  CHECK_EQUAL(list.verify(*runs), "");
  runs->references[1] = 1;
  CHECK_EQUAL(list.verify(*runs), "run 1 in the list is not evictable");
}

}  // namespace

int main() {
  return kvopt::test::run_all({{"heap: the front is the least", heap_front_is_the_least},
                               {"heap: holds leaves only", heap_holds_leaves_only},
                               {"heap: verify finds disorder", heap_verify_finds_disorder},
                               {"list: equals std::list", list_equals_std_list},
                               {"list: verify finds faults", list_verify_finds_faults}});
}
