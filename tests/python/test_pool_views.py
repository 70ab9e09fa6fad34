"""Views of a pool's state, and who keeps whom alive."""

from __future__ import annotations

import gc
import weakref

import numpy as np
import pytest

from kvopt.cache import BlockPool, RunTable
from kvopt.policies import DummyPolicy

COLUMNS = (
    "parent", "length", "depth", "children", "references", "leases", "hits", "last_use", "priority",
)  # fmt: skip
NO_RUN = 2**32 - 1


def keys(*numbers: int) -> np.ndarray:
    return np.array(numbers, dtype=np.uint64)


def store(pool: BlockPool, *numbers: int, now: float) -> None:
    allocation = pool.acquire(keys(*numbers), now=now)
    pool.commit(allocation, keys(*numbers[allocation.hit :]), now=now)
    pool.release(allocation, now=now)


@pytest.fixture
def pool() -> BlockPool:
    """1 2, and behind it 3 4 and 9."""
    pool = BlockPool(10)
    store(pool, 1, 2, 3, 4, now=1.0)
    store(pool, 1, 2, 9, now=2.0)
    return pool


def test_the_table_shows_the_tree(pool: BlockPool) -> None:
    runs = pool.runs
    (head,) = np.flatnonzero(runs.live & (runs.depth[: runs.used] == 0))
    behind = np.flatnonzero(runs.live & (runs.depth[: runs.used] == 2))
    assert (runs.parent[head], runs.length[head], runs.children[head], runs.hits[head]) == (NO_RUN, 2, 2, 1)
    assert runs.last_use[head] == 2.0
    assert runs.parent[behind].tolist() == [head, head]
    assert sorted(zip(runs.length[behind], runs.last_use[behind], runs.hits[behind], strict=True)) == [
        (1, 2, 0),
        (2, 1, 0),
    ]
    assert runs.used == 3
    assert runs.capacity == 10


@pytest.mark.parametrize("name", COLUMNS)
def test_columns_cannot_be_written(pool: BlockPool, name: str) -> None:
    column = getattr(pool.runs, name)
    assert column.shape == (10,)
    with pytest.raises(ValueError, match="read-only"):
        column[0] = 1
    with pytest.raises(ValueError, match="WRITEABLE"):
        column.flags.writeable = True


def test_columns_are_always_current(pool: BlockPool) -> None:
    references = pool.runs.references
    assert not references.any()
    allocation = pool.acquire(keys(1, 2), now=3.0)
    assert references.sum() == 1
    pool.release(allocation, now=3.0)
    assert not references.any()


def test_blocks_are_a_copy(pool: BlockPool) -> None:
    allocation = pool.acquire(keys(1, 2), now=3.0)
    blocks = allocation.blocks
    kept = blocks.tolist()
    blocks[:] = 99
    pool.release(allocation, now=3.0)
    assert len(allocation.blocks) == len(allocation) == 0
    assert pool.acquire(keys(1, 2), now=3.0).blocks.tolist() == kept


def test_a_view_outlives_its_pool() -> None:
    pool = BlockPool(1000)
    store(pool, *range(500), now=7.0)
    runs: RunTable = pool.runs
    column, length = runs.last_use, runs.length
    del pool, runs
    gc.collect()
    assert column[0] == 7.0
    assert length[0] == 500


def test_an_allocation_keeps_its_pool_alive() -> None:
    pool = BlockPool(100, policy := DummyPolicy())
    alive = weakref.ref(policy)
    allocation = pool.acquire(keys(1, 2, 3), now=0.0)
    del pool, policy
    gc.collect()
    assert sorted(allocation.blocks.tolist()) == [0, 1, 2]
    assert alive() is not None
    del allocation
    gc.collect()
    assert alive() is None


def test_a_pool_keeps_its_policy_alive_and_lets_it_go() -> None:
    policy = DummyPolicy()
    alive = weakref.ref(policy)
    pool = BlockPool(10, policy)
    del policy
    gc.collect()
    store(pool, *range(8), now=0.0)
    store(pool, *range(20, 28), now=1.0)  # evicts
    assert alive() is not None
    del pool
    gc.collect()
    assert alive() is None


def test_handles_are_made_by_the_core_only() -> None:
    for kind in (RunTable, type(BlockPool(1).acquire(keys(1), now=0.0))):
        with pytest.raises(TypeError):
            kind()
