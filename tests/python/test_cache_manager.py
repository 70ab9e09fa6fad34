"""CacheManager: requests by id do to the pool what the replay does, and errors change nothing."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from kvopt import _core
from kvopt.cache import BlockPool, CacheManager
from kvopt.errors import (
    ConfigError,
    KvoptError,
    NotEnoughBlocksError,
    PoolError,
    RequestIdError,
    UnknownPolicyError,
)
from kvopt.policies import DummyPolicy, RequestInfo, StopReason
from kvopt.workload import CodingAgents, Mixture, OneOffRequests, Trace


def keys(*numbers: int) -> NDArray[np.uint64]:
    return np.array(numbers, dtype=np.uint64)


def serve(manager: CacheManager, trace: Trace) -> list[int]:
    """Hit blocks of each request, served one after another; requests that do not fit hit nothing."""
    hits = []
    for request, (now, session) in enumerate(zip(trace.time.tolist(), trace.session.tolist(), strict=True)):
        chain = trace.prefix.chain(request).astype(np.uint64)
        if not 0 < len(chain) < manager.capacity:
            hits.append(0)
            continue
        hit = manager.allocate(request, chain, now=now, session=session).hit
        manager.commit(request, chain[hit:], now=now)
        manager.free(request, now=now)
        hits.append(hit)
    return hits


@pytest.fixture(scope="module")
def trace() -> Trace:
    agents = CodingAgents(sessions=12, arrival_gap=20.0, seed=3)
    return Mixture((agents, OneOffRequests(requests=300, request_gap=2.0, seed=3))).load()


@pytest.mark.parametrize("policy", ["lru", "fifo", "lfu", "dummy"])
@pytest.mark.parametrize("capacity", [1500, 6000])
def test_serving_a_trace_hits_and_evicts_what_its_replay_does(trace: Trace, policy: str, capacity: int) -> None:
    manager = CacheManager(capacity, policy)
    expected = _core.replay(trace.prefix, trace.time, policy, capacity)
    assert serve(manager, trace) == expected.hit_blocks.tolist()
    assert expected.hit_blocks.any()
    assert manager.pool.stats()["dropped_blocks"]["capacity"] == expected.evictions > 0
    assert manager.pool.verify() == []
    kept = ~expected.skipped
    ratio = expected.hit_blocks.sum() / trace.chain_blocks()[kept].sum()
    assert manager.state(float(trace.time[-1])).hit_ratio == pytest.approx(ratio)


def test_a_life_of_requests_that_share_a_prefix() -> None:
    manager = CacheManager(10)
    assert manager.lookup(keys(1, 2, 3)) == 0
    first = manager.allocate("a", keys(1, 2, 3), 4, now=0.0)
    assert (first.hit, len(first)) == (0, 4)
    manager.commit("a", keys(1, 2, 3), now=1.0)
    second = manager.allocate("b", keys(1, 2, 9), now=2.0)
    assert second.hit == 2
    assert second.blocks[:2].tolist() == first.blocks[:2].tolist()
    assert (manager.requests, "b" in manager, manager.usage) == (2, True, 0.5)
    manager.append("b", 2, now=3.0)
    assert len(manager.allocation("b")) == 5
    manager.free("b", now=4.0)
    assert (manager.requests, "b" in manager, manager.usage) == (1, False, 0.4)
    manager.free("a", now=5.0)
    assert manager.lookup(keys(1, 2, 3)) == 3
    assert manager.usage == 0.0
    assert manager.pool.counts() == {"capacity": 10, "empty": 7, "evictable": 3, "referenced": 0, "leased": 0}


class Listener(DummyPolicy):
    def __init__(self) -> None:
        super().__init__()
        self.told: list[tuple[float, int, int, str]] = []

    def on_stored(self, stored: Any, info: RequestInfo) -> None:
        self.told.append((info.now, info.session, info.turn, info.stop.name))

    def on_evictable(self, runs: Any, info: RequestInfo) -> None:
        super().on_evictable(runs, info)
        self.told.append((info.now, info.session, info.turn, info.stop.name))


def test_what_the_server_said_is_remembered_until_the_request_is_freed() -> None:
    policy = Listener()
    manager = CacheManager(10, policy)
    manager.allocate(1, keys(1, 2), now=1.0, session=7, turn=3)
    manager.commit(1, keys(1, 2), now=2.0)
    manager.free(1, now=3.0, stop=StopReason.TOOL_USE)
    manager.allocate(1, keys(5), now=4.0)
    manager.commit(1, keys(5), now=4.0)
    assert policy.told == [(2.0, 7, 3, "UNKNOWN"), (3.0, 7, 3, "TOOL_USE"), (4.0, -1, -1, "UNKNOWN")]


def test_byte_keys_leases_and_retention_reach_the_pool() -> None:
    manager = CacheManager(8, "priority", key_bytes=2, lease_budget=4, retention=True)
    manager.allocate("a", [b"k1", b"k2"], now=0.0)
    manager.commit("a", [b"k1", b"k2"], now=0.0)
    manager.pool.retain(manager.allocation("a"), 0, 2, priority=90, now=0.0)
    manager.pool.lease(manager.allocation("a"), 1, deadline=9.0, now=0.0)
    manager.free("a", now=1.0)
    counts = manager.pool.counts()
    assert (counts["leased"], counts["evictable"], manager.usage) == (1, 1, 0.125)
    assert manager.lookup([b"k1", b"k2", b"k3"]) == 2


def test_the_size_may_be_given_as_memory_of_a_model() -> None:
    # 16 tokens of 131,072 bytes are 2 MiB.
    assert CacheManager(memory="1GiB", model="llama-3.1-8b").capacity == 512
    assert CacheManager(memory=2**30, model="llama-3.1-8b", block_tokens=32).capacity == 256


@pytest.mark.parametrize(
    ("make", "error", "message"),
    [
        (lambda: CacheManager(), ConfigError, "no size"),
        (lambda: CacheManager(memory="1GiB"), ConfigError, "no size"),
        (lambda: CacheManager(10, memory="1GiB", model="llama-3.1-8b"), ConfigError, "not both"),
        (lambda: CacheManager(memory="1MiB", model="llama-3.1-8b"), ConfigError, "hold no block"),
        (lambda: CacheManager(memory=-5, model="llama-3.1-8b"), ConfigError, "'-5'"),
        (lambda: CacheManager(0), ConfigError, "capacity"),
        (lambda: CacheManager(10, "lrv"), UnknownPolicyError, "'lru'"),
        (lambda: CacheManager(10, "min"), ConfigError, "future"),
    ],
)
def test_a_size_or_policy_that_cannot_be(make: Callable[[], object], error: type[KvoptError], message: str) -> None:
    with pytest.raises(error, match=message):
        make()


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda m: m.allocate("a", keys(1), now=9.0), RequestIdError, "'a' is in use"),
        (lambda m: m.append("b", now=9.0), RequestIdError, "'b' is unknown"),
        (lambda m: m.commit("b", keys(1), now=9.0), RequestIdError, "'b' is unknown"),
        (lambda m: m.free("b", now=9.0), RequestIdError, "'b' is unknown"),
        (lambda m: m.allocation("b"), RequestIdError, "'b' is unknown"),
        (lambda m: m.allocate("b", keys(1, 2, 9, 10), 99, now=9.0), NotEnoughBlocksError, "99"),
        (lambda m: m.allocate("b", keys(1, 5, 6, 7), now=9.0), NotEnoughBlocksError, "3 blocks are needed; 2 are"),
        (lambda m: m.append("a", 4, now=9.0), NotEnoughBlocksError, "4 blocks are needed; 2 are"),
        (lambda m: m.commit("a", keys(7, 8), now=9.0), PoolError, "2 keys for 1 block"),
        (lambda m: m.allocate("b", keys(9), now=0.5), PoolError, "go back"),
        (lambda m: m.free("a", now=float("nan")), PoolError, "finite"),
    ],
)
def test_an_error_changes_nothing(
    call: Callable[[CacheManager], object], error: type[KvoptError], message: str
) -> None:
    manager = CacheManager(5)
    manager.allocate("a", keys(1, 2), 3, now=1.0)
    manager.commit("a", keys(1, 2), now=1.0)
    before = (manager.state(9.0).to_dict(), manager.pool.stats(), manager.allocation("a").blocks.tolist())
    with pytest.raises(error, match=message):
        call(manager)
    assert (manager.state(9.0).to_dict(), manager.pool.stats(), manager.allocation("a").blocks.tolist()) == before
    assert manager.pool.verify() == []
    manager.free("a", now=10.0)
    assert manager.lookup(keys(1, 2)) == 2


def test_an_unknown_fact_is_refused() -> None:
    manager = CacheManager(5)
    with pytest.raises(TypeError):
        manager.allocate("a", keys(1), now=0.0, sesion=3)  # type: ignore[call-arg]
    assert manager.requests == 0


def test_the_pool_is_the_native_one() -> None:
    assert type(CacheManager(5).pool) is BlockPool is _core.BlockPool
