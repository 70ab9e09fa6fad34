// Leases pin blocks until a deadline, within a budget, and give way under pressure.
#include "check.hpp"
#include "kvopt/error.hpp"
#include "server.hpp"

namespace {

using namespace kvopt;
using namespace kvopt::test;

void leases_pin_until_their_deadline() {
  Server s({.capacity = 6, .lease_budget = 4});
  Allocation a = s.hold({1, 2, 3});
  const LeaseId id = s.pool.lease(a, 2, 10, s.now);
  s.release(a);
  CHECK_EQUAL(s.pool.counts().leased, 2U);
  CHECK_EQUAL(s.pool.counts().evictable, 1U);
  CHECK_THROWS(NotEnoughBlocksError, s.pool.evict(2, 1));
  s.pool.evict(1, 1);
  CHECK_EQUAL(s.match({1, 2, 3}), 2U);
  CHECK_EQUAL(s.pool.expire(9.99), 0U);
  CHECK_EQUAL(s.pool.expire(10), 1U);
  CHECK_EQUAL(s.pool.counts().evictable, 2U);
  CHECK_THROWS(LeaseError, s.pool.end_lease(id, 11));
}

// What is due has ended before room is looked for, whichever call comes first.
void due_leases_make_room_by_themselves() {
  for (int call = 0; call < 4; ++call) {
    Server s({.capacity = 4, .lease_budget = 3});
    Allocation a = s.hold({1, 2, 3});
    s.pool.lease(a, 3, 5, s.now);
    s.release(a);
    Allocation b = s.acquire({8});
    s.now = 5;
    if (call == 0) s.pool.extend(b, 3, {.now = s.now});
    if (call == 1) CHECK_EQUAL(s.acquire({9, 10, 11}).size(), 3U);
    if (call == 2) s.pool.evict(3, s.now);
    if (call == 3) {
      s.commit(b, {8});
      s.pool.lease(b, 1, 9, s.now);  // within the budget once the first lease is over
      CHECK_EQUAL(s.pool.counts().leased, 0U);
    }
    CHECK_EQUAL(s.pool.stats().leases_expired, 1U);
  }
}

// Under pressure leases end before a request fails, the latest deadline first; those that never end among them.
void leases_give_way_to_requests() {
  Server s({.capacity = 6, .lease_budget = 4});
  Allocation a = s.hold({1, 2});
  Allocation b = s.hold({3, 4});
  const LeaseId soon = s.pool.lease(a, 2, 10, s.now);
  const LeaseId late = s.pool.lease(b, 2, kNever, s.now);
  CHECK_THROWS(LeaseError, s.pool.lease(b, 3, 10, s.now));
  s.release(a);
  s.release(b);
  const Numbers wanted = {5, 6, 7, 8};
  Allocation c;
  CHECK_THROWS(NotEnoughBlocksError, s.pool.acquire(c, Server::keys(wanted), 4, {}));
  s.pool.acquire(c, Server::keys(wanted), 4, {}, SIZE_MAX, true);
  CHECK_EQUAL(s.pool.stats().leases_reclaimed, 1U);
  CHECK_THROWS(LeaseError, s.pool.end_lease(late, s.now));
  s.pool.end_lease(soon, s.now);
  CHECK_EQUAL(s.match({1, 2}), 2U);
}

// Blocks under two leases are charged once, and stay pinned until both are over.
void leases_overlap() {
  Server s({.capacity = 6, .lease_budget = 3});
  Allocation a = s.hold({1, 2, 3});
  const LeaseId one = s.pool.lease(a, 3, 10, s.now);
  const LeaseId two = s.pool.lease(a, 2, 10, s.now);
  s.release(a);
  s.pool.end_lease(one, s.now);
  CHECK_EQUAL(s.pool.counts().leased, 2U);
  s.pool.end_lease(two, s.now);
  CHECK_EQUAL(s.pool.counts().leased, 0U);
}

}  // namespace

int main() {
  return run_all({{"leases pin until their deadline", leases_pin_until_their_deadline},
                  {"due leases make room by themselves", due_leases_make_room_by_themselves},
                  {"leases give way to requests", leases_give_way_to_requests},
                  {"leases overlap", leases_overlap}});
}
