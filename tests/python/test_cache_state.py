"""CacheState: the counts, bands and prefixes of a pool that was filled by hand or at random."""

from __future__ import annotations

import json
import math
from dataclasses import FrozenInstanceError

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kvopt.cache import BlockPool, CacheManager, CacheState, PrefixUse
from kvopt.errors import ConfigError


def filled() -> CacheManager:
    """Request 1 stores blocks 1 to 5, request 2 hits three of them and adds 9; request 3 still holds them."""
    manager = CacheManager(20)
    for request, chain, now in ((1, [1, 2, 3, 4, 5], 0.0), (2, [1, 2, 3, 9], 50.0)):
        hit = manager.allocate(request, chain, now=now).hit
        manager.commit(request, chain[hit:], now=now)
        manager.free(request, now=now)
    manager.allocate(3, [1, 2, 3], 4, now=55.0)
    return manager


def test_a_state_by_hand() -> None:
    state = filled().state(60.0)
    assert (state.capacity, state.empty, state.evictable, state.referenced, state.leased) == (20, 13, 3, 4, 0)
    assert (state.requests, state.runs, state.hit_ratio) == (1, 3, 6 / 12)
    assert [(band.start, band.end, band.blocks) for band in state.by_depth] == [
        (0, 1, 1),
        (1, 2, 1),
        (2, 4, 3),  # 3, and both 4 and 9
        (4, 8, 1),
    ]
    assert [band.blocks for band in state.by_age] == [0, 0, 1, 2, 0, 0]
    assert [(band.start, band.end) for band in state.by_age][-1] == (3600.0, math.inf)
    (prefix,) = state.top_prefixes
    assert prefix == PrefixUse(run=prefix.run, depth=0, blocks=3, hits=2, holders=1, idle_s=None)
    assert prefix.hit_blocks == 6


def test_the_best_prefixes_come_first() -> None:
    manager = CacheManager(40)
    for request, (first, length, times) in enumerate([(100, 2, 4), (200, 6, 3), (300, 1, 5), (400, 9, 1)]):
        chain = list(range(first, first + length))
        for again in range(times):
            name = (request, again)
            hit = manager.allocate(name, chain, now=float(request)).hit
            manager.commit(name, chain[hit:], now=float(request))
            manager.free(name, now=float(request))
    told = [(p.blocks, p.hits, p.idle_s) for p in manager.state(10.0).top_prefixes]
    assert told == [(6, 2, 9.0), (2, 3, 10.0), (1, 4, 8.0)]
    assert len(manager.state(10.0, top=1).top_prefixes) == 1
    assert manager.state(10.0, top=0).top_prefixes == ()


def test_a_snapshot_does_not_change() -> None:
    manager = filled()
    state = manager.state(60.0)
    before = state.to_dict()
    manager.free(3, now=61.0)
    manager.pool.clear()
    assert state.to_dict() == before != manager.state(62.0).to_dict()
    with pytest.raises(FrozenInstanceError):
        state.empty = 0  # type: ignore[misc]


def test_a_dictionary_is_plain_json() -> None:
    told = filled().state(60.0).to_dict()
    assert json.loads(json.dumps(told, allow_nan=False)) == told
    assert told["by_age"][-1] == {"start": 3600.0, "end": None, "blocks": 0}
    assert told["top_prefixes"][0]["hits"] == 2


def test_an_empty_pool() -> None:
    state = CacheState.of(BlockPool(5), 0.0)
    assert (state.by_depth, state.top_prefixes, state.hit_ratio, state.requests) == ((), (), None, None)
    assert sum(band.blocks for band in state.by_age) == 0


@pytest.mark.parametrize(
    ("now", "top", "message"), [(49.0, 3, "now: 49.0 is before 50.0"), (math.nan, 3, "nan"), (60.0, -1, "top: -1")]
)
def test_bad_arguments(now: float, top: int, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        filled().state(now, top=top)


@settings(max_examples=60, deadline=None)
@given(
    st.lists(
        st.tuples(
            st.lists(st.integers(0, 2), min_size=1, max_size=6), st.booleans(), st.floats(0, 5000, allow_nan=False)
        ),
        max_size=30,
    )
)
def test_the_bands_add_up(requests: list[tuple[list[int], bool, float]]) -> None:
    manager, now = CacheManager(40), 0.0
    for request, (path, freed, wait) in enumerate(requests):
        now += wait
        chain = np.array([hash(tuple(path[: end + 1])) % 2**63 for end in range(len(path))], dtype=np.uint64)
        if manager.pool.counts()["referenced"] + len(chain) > 40:
            break
        hit = manager.allocate(request, chain, now=now).hit
        manager.commit(request, chain[hit:], now=now)
        if freed:
            manager.free(request, now=now)
        state = manager.state(now)
        assert state.empty + state.evictable + state.referenced + state.leased == state.capacity
        assert sum(band.blocks for band in state.by_age) == state.evictable
        assert sum(band.blocks for band in state.by_depth) == state.evictable + state.referenced
