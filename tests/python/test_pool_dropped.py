"""Allocations that are dropped without a release, wherever that happens."""

from __future__ import annotations

import copy
import gc
from typing import Any

import numpy as np
import pytest

from kvopt.cache import Allocation, BlockPool
from kvopt.errors import PolicyError, StaleBlockError
from kvopt.policies import DummyPolicy
from kvopt.policies.base import RunIds


def keys(*numbers: int) -> np.ndarray[Any, np.dtype[np.uint64]]:
    return np.array(numbers, dtype=np.uint64)


def hold(pool: BlockPool, *numbers: int, now: float = 0.0) -> Allocation:
    allocation = pool.acquire(keys(*numbers), now=now)
    pool.commit(allocation, keys(*numbers[allocation.hit :]), now=now)
    return allocation


def test_a_dropped_allocation_lets_go_of_its_blocks() -> None:
    pool = BlockPool(8)
    allocation = hold(pool, 1, 2, 3, now=5.0)
    pool.extend(allocation, 2, now=6.0)
    assert pool.counts()["referenced"] == 5
    del allocation
    gc.collect()
    assert pool.counts() == {"capacity": 8, "empty": 5, "evictable": 3, "referenced": 0, "leased": 0}
    assert pool.match(keys(1, 2, 3)) == 3
    assert pool.runs.last_use[0] == 6.0  # the latest time that the pool was told
    assert pool.verify() == []


def test_a_released_allocation_is_dropped_without_effect() -> None:
    pool = BlockPool(8)
    allocation = hold(pool, 1, 2)
    pool.release(allocation, now=1.0)
    other = hold(pool, 1, 2, now=2.0)
    del allocation
    gc.collect()
    assert pool.counts()["referenced"] == 2
    pool.release(other, now=3.0)


def test_a_second_release_is_refused_and_an_allocation_cannot_be_copied() -> None:
    pool = BlockPool(8)
    allocation = hold(pool, 1, 2)
    with pytest.raises(TypeError):
        copy.copy(allocation)
    with pytest.raises(TypeError):
        copy.deepcopy(allocation)
    pool.release(allocation, now=1.0)
    with pytest.raises(StaleBlockError, match="it was released"):
        pool.release(allocation, now=1.0)
    assert pool.verify() == []


def test_an_exception_that_holds_the_allocation_frees_it_in_the_end() -> None:
    pool = BlockPool(8)

    def serve() -> None:
        hold(pool, 1, 2)
        raise RuntimeError("the request failed")

    with pytest.raises(RuntimeError, match="the request failed"):
        serve()
    gc.collect()
    assert pool.counts()["referenced"] == 0


class Dropping(DummyPolicy):
    """Drops an allocation of its own pool in the middle of a call, in a hook."""

    def __init__(self) -> None:
        super().__init__()
        self.kept: list[Allocation] = []

    def on_referenced(self, runs: RunIds) -> None:
        super().on_referenced(runs)
        self.kept.clear()


def test_what_a_hook_drops_is_let_go_of_after_the_call() -> None:
    policy = Dropping()
    pool = BlockPool(8, policy)
    policy.kept.append(hold(pool, 1, 2))
    pool.release(hold(pool, 7, 8), now=1.0)
    again = pool.acquire(keys(7, 8), now=2.0)  # which calls on_referenced
    assert policy.kept == []
    assert pool.counts()["referenced"] == 2
    assert pool.match(keys(1, 2)) == 2
    assert pool.verify() == []
    pool.release(again, now=3.0)


class Calling(DummyPolicy):
    """Calls its pool from a hook, which the interface forbids."""

    pool: BlockPool

    def on_referenced(self, runs: RunIds) -> None:
        super().on_referenced(runs)
        self.pool.evict(1, now=9.0)


def test_a_pool_that_is_called_from_a_hook_refuses() -> None:
    policy = Calling()
    pool = policy.pool = BlockPool(8, policy)
    pool.release(hold(pool, 1, 2), now=1.0)
    pool.release(pool.acquire(keys(1, 2), now=2.0), now=3.0)
    assert pool.match(keys(1, 2)) == 2
    with pytest.raises(PolicyError, match=r"on_referenced raised PoolError: the pool is in the middle of another call"):
        pool.acquire(keys(1), now=4.0)
