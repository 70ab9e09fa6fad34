"""What a policy is told, in the order in which docs/policy-interface.md draws it."""

from __future__ import annotations

from typing import Any

import pytest

from kvopt.cache import BlockPool, RunTable
from kvopt.errors import PolicyError
from kvopt.policies import DummyPolicy, RequestInfo


class Told(DummyPolicy):
    """Notes every hook, and names the victims that it is given."""

    def __init__(self, victims: list[int]) -> None:
        super().__init__()
        self.victims = victims
        self.calls: list[tuple[Any, ...]] = []

    def attach(self, runs: RunTable) -> None:
        super().attach(runs)
        self.calls.append(("attach",))

    def on_hit(self, hit: Any, info: RequestInfo) -> None:
        self.calls.append(("on_hit", hit.tolist()))

    def on_stored(self, stored: Any, info: RequestInfo) -> None:
        self.calls.append(("on_stored", stored.tolist()))

    def on_split(self, head: int, tail: int) -> None:
        self.calls.append(("on_split", head, tail))

    def on_evictable(self, runs: Any, info: RequestInfo) -> None:
        super().on_evictable(runs, info)
        self.calls.append(("on_evictable", runs.tolist()))

    def on_dropped(self, runs: Any) -> None:
        self.calls.append(("on_dropped", runs.tolist()))

    def on_trimmed(self, run: int) -> None:
        self.calls.append(("on_trimmed", run))

    def on_uncovered(self, run: int) -> None:
        self.calls.append(("on_uncovered", run))

    def choose(self, wanted: int, now: float) -> int:
        self.calls.append(("choose", wanted))
        return self.victims.pop(0)

    def news(self) -> list[tuple[Any, ...]]:
        """The calls since the last time."""
        calls, self.calls = self.calls, []
        return calls


def test_the_drawing() -> None:
    policy = Told([0, 0, 2])
    pool = BlockPool(12, policy)
    a = pool.acquire(list(range(7)), now=0.0)
    pool.commit(a, list(range(7)), now=0.0)
    assert policy.news() == [("attach",), ("on_stored", [0])]
    b = pool.acquire([0, 1, 2, 3, 14, 15], now=1.0)
    pool.commit(b, [14, 15], now=1.0)
    assert policy.news() == [("on_split", 1, 0), ("on_hit", [1]), ("on_stored", [2])]
    pool.release(a, now=2.0)
    pool.release(b, now=3.0)
    assert policy.news() == [("on_evictable", [0]), ("on_evictable", [2, 1])]
    runs = policy.runs
    assert [runs.depth[:3].tolist(), runs.length[:3].tolist()] == [[4, 0, 4], [3, 4, 2]]
    assert [runs.parent[:3].tolist(), runs.children[:3].tolist()] == [[1, 2**32 - 1, 1], [0, 2, 0]]
    pool.evict(2, now=4.0)
    assert policy.news() == [("choose", 2), ("on_trimmed", 0)]
    pool.evict(1, now=4.0)
    assert policy.news() == [("choose", 1), ("on_dropped", [0])]
    pool.evict(2, now=4.0)
    assert policy.news() == [("choose", 2), ("on_dropped", [2]), ("on_uncovered", 1)]
    assert pool.verify() == []


def test_a_victim_with_children_is_refused_and_nothing_is_evicted() -> None:
    policy = Told([1])
    pool = BlockPool(12, policy)
    for chain in ([0, 1, 2], [0, 1, 9]):
        allocation = pool.acquire(chain, now=0.0)
        pool.commit(allocation, chain[allocation.hit :], now=0.0)
        pool.release(allocation, now=0.0)
    before = pool.stats()
    with pytest.raises(PolicyError, match="run 1, which has cached children"):
        pool.evict(1, now=1.0)
    assert pool.stats() == before
    assert pool.match([0, 1, 2]) == pool.match([0, 1, 9]) == 3
