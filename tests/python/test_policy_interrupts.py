"""A Python policy that is interrupted (Ctrl-C) while the pool waits for it: the interrupt arrives as what it is."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from kvopt._core import PrefixTraceBuilder, replay
from kvopt.cache import BlockPool
from kvopt.errors import PolicyError
from kvopt.policies import DummyPolicy, RequestInfo
from kvopt.policies.base import RunIds

INTERRUPTS = [KeyboardInterrupt, SystemExit]


def keys(*numbers: int) -> np.ndarray[Any, np.dtype[np.uint64]]:
    return np.array(numbers, dtype=np.uint64)


def store(pool: BlockPool, *numbers: int, now: float) -> None:
    allocation = pool.acquire(keys(*numbers), now=now)
    pool.commit(allocation, keys(*numbers[allocation.hit :]), now=now)
    pool.release(allocation, now=now)


class Interrupted(DummyPolicy):
    """Is interrupted in one hook, once it is told in which."""

    def __init__(self, interrupt: type[BaseException]) -> None:
        super().__init__()
        self.interrupt, self.hook = interrupt, ""

    def maybe(self, hook: str) -> None:
        if hook == self.hook:
            self.hook = ""
            raise self.interrupt("now")

    def on_stored(self, stored: RunIds, info: RequestInfo) -> None:
        self.maybe("on_stored")

    def on_evictable(self, runs: RunIds, info: RequestInfo) -> None:
        super().on_evictable(runs, info)
        self.maybe("on_evictable")

    def on_referenced(self, runs: RunIds) -> None:
        super().on_referenced(runs)
        self.maybe("on_referenced")

    def choose(self, wanted: int, now: float) -> int:
        self.maybe("choose")
        return super().choose(wanted, now)


@pytest.mark.parametrize("interrupt", INTERRUPTS)
def test_interrupted_in_choose_nothing_is_evicted_and_the_pool_works_on(interrupt: type[BaseException]) -> None:
    policy = Interrupted(interrupt)
    pool = BlockPool(4, policy)
    store(pool, 1, 2, 3, 4, now=0.0)
    before = pool.stats()
    policy.hook = "choose"
    with pytest.raises(interrupt, match="now"):
        pool.acquire(keys(8, 9), now=1.0)
    assert pool.stats() == before
    assert pool.verify() == []
    assert len(pool.evict(2, now=2.0)) == 2


@pytest.mark.parametrize("interrupt", INTERRUPTS)
@pytest.mark.parametrize("hook", ["on_stored", "on_evictable", "on_referenced"])
def test_interrupted_in_a_hook_the_call_that_was_under_way_raises_it(hook: str, interrupt: type[BaseException]) -> None:
    policy = Interrupted(interrupt)
    pool = BlockPool(8, policy)
    store(pool, 1, 2, now=0.0)
    policy.hook = hook
    with pytest.raises(interrupt, match="now"):
        store(pool, 1, 2, 3, now=1.0)
    assert pool.counts()["referenced"] == 0  # what the call handed out was let go of with the exception
    # The policy missed what it was being told, so it cannot be asked any more.
    with pytest.raises(PolicyError, match=rf"Interrupted\.{hook} raised {interrupt.__name__}: now"):
        pool.acquire(keys(5), now=2.0)


@pytest.mark.parametrize("interrupt", INTERRUPTS)
@pytest.mark.parametrize("hook", ["on_stored", "on_evictable", "choose"])
@pytest.mark.parametrize("rule", ["prefix", "flat"])
def test_a_replay_ends_with_the_interrupt(rule: Any, hook: str, interrupt: type[BaseException]) -> None:
    builder = PrefixTraceBuilder()
    for request in range(20):
        builder.append(np.arange(request * 10, request * 10 + 3, dtype=np.uint64))
    policy = Interrupted(interrupt)
    policy.hook = hook
    with pytest.raises(interrupt, match="now"):
        replay(builder.finish(), np.arange(20.0), policy, 7, rule=rule)
