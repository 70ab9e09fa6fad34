"""Protection on a native pool: soft priorities, leases within a budget, who gives way, shared heads charged once."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kvopt._core import Allocation, BlockPool
from kvopt.continuum import Decision, Footprint, NativePool, RetentionManager
from kvopt.errors import ConfigError
from kvopt.policies import RetentionRange

DEFAULT = 35


def keep(value: float, ttl: float = 100.0) -> Decision:
    return Decision(ttl, True, value, ("worth it",), {})


DROP = Decision(0.0, False, 0.0, ("not worth it",), {})


class Server:
    """A pool and the manager on it; sessions are numbers, each with a chain of its own behind an optional head."""

    def __init__(self, capacity: int = 20, budget: int = 0, policy: str = "priority:requeue=0") -> None:
        self.soft = policy.startswith("priority")
        self.pool = BlockPool(capacity, policy, retention=self.soft, lease_budget=budget)
        self.manager = RetentionManager(NativePool(self.pool, lease_budget=budget, soft=self.soft))
        self.now = 0.0

    def keys(self, session: int, blocks: int, head: int = 0) -> np.ndarray[tuple[int], np.dtype[np.uint64]]:
        own = [1000 * session + i for i in range(head, blocks)]
        return np.array([900_000 + i for i in range(head)] + own, np.uint64)

    def hold(self, session: int, blocks: int, head: int = 0) -> Allocation:
        keys = self.keys(session, blocks, head)
        allocation = self.pool.acquire(keys, now=self.now)
        self.pool.commit(allocation, keys[allocation.hit :], now=self.now)
        return allocation

    def serve(
        self,
        session: int,
        decision: Decision,
        blocks: int = 4,
        *,
        head: int = 0,
        lease: bool = False,
        group: str | None = "head",
        priority: int | None = None,
        ranges: tuple[RetentionRange, ...] = (),
    ) -> None:
        allocation = self.hold(session, blocks, head)
        footprint = Footprint(blocks, head, group if head else None)
        self.manager.protect(
            session,
            allocation,
            footprint,
            decision,
            self.now,
            lease=lease,
            priority=priority,
            ranges=ranges,
            block_tokens=16,
        )
        self.pool.release(allocation, now=self.now)
        self.now += 1.0

    def cached(self, session: int, blocks: int = 4, head: int = 0) -> int:
        return self.pool.match(self.keys(session, blocks, head))

    def evict(self, blocks: int) -> None:
        self.pool.evict(blocks, now=self.now)

    def priorities(self) -> dict[int, int]:
        """Of every cached run by its depth; one chain only."""
        runs = self.pool.runs
        return {int(runs.depth[r]): int(runs.priority[r]) for r in np.flatnonzero(runs.live)}


def test_the_least_valuable_sessions_go_first_whatever_their_age() -> None:
    server = Server()
    server.serve(1, keep(0.5))
    server.serve(2, keep(5.0))
    server.serve(3, DROP)
    server.serve(4, keep(0.05))
    order = []
    for _ in range(4):
        server.evict(4)
        order.append(next(s for s in (1, 2, 3, 4) if s not in order and server.cached(s) == 0))
    assert order == [3, 4, 1, 2]


def test_soft_protection_never_refuses_a_request() -> None:
    server = Server(capacity=20)
    for session in range(1, 6):
        server.serve(session, keep(100.0))
    assert len(server.pool.acquire(np.arange(50, 70, dtype=np.uint64), now=server.now)) == 20


def test_a_doubling_of_the_value_is_eight_points() -> None:
    server = Server()
    server.serve(1, keep(0.25))
    at_par = server.priorities()[0]
    assert at_par == 60  # holding it costs another usual session second for second
    server = Server()
    server.serve(1, keep(1.0))
    assert server.priorities()[0] == at_par + 16


def test_soft_protection_ends_with_its_ttl() -> None:
    server = Server()
    server.serve(1, keep(1.0, ttl=5.0))
    server.pool.expire(4.9)
    assert server.priorities() == {0: 76}
    server.pool.expire(5.0)
    assert server.priorities() == {0: DEFAULT}


def test_an_ended_session_goes_before_all_others_but_not_its_shared_head() -> None:
    server = Server()
    server.serve(1, DROP, blocks=4)
    allocation = server.hold(2, 4, head=2)
    server.manager.bury(allocation, Footprint(4, 2, "head"), server.now)
    server.pool.release(allocation, now=server.now)
    server.evict(2)
    assert (server.cached(1), server.cached(2, 4, head=2)) == (4, 2)
    server.evict(2)
    assert (server.cached(1), server.cached(2, 4, head=2)) == (2, 2)  # then by age, as if nothing had been said


def test_a_session_that_is_no_longer_kept_loses_its_old_priority() -> None:
    server = Server()
    server.serve(1, keep(5.0))
    server.serve(1, DROP)
    assert set(server.priorities().values()) == {DEFAULT}


def test_a_shared_head_keeps_the_best_protection_of_its_sessions() -> None:
    server = Server()
    server.serve(1, keep(8.0), head=2)
    server.serve(2, keep(0.1), head=2)
    runs = server.pool.runs
    heads = [int(runs.priority[r]) for r in np.flatnonzero(runs.live) if runs.depth[r] == 0]
    assert heads == [100]


def test_a_client_may_set_the_priority_and_ranges_of_tokens() -> None:
    server = Server()
    server.serve(1, keep(5.0), priority=77)
    assert server.priorities() == {0: 77}
    server = Server()
    server.serve(1, keep(5.0), priority=77, ranges=(RetentionRange(16, 32, 99),))
    assert server.priorities() == {0: 77, 1: 99, 2: 77}
    server = Server()
    server.serve(1, DROP, ranges=(RetentionRange(0, 32, 90),))
    assert server.priorities() == {0: 90, 2: DEFAULT}


def test_a_pool_that_looks_at_no_priority_still_takes_leases() -> None:
    server = Server(budget=8, policy="lru")
    server.serve(1, keep(1.0), lease=True)
    server.serve(2, keep(1.0))
    server.evict(4)
    assert (server.cached(1), server.cached(2)) == (4, 0)


def test_a_lease_is_never_evicted_until_it_is_released() -> None:
    server = Server(capacity=8, budget=4)
    server.serve(1, keep(0.001), lease=True)
    server.serve(2, keep(100.0))
    server.evict(4)
    assert (server.cached(1), server.cached(2)) == (4, 0)
    assert server.manager.release(1, server.now, "returned")
    server.evict(4)
    assert server.cached(1) == 0
    assert server.manager.charged == 4  # the second, which only an event tells of


def test_leases_stay_within_the_budget_and_the_more_valuable_displaces() -> None:
    server = Server(capacity=40, budget=8)
    for session, value in ((1, 2.0), (2, 3.0), (3, 1.0), (4, 5.0)):
        server.serve(session, keep(value), lease=True)
        leased = server.pool.counts()["leased"]
        assert leased <= 8
    protection = {session: server.manager.of(session) for session in (1, 2, 3, 4)}
    assert {s for s, p in protection.items() if p is not None and p.lease is not None} == {2, 4}
    assert server.manager.released["displaced"] == 1


def test_nobody_is_displaced_for_one_who_does_not_fit_anyway() -> None:
    server = Server(capacity=40, budget=8)
    server.serve(1, keep(1.0), 4, lease=True)
    server.serve(2, keep(9.0), 4, lease=True)
    server.serve(3, keep(5.0), 8, lease=True)  # would need the blocks of 2, which is worth more
    server.serve(4, keep(99.0), 12, lease=True)  # larger than the budget
    assert server.manager.leases == 2
    assert server.manager.released["displaced"] == 0


def test_make_room_releases_the_worst_first_and_no_more_than_needed() -> None:
    server = Server(capacity=17, budget=16)
    for session, value in ((1, 3.0), (2, 1.0), (3, 2.0), (4, 4.0)):
        server.serve(session, keep(value), lease=True)
    assert server.pool.counts()["evictable"] == 0
    assert server.manager.make_room(6, server.now) == [2, 3]
    assert server.manager.make_room(9, server.now) == []
    assert server.manager.make_room(1000, server.now) == [1, 4]
    assert server.pool.counts()["leased"] == 0


def test_a_later_decision_moves_a_lease_in_the_order_or_ends_it() -> None:
    server = Server(capacity=17, budget=16)
    for session in (1, 2, 3):
        server.serve(session, keep(float(session)), lease=True)
    assert server.manager.revise(1, keep(9.0), server.now)
    assert not server.manager.revise(3, DROP, server.now)
    assert server.manager.released["not worth it"] == 1
    assert server.manager.make_room(16, server.now) == [2, 1]
    assert not server.manager.revise(1, keep(9.0), server.now)


def test_soft_protection_is_over_at_its_deadline_whatever_is_decided_then() -> None:
    server = Server()
    server.serve(1, keep(1.0, ttl=5.0))
    assert server.manager.revise(1, keep(1.0, ttl=50.0), 4.0)
    assert not server.manager.revise(1, keep(1.0, ttl=50.0), 5.0)


@pytest.mark.parametrize("with_leases", [False, True])
def test_a_head_that_sessions_share_is_charged_once(with_leases: bool) -> None:
    server = Server(capacity=60, budget=40)
    for session, own in ((1, 1), (2, 2), (3, 3)):
        server.serve(session, keep(1.0), 5 + own, head=5, lease=with_leases)
    assert server.manager.charged == 5 + 6
    if with_leases:
        assert server.pool.counts()["leased"] == server.manager.charged
    server.manager.release(1, server.now, "test")
    assert server.manager.charged == 5 + 5
    server.manager.clear(server.now)
    assert server.manager.charged == 0
    assert server.pool.counts()["leased"] == 0


@settings(deadline=None)
@given(
    st.lists(
        st.tuples(
            st.integers(0, 5),  # session
            st.sampled_from(["keep", "lease", "drop", "release", "revise", "room", "clear"]),
            st.integers(1, 6),  # own blocks
            st.integers(0, 3),  # of the head
            st.floats(0.0, 10.0),  # value
        ),
        max_size=40,
    )
)
def test_books_and_pool_agree_after_anything(steps: list[tuple[int, str, int, int, float]]) -> None:
    """Leased blocks are those of the live leases, distinct; charges are those of the protections; the pool is sound."""
    server = Server(capacity=64, budget=12)
    sizes: dict[int, tuple[int, int]] = {}
    for session, what, own, head, value in steps:
        if what in {"keep", "lease", "drop"}:
            own, head = sizes.setdefault(session, (own, head))
            decision = DROP if what == "drop" else keep(value)
            server.serve(session, decision, own + head, head=head, lease=what == "lease")
        elif what == "release":
            server.manager.release(session, server.now, "test")
        elif what == "revise":
            server.manager.revise(session, keep(value), server.now)
        elif what == "room":
            server.manager.make_room(own * 10, server.now)
        else:
            server.manager.clear(server.now)
        protections = {s: p for s in range(6) if (p := server.manager.of(s)) is not None}
        heads = [p.footprint.shared for p in protections.values()]
        assert server.manager.charged == sum(sizes[s][0] for s in protections) + max(heads, default=0)
        leased = [s for s, p in protections.items() if p.lease is not None]
        assert server.manager.leases == len(leased)
        distinct = sum(sizes[s][0] for s in leased) + max((sizes[s][1] for s in leased), default=0)
        assert server.pool.counts()["leased"] == distinct <= 12
        assert server.pool.verify() == []


@pytest.mark.parametrize(
    "options", [{"points": -1.0}, {"points": math.nan}, {"longest_hold": 0.0}, {"longest_hold": math.inf}]
)
def test_bad_options_are_refused(options: dict[str, float]) -> None:
    (name,) = options
    with pytest.raises(ConfigError, match=name):
        RetentionManager(NativePool(BlockPool(4)), **options)


@pytest.mark.parametrize(("weighs", "priorities"), [(False, {60}), (True, {35})])
def test_an_order_that_weighs_returns_itself_is_told_no_estimates(weighs: bool, priorities: set[int]) -> None:
    pool = BlockPool(20, "cost-aware", retention=True)
    manager = RetentionManager(NativePool(pool, soft=True, weighs=weighs))
    keys = np.arange(4, dtype=np.uint64)
    held = pool.acquire(keys, now=0.0)
    pool.commit(held, keys, now=0.0)
    manager.protect("session", held, Footprint(4), keep(0.25), 0.0)
    live = pool.runs.live[: pool.runs.used]
    assert set(pool.runs.priority[: pool.runs.used][live].tolist()) == priorities
    manager.protect("session", held, Footprint(4), keep(0.25), 0.0, priority=90)  # what a client says counts
    assert set(pool.runs.priority[: pool.runs.used][live].tolist()) == {90}
