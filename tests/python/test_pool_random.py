"""Whatever is done to a pool, it holds, hits and evicts what a naive model does, and verify() finds nothing."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule
from hypothesis.stateful import run_state_machine_as_test as run_as_test

from kvopt.cache import Allocation, BlockPool
from kvopt.errors import LeaseError, NotEnoughBlocksError
from kvopt.policies import DummyPolicy, Policy, RankingPolicy
from naive_pool import RANKS, NaivePool, Prefix

TOKENS = st.lists(st.integers(0, 2), min_size=1, max_size=7)
WHICH = st.integers(0, 1000)  # of the live ones, counted around


class LruInPython(RankingPolicy):
    def rank(self, run: int, now: float) -> float:
        return float(self.runs.last_use[run])


class Requests(RuleBasedStateMachine):
    """Requests that come, grow, fork and go, with leases and retention between them."""

    policy: str | type[Policy]
    rank: str

    @initialize(capacity=st.integers(5, 16), flat=st.booleans(), key_bytes=st.sampled_from([0, 16, 32]))
    def start(self, capacity: int, flat: bool, key_bytes: int) -> None:
        self.pool = BlockPool(
            capacity,
            self.policy if isinstance(self.policy, str) else self.policy(),
            rule="flat" if flat else "prefix",
            key_bytes=key_bytes,
            lease_budget=capacity // 2,
            retention=True,
        )
        # What a request stores later joins the run that it stored first, and keeps its place in fifo's order.
        rank = "any" if self.rank == "fifo" and not flat else self.rank
        self.naive = NaivePool(capacity, RANKS[rank], flat=flat, lease_budget=capacity // 2)
        self.key_bytes = key_bytes
        self.key_of: dict[Prefix, int] = {}
        self.tokens: dict[int, list[int]] = {}
        self.allocations: dict[int, Allocation] = {}
        self.started = 0
        self.now = 0.0

    def keys(self, prefixes: list[Prefix]) -> np.ndarray | list[bytes]:
        numbers = [self.key_of.setdefault(prefix, len(self.key_of) + 1) for prefix in prefixes]
        if self.key_bytes == 0:
            return np.array(numbers, dtype=np.uint64)
        return [number.to_bytes(self.key_bytes, "big") for number in numbers]

    def pass_time(self) -> None:
        """Let time pass before an operation that ends what is due."""
        self.now += 0.25
        self.naive.expire(self.now)

    def live(self, which: int) -> int:
        """One of the requests in flight."""
        return sorted(self.allocations)[which % len(self.allocations)]

    @rule(tokens=TOKENS, priority=st.none() | st.integers(0, 100))
    def serve(self, tokens: list[int], priority: int | None) -> None:
        """A whole request at once: what fills the cache."""
        self.acquire(tokens, 0, None)
        if self.started in self.allocations:
            which = sorted(self.allocations).index(self.started)
            self.commit(which, 1.0, [])
            if self.policy == "priority" and priority is not None:
                self.retain(which, 0, len(tokens), priority, np.inf, False)
            self.release(which)

    @rule(tokens=TOKENS, more=st.integers(0, 2), max_hit=st.none() | st.integers(0, 4))
    def acquire(self, tokens: list[int], more: int, max_hit: int | None) -> None:
        if self.naive.flat:
            tokens = [3 * place + token for place, token in enumerate(tokens)]
        self.pass_time()
        self.started += 1
        prefixes = self.naive.keys(tokens)
        hit = min(self.naive.match(tokens), len(tokens) if max_hit is None else max_hit)
        least, most = self.naive.least_room(prefixes[:hit])
        total = len(tokens) + more
        try:
            allocation = self.pool.acquire(self.keys(prefixes), total, now=self.now, max_hit=max_hit)
        except NotEnoughBlocksError:
            assert total - hit > least or total > self.pool.capacity
            return
        assert total - hit <= most
        assert (allocation.hit, allocation.committed, len(allocation)) == (hit, hit, total)
        self.naive.acquire(self.started, tokens, allocation.blocks.tolist(), hit, self.now)
        self.allocations[self.started], self.tokens[self.started] = allocation, tokens

    @precondition(lambda self: self.allocations)
    @rule(which=WHICH, n=st.integers(0, 3))
    def extend(self, which: int, n: int) -> None:
        request = self.live(which)
        self.pass_time()
        allocation, before = self.allocations[request], len(self.allocations[request])
        room = self.naive.room()
        try:
            self.pool.extend(allocation, n, now=self.now)
        except NotEnoughBlocksError:
            assert n > room
            return
        assert n <= room
        self.naive.extend(request, allocation.blocks.tolist()[before:])

    @precondition(lambda self: self.allocations)
    @rule(which=WHICH, share=st.floats(0.1, 1), grown=st.lists(st.integers(0, 2), min_size=20, max_size=20))
    def commit(self, which: int, share: float, grown: list[int]) -> None:
        request = self.live(which)
        self.now += 0.25
        allocation, tokens = self.allocations[request], self.tokens[request]
        n = round(share * (len(allocation) - allocation.committed))
        end = allocation.committed + n
        for token in grown[: max(0, end - len(tokens))]:
            tokens.append(100 + len(tokens) if self.naive.flat else token)
        self.pool.commit(allocation, self.keys(self.naive.keys(tokens)[allocation.committed : end]), now=self.now)
        self.naive.commit(request, tokens, n)
        assert allocation.committed == end

    @precondition(lambda self: self.allocations)
    @rule(which=WHICH)
    def release(self, which: int) -> None:
        request = self.live(which)
        self.now += 0.25
        self.pool.release(self.allocations.pop(request), now=self.now)
        self.naive.release(request, self.now)

    @precondition(lambda self: self.allocations)
    @rule(which=WHICH, share=st.floats(0.1, 1), seconds=st.floats(0.1, 20))
    def lease(self, which: int, share: float, seconds: float) -> None:
        request = self.live(which)
        if self.allocations[request].committed == 0:
            return
        self.pass_time()
        n = max(1, round(share * self.allocations[request].committed))
        deadline = self.now + seconds
        if deadline in {d for d, _ in self.naive.leases.values()}:
            return
        fits = self.naive.lease_fits(request, n)
        try:
            lease = self.pool.lease(self.allocations[request], n, deadline=deadline, now=self.now)
        except LeaseError:
            assert not fits
            return
        assert fits
        self.naive.lease(request, n, lease, deadline)

    @precondition(lambda self: self.naive.leases)
    @rule(which=WHICH)
    def end_lease(self, which: int) -> None:
        lease = sorted(self.naive.leases)[which % len(self.naive.leases)]
        self.now += 0.25
        self.pool.end_lease(lease, now=self.now)
        self.naive.end_lease(lease)

    @precondition(lambda self: str(self.policy).startswith("priority") and self.allocations)
    @rule(
        which=WHICH,
        first=st.integers(0, 3),
        n=st.integers(0, 4),
        priority=st.integers(0, 100),
        duration=st.sampled_from([0.0, 1.0, 5.0, np.inf]),
        refresh=st.booleans(),
    )
    def retain(self, which: int, first: int, n: int, priority: int, duration: float, refresh: bool) -> None:
        request = self.live(which)
        first = min(first, self.allocations[request].committed)
        n = min(n, self.allocations[request].committed - first)
        self.now += 0.25
        self.pool.retain(
            self.allocations[request],
            first,
            n,
            priority=priority,
            duration=duration,
            lifetime="refresh" if refresh else "fixed",
            now=self.now,
        )
        self.naive.retain(request, first, n, priority, duration, refresh, self.now)

    @rule(seconds=st.floats(0, 5))
    def expire(self, seconds: float) -> None:
        self.now += seconds
        self.pool.expire(self.now)
        self.naive.expire(self.now)

    @rule(n=st.integers(0, 5))
    def evict(self, n: int) -> None:
        self.pass_time()
        if n > self.naive.counts()["evictable"]:
            with pytest.raises(NotEnoughBlocksError):
                self.pool.evict(n, now=self.now)
        else:
            self.naive.evict(self.pool.evict(n, now=self.now).tolist())

    @rule(which=WHICH)
    def forget(self, which: int) -> None:
        cached = [number for number, block in self.naive.blocks.items() if not block.forgotten]
        if cached:
            number = cached[which % len(cached)]
            self.pool.forget(np.array([number], np.uint32))
            self.naive.forget([number])

    @precondition(lambda self: not self.naive.requests)
    @rule()
    def clear(self) -> None:
        self.pool.clear()
        self.naive = NaivePool(
            self.naive.capacity, self.naive.rank, flat=self.naive.flat, lease_budget=self.naive.lease_budget
        )

    @rule(tokens=TOKENS)
    def match(self, tokens: list[int]) -> None:
        assert self.pool.match(self.keys(self.naive.keys(tokens))) == self.naive.match(tokens)

    @invariant()
    def agree(self) -> None:
        assert self.pool.verify() == []
        assert self.pool.counts() == self.naive.counts()


@pytest.mark.parametrize(
    ("policy", "rank"),
    [
        ("lru", "lru"),
        ("fifo", "fifo"),
        ("lfu", "lfu"),
        ("priority:requeue=0", "priority"),
        ("priority", "any"),
        ("dummy", "any"),
        (DummyPolicy, "any"),
        (LruInPython, "last use"),
    ],
    ids=["lru", "fifo", "lfu", "priority without requeueing", "priority", "dummy", "DummyPolicy", "LruInPython"],
)
def test_a_pool_does_what_the_naive_model_does(policy: str | type[Policy], rank: str) -> None:
    machine = type("Machine", (Requests,), {"policy": policy, "rank": rank})
    run_as_test(
        machine,
        settings=settings(
            max_examples=100,
            stateful_step_count=40,
            deadline=None,
            derandomize=True,
            suppress_health_check=list(HealthCheck),
        ),
    )
