"""What cost-aware says of its blocks is what it does."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from command_line import fails, succeeds
from kvopt._core import BlockPool, EnginePool, RequestInfo, StopReason
from kvopt.cache import CacheManager, Explanation
from kvopt.errors import ConfigError, PoolError, StaleBlockError
from kvopt.simulator import explain
from kvopt.workload import CodingAgents, write_parquet

SESSIONS = 30  # fewer than what is always looked at in full


def served(requests: int, policy: str = "cost-aware") -> tuple[BlockPool, float]:
    """A pool after sessions that return after gaps that depend on why they stopped, and the time."""
    draw = np.random.default_rng(3)
    pool = BlockPool(200, policy, retention=True)
    now = 0.0
    for _ in range(requests):
        session = int(draw.integers(0, SESSIONS))
        now += float(draw.exponential(5.0))
        stop = StopReason.TOOL_USE if session % 2 else StopReason.END_TURN
        info = RequestInfo(now, session=session, output_tokens=60 * (session % 5), stop=stop)
        keys = np.arange(3 + session % 9, dtype=np.uint64) + np.uint64(100 * (session + 1))
        allocation = pool.acquire(keys, now=info)
        pool.commit(allocation, keys[allocation.hit :], now=info)
        pool.release(allocation, now=info)
    return pool, now


@pytest.mark.parametrize("requests", [20, 2000])
def test_the_victim_is_the_one_that_goes(requests: int) -> None:
    pool, now = served(requests)
    groups = set()
    while (victim := Explanation.of(pool, now).victim) is not None:
        groups.add(victim.group)
        left = pool.counts()["evictable"] - 1
        (block,) = pool.evict(1, now=now).tolist()
        assert pool.counts()["evictable"] == left
        assert bool(pool.runs.live[victim.run]) == (victim.blocks > 1)
        assert victim.blocks == 1 or pool.runs.length[victim.run] == victim.blocks - 1
        with pytest.raises(StaleBlockError):
            pool.explain_block(block, now=now)
        now += 0.01
    assert len(groups) > 1


def test_the_value_is_the_product_of_what_is_shown() -> None:
    pool, now = served(2000)
    explanation = Explanation.of(pool, now + 3)
    for value in explanation.values:
        assert value.order == "the least value first"
        assert value.value == pytest.approx(value.rate * value.cost * value.favour, rel=1e-5)
        assert value.age >= 3
    values = [value.value for value in explanation.candidates]
    assert values == sorted(values)
    assert {value.group.partition(",")[0] for value in explanation.values} >= {"tool use", "end of turn"}
    assert sum(map(len, explanation.queues.values())) == len(explanation.candidates)
    assert explanation.victim is not None
    assert f"Run {explanation.victim.run} goes next" in explanation.reason


def test_a_retention_priority_is_shown() -> None:
    pool, now = served(2000)
    keys = np.arange(4, dtype=np.uint64)
    allocation = pool.acquire(keys, now=now)
    pool.commit(allocation, keys, now=now)
    block = int(allocation.blocks[-1])
    with pytest.raises(PoolError, match="is held"):
        pool.explain_block(block, now=now)
    pool.retain(allocation, 0, 4, priority=51, now=now)
    pool.release(allocation, now=now)
    value = pool.explain_block(block, now=now)
    assert (value.priority, value.favour, value.blocks, value.depth, value.covered) == (51, 4.0, 4, 0, False)
    assert value.hits == 0


def test_before_it_has_learned_it_says_so() -> None:
    pool, now = served(5)
    explanation = Explanation.of(pool, now)
    assert {value.order for value in explanation.values} == {"the oldest first: too little has come back"}
    ages = [value.age for value in explanation.candidates]
    assert ages == sorted(ages, reverse=True)


def test_what_explains_nothing_says_so() -> None:
    for pool in (BlockPool(10, "lru"), BlockPool(10, "lhd")):
        with pytest.raises(ConfigError, match="cannot say what blocks are worth"):
            pool.explain(now=0.0)
    with pytest.raises(ConfigError, match="no values"):
        EnginePool(10).explain()
    empty = CacheManager(10, "cost-aware").explain(0.0)
    assert empty.victim is empty.runner_up is None
    assert "Nothing can be evicted" in empty.reason


def test_an_engine_pool_explains_by_block() -> None:
    pool = EnginePool(10, "cost-aware", clock=lambda: 5.0)
    blocks = pool.get_new_blocks(3)
    pool.cache_full_blocks([bytes([i]) * 16 for i in range(3)], blocks, 0, 3, 16, 0)
    pool.free_blocks(blocks[::-1])
    values = pool.explain()
    assert [value.run for value in values] == [blocks[2].block_id, blocks[0].block_id, blocks[1].block_id]
    assert [value.covered for value in values] == [False, True, True]


def test_the_command_line(tmp_path: Path) -> None:
    trace = CodingAgents(sessions=8).load()
    write_parquet(trace, tmp_path / "trace.parquet")
    at = float(trace.time[500])
    expected = explain(trace, "cost-aware", 5000, at=at)
    out = succeeds(
        "explain", tmp_path / "trace.parquet", "--capacity", "5k", "--at", at, "--top", 2, "--json", tmp_path / "j"
    )
    assert expected.reason in " ".join(out.split())
    assert f"{len(expected.candidates)} runs may go" in out
    assert json.loads((tmp_path / "j").read_text()) == expected.to_dict()
    assert "before the first request" in fails("explain", tmp_path / "trace.parquet", "--capacity", "5k", "--at", "-9")
    assert "cannot say" in fails("explain", tmp_path / "trace.parquet", "--capacity", "5k", "--policy", "lru")
