"""What a pool refuses: a typed error that names the value, and a pool that is as it was before."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

from kvopt.cache import Allocation, BlockPool
from kvopt.errors import (
    ConfigError,
    KvoptError,
    LeaseError,
    NotEnoughBlocksError,
    PoolError,
    StaleBlockError,
    UnknownPolicyError,
)
from kvopt.policies import DummyPolicy, RequestInfo


def keys(*numbers: int) -> np.ndarray[Any, np.dtype[np.uint64]]:
    return np.array(numbers, dtype=np.uint64)


def hold(pool: BlockPool, *numbers: int, now: float = 0.0) -> Allocation:
    """Acquire and commit a request of these keys."""
    allocation = pool.acquire(keys(*numbers), now=now)
    pool.commit(allocation, keys(*numbers[allocation.hit :]), now=now)
    return allocation


def state(pool: BlockPool) -> dict[str, object]:
    return {**pool.stats(), "runs": pool.runs.live.tolist(), "used": pool.runs.used}


class Served:
    """Eight blocks: three evictable, two held by `held`, three empty; time is 5."""

    def __init__(self) -> None:
        self.pool = BlockPool(8, "priority", lease_budget=2, retention=True)
        self.released = hold(self.pool, 1, 2, 3)
        self.pool.release(self.released, now=4.0)
        self.held = hold(self.pool, 7, 8, now=5.0)
        self.other = hold(BlockPool(8), 7, 8)


@pytest.fixture
def served() -> Iterator[Served]:
    """Checks after the test that nothing has changed in it."""
    served = Served()
    before = state(served.pool)
    yield served
    assert state(served.pool) == before
    assert served.pool.verify() == []
    assert served.pool.match(keys(1, 2, 3)) == 3
    assert served.held.live


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda s: s.pool.release(s.released, now=5), StaleBlockError, "holds nothing: it was released"),
        (lambda s: s.pool.release(s.other, now=5), StaleBlockError, "belongs to another pool"),
        (lambda s: s.pool.extend(s.released, now=5), StaleBlockError, "holds nothing"),
        (lambda s: s.pool.commit(s.other, keys(1), now=5), StaleBlockError, "another pool"),
        (lambda s: s.pool.commit(s.held, keys(9), now=5), PoolError, "1 keys for 0 blocks without one"),
        (lambda s: s.pool.release(s.held, now=4.5), PoolError, r"time 4\.5.*not go back \(last 5"),
        (lambda s: s.pool.acquire(keys(1), now=np.nan), PoolError, "time nan"),
        (lambda s: s.pool.acquire(keys(1), now=np.inf), PoolError, "time inf"),
        (lambda s: s.pool.evict(1, now=-np.inf), PoolError, "time -inf"),
        (lambda s: s.pool.acquire(keys(1), now=RequestInfo(now=1.0)), PoolError, r"time 1\.0"),
        (
            lambda s: s.pool.acquire(keys(9), now="soon"),
            ConfigError,
            "now is 'soon'; it must be seconds or a RequestInfo",
        ),
        (lambda s: s.pool.acquire(keys(9), now=None), ConfigError, "now is None"),
        (lambda s: s.pool.acquire(keys(), now=5), NotEnoughBlocksError, "request of 0 blocks; a pool of 8"),
        (lambda s: s.pool.acquire(keys(9), 9, now=5), NotEnoughBlocksError, "request of 9 blocks; a pool of 8"),
        (
            lambda s: s.pool.acquire(keys(9), 7, now=5),
            NotEnoughBlocksError,
            "7 blocks are needed; 6 are empty or can be",
        ),
        (lambda s: s.pool.acquire(keys(9), -1, now=5), PoolError, "total is -1"),
        (lambda s: s.pool.acquire(keys(9), now=5, max_hit=-1), PoolError, "max_hit is -1"),
        (lambda s: s.pool.acquire(keys(1, 2), 1, now=5), PoolError, "2 keys for a request of 1 blocks"),
        (lambda s: s.pool.extend(s.held, 7, now=5), NotEnoughBlocksError, "7 blocks are needed; 6"),
        (lambda s: s.pool.extend(s.held, -1, now=5), PoolError, "n is -1"),
        (lambda s: s.pool.evict(4, now=5), NotEnoughBlocksError, "eviction of 4 blocks; 3 can be"),
        (lambda s: s.pool.forget(np.array([8], np.uint32)), StaleBlockError, "block 8 of a pool of 8"),
        (lambda s: s.pool.forget(np.array([7], np.uint32)), StaleBlockError, "block 7 holds no cached content"),
        (lambda s: s.pool.clear(), PoolError, "requests still hold 2 blocks"),
        (lambda s: s.pool.lease(s.held, 0, deadline=9, now=5), LeaseError, "a lease on 0 blocks; the allocation has 2"),
        (lambda s: s.pool.lease(s.held, 3, deadline=9, now=5), LeaseError, "a lease on 3 blocks; the allocation has 2"),
        (lambda s: s.pool.lease(s.held, 1, deadline=5, now=5), LeaseError, "must end after now, 5"),
        (lambda s: s.pool.lease(s.held, 1, deadline=np.nan, now=5), LeaseError, "a lease until nan"),
        (lambda s: s.pool.lease(s.released, 1, deadline=9, now=5), StaleBlockError, "holds nothing"),
        (lambda s: s.pool.end_lease(12345, now=5), LeaseError, "lease 12345 is unknown or over"),
        (lambda s: retain(s, priority=-1), ConfigError, "priority -1; it must be 0 to 100"),
        (lambda s: retain(s, priority=101), ConfigError, "priority 101; it must be 0 to 100"),
        (lambda s: retain(s, duration=-1), ConfigError, "a duration of -1"),
        (lambda s: retain(s, duration=np.nan), ConfigError, "a duration of nan"),
        (lambda s: retain(s, lifetime="long"), ConfigError, "lifetime is 'long'; it must be 'fixed' or 'refresh'"),
        (lambda s: retain(s, n=3), StaleBlockError, "blocks 0 to 3; the allocation has 2"),
        (lambda s: retain(s, first=-1), PoolError, "first is -1"),
    ],
)
def test_a_refused_call_changes_nothing(
    served: Served, call: Callable[[Served], object], error: type[KvoptError], message: str
) -> None:
    with pytest.raises(error, match=message) as caught:
        call(served)
    assert type(caught.value) is error


def retain(served: Served, **change: Any) -> None:
    served.pool.retain(served.held, **({"first": 0, "n": 1, "priority": 50, "now": 5.0} | change))


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"capacity": 0}, ConfigError, "capacity is 0 blocks; it must be 1 to 2147483648"),
        ({"capacity": -1}, ConfigError, "capacity is -1"),
        ({"capacity": 2**31 + 1}, ConfigError, "capacity is 2147483649 blocks"),
        ({"capacity": 2**40}, ConfigError, "capacity is 1099511627776"),
        ({"rule": "tree"}, ConfigError, "rule is 'tree'; it must be 'prefix' or 'flat'"),
        ({"key_bytes": 65}, ConfigError, r"key_bytes is 65; it must be 0 \(integers\) to 64"),
        ({"lease_budget": 8}, ConfigError, "lease_budget is 8 blocks; it must be below the capacity, 8"),
        ({"block_tokens": 0}, ConfigError, "block_tokens is 0"),
        ({"p_star": 0.0}, ConfigError, "p_star is 0"),
        ({"policy": "lur"}, UnknownPolicyError, "no policy is called 'lur'; did you mean 'lru'"),
        ({"policy": "lru:size=3"}, ConfigError, "'size=3' is not a setting"),
        ({"policy": "min"}, ConfigError, "knows the future"),
        ({"policy": None}, ConfigError, "a policy is a name.*got None"),
        ({"policy": DummyPolicy}, ConfigError, "an instance of kvopt.policies.Policy; got <class"),
    ],
)
def test_options_are_checked(options: dict[str, Any], error: type[KvoptError], message: str) -> None:
    with pytest.raises(error, match=message):
        BlockPool(**({"capacity": 8} | options))


@pytest.mark.parametrize("options", [{"capacity": "8"}, {"capacity": 8.5}, {"capacity": 8, "colour": 1}, {}])
def test_options_of_a_wrong_type_or_name_are_type_errors(options: dict[str, Any]) -> None:
    with pytest.raises(TypeError):
        BlockPool(**options)


@pytest.mark.parametrize(
    "wrong", [[1.5], [-1], ["a"], [[1, 2]], np.ones((2, 2), np.uint64), np.ones(2), np.array([-1]), "12", None, 3]
)
def test_integer_keys_are_unsigned_64_bit_numbers_in_one_dimension(wrong: Any) -> None:
    pool = BlockPool(8)
    for call in (pool.match, lambda keys: pool.acquire(keys, now=0.0)):
        with pytest.raises(ConfigError, match="keys must be a one-dimensional array of unsigned 64-bit integers"):
            call(wrong)
    assert pool.counts()["empty"] == 8


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ([b"x" * 15], r"key 0 is b'x+'; this pool's keys are byte strings of length 16"),
        ([b"x" * 16, "x" * 16], "key 1 is 'x+'"),
        ([1, 2], "key 0 is 1"),
        (b"x" * 16, "key 0 is 120"),
        (7, "keys is 7; it must be a sequence of byte strings of length 16"),
        (np.zeros((2, 15), np.uint8), r"uint8 of shape \(n, 16\)"),
        (np.zeros(16, np.uint8), r"uint8 of shape \(n, 16\)"),
        (np.zeros((2, 16), np.uint64), r"uint8 of shape \(n, 16\)"),
    ],
)
def test_byte_keys_have_the_length_of_the_pool(wrong: Any, message: str) -> None:
    pool = BlockPool(8, key_bytes=16)
    for call in (pool.match, lambda keys: pool.acquire(keys, now=0.0)):
        with pytest.raises(ConfigError, match=message):
            call(wrong)
    assert pool.counts()["empty"] == 8


def test_lists_and_arrays_are_the_same_keys() -> None:
    pool = BlockPool(8)
    numbers = [2**64 - 1, 1, 2**63]  # as a list, NumPy alone would make floats of them
    allocation = pool.acquire(numbers, now=0.0)
    pool.commit(allocation, numbers, now=0.0)
    assert pool.match(keys(*numbers)) == pool.match(tuple(numbers)) == 3
    assert pool.match([]) == 0


def test_bytes_and_arrays_are_the_same_keys() -> None:
    pool = BlockPool(8, key_bytes=16)
    names = [bytes([i]) * 16 for i in range(3)]
    allocation = pool.acquire(names, now=0.0)
    pool.commit(allocation, names, now=0.0)
    array = np.frombuffer(b"".join(names), np.uint8).reshape(3, 16)
    assert pool.match(array) == pool.match(tuple(names)) == 3
    assert pool.match(array[:, ::-1][1:]) == 0
    assert pool.match(array[::2]) == 1  # a view with gaps


def test_the_budget_of_leases_counts_a_block_once() -> None:
    pool = BlockPool(8, lease_budget=3)
    allocation = hold(pool, 1, 2, 3, 4)
    first = pool.lease(allocation, 3, deadline=9.0, now=0.0)
    pool.lease(allocation, 2, deadline=9.0, now=0.0)
    with pytest.raises(LeaseError, match="1 more blocks; 3 of a budget of 3 are leased"):
        pool.lease(allocation, 4, deadline=9.0, now=0.0)
    pool.release(allocation, now=0.0)
    assert pool.counts()["leased"] == 3
    pool.end_lease(first, now=0.0)
    with pytest.raises(LeaseError, match="unknown or over"):
        pool.end_lease(first, now=0.0)
    assert pool.counts()["leased"] == 2


def test_a_pool_without_a_budget_gives_no_lease() -> None:
    pool = BlockPool(4)
    with pytest.raises(LeaseError, match="no lease budget"):
        pool.lease(hold(pool, 1), 1, deadline=1.0, now=0.0)


def test_retention_needs_a_pool_and_a_policy_for_it() -> None:
    for pool, message in [
        (BlockPool(4, "priority"), "built without retention"),
        (BlockPool(4, "lru", retention=True), "does not look at priorities"),
        (BlockPool(4, DummyPolicy(), retention=True), "does not look at priorities"),
    ]:
        with pytest.raises(ConfigError, match=message):
            pool.retain(hold(pool, 1), 0, 1, priority=50, now=0.0)
