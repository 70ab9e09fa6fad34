"""What cost-aware has learned, saved and loaded: the same decisions afterwards, and no other bytes are taken."""

from __future__ import annotations

import json
import math
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from adversaries import loop, recently_used, trace_of
from command_line import fails, succeeds
from kvopt._core import BlockPool, EnginePool, RequestInfo, StopReason
from kvopt.cache import CacheManager
from kvopt.errors import PolicyStateError
from kvopt.simulator import learn, replay
from kvopt.workload import CodingAgents, read_trace, write_parquet

# Everything that it has learned is in the file but for ghosts, which are of content.
POLICY = "cost-aware:ghosts=0"
BLOCKS = 120


def serve(pool: BlockPool, first: int, requests: int) -> list[int]:
    """Sessions that return after gaps that depend on why they stopped; the hits of each request.

    Each call with another `first` is of other sessions and content, later on the same clock.
    """
    draw = np.random.default_rng(first)
    hits = []
    for request in range(first, first + requests):
        session = first + int(draw.integers(0, 30))
        now = 7.0 * request + draw.random()
        stop = StopReason.TOOL_USE if session % 2 else StopReason.END_TURN
        info = RequestInfo(now, session=session, output_tokens=40 * (session % 5), stop=stop)
        keys = np.arange(3 + session % 9, dtype=np.uint64) + np.uint64(100 * (session + 1))
        allocation = pool.acquire(keys, now=info)
        hits.append(allocation.hit)
        pool.commit(allocation, keys[allocation.hit :], now=info)
        pool.release(allocation, now=info)
    return hits


def test_decisions_go_on_as_if_nothing_had_happened(tmp_path: Path) -> None:
    """In another process; against the pool that went on, emptied so that it has what it learned and nothing else."""
    pool = BlockPool(BLOCKS, POLICY)
    serve(pool, 0, 3000)
    pool.clear()
    (tmp_path / "learned").write_bytes(pool.save_state())
    code = (
        "from pathlib import Path; from test_cost_aware_state import *\n"
        f"pool = BlockPool(BLOCKS, POLICY); pool.load_state(Path({str(tmp_path / 'learned')!r}).read_bytes())\n"
        "print(serve(pool, 5000, 3000)); print(pool.save_state().hex())"
    )
    child = subprocess.run([sys.executable, "-c", code], cwd=Path(__file__).parent, capture_output=True, check=True)
    hits, learned = child.stdout.decode().splitlines()
    assert hits == str(serve(pool, 5000, 3000))
    assert bytes.fromhex(learned) == pool.save_state()
    new = BlockPool(BLOCKS, POLICY)
    assert hits != str(serve(new, 5000, 3000))


def test_a_learned_start_beats_a_cold_one() -> None:
    taught, asked = (CodingAgents(sessions=60, seed=seed).load() for seed in (1, 2))
    capacity = asked.unique_blocks // 20
    state = learn(taught, "cost-aware", capacity)
    cold, warm = (replay(asked, ["lru", "cost-aware"], capacity, state=start) for start in (None, state))
    assert warm.row("cost-aware", capacity).cost_saved > cold.row("cost-aware", capacity).cost_saved + 0.003
    assert warm.row("lru", capacity).cost_saved == cold.row("lru", capacity).cost_saved


@pytest.mark.slow
def test_what_was_won_is_no_licence_to_lose() -> None:
    """A loop, of which LRU hits nothing, and then what LRU is right about."""
    asked = trace_of(recently_used(20_000))
    for capacity in (100, 300):
        state = learn(trace_of(loop(capacity, 6, 400)), "cost-aware", capacity)
        result = replay(asked, ["lru", "cost-aware"], capacity, state=state)
        assert result.row("cost-aware", capacity).cost_saved > result.row("lru", capacity).cost_saved - 0.003


def test_who_never_comes_back_poisons_nothing(tmp_path: Path) -> None:
    cache = CacheManager(60, "cost-aware")
    draw = np.random.default_rng(1)
    for request in range(2000):
        keys = np.arange(6, dtype=np.uint64) + np.uint64(10 * draw.integers(0, 20))
        gap = (math.inf, 1e300, 5.0)[request % 3]
        allocation = cache.allocate(request, keys, now=float(request), session=request % 20, expected_gap=gap)
        cache.commit(request, keys[allocation.hit :], now=float(request))
        cache.free(request, now=float(request))
    assert all(math.isfinite(value.cost) for value in cache.explain(now=2000.0).candidates)
    cache.save_learned(tmp_path / "learned")
    CacheManager(60, "cost-aware").load_learned(tmp_path / "learned")


def test_a_model_without_attention_can_be_kept() -> None:
    pool = BlockPool(BLOCKS, POLICY, p_star=math.inf)
    serve(pool, 0, 300)
    state = pool.save_state()
    again = BlockPool(BLOCKS, POLICY, p_star=math.inf)
    again.load_state(state)
    assert again.save_state() == state


@pytest.fixture(scope="module")
def learned() -> bytes:
    pool = BlockPool(BLOCKS, POLICY)
    serve(pool, 0, 200)
    return pool.save_state()


@pytest.mark.parametrize(
    ("part", "says"),
    [
        (lambda state: b"", "KVOPTLS"),
        (lambda state: b"PAR1" + state, "KVOPTLS"),
        (lambda state: state[:10], "truncated"),
        (lambda state: state[:-1], "truncated"),
        (lambda state: state + b"\0", "damaged"),
        (lambda state: state[:500] + bytes([state[500] ^ 1]) + state[501:], "checksum"),
        (lambda state: state[:8] + b"\2" + state[9:], "version 2; this KVopt reads version 1"),
    ],
)
def test_other_bytes_are_refused_and_change_nothing(learned: bytes, part: object, says: str) -> None:
    assert callable(part)
    pool, fresh = BlockPool(BLOCKS, POLICY), BlockPool(BLOCKS, POLICY)
    with pytest.raises(PolicyStateError, match=says):
        pool.load_state(part(learned))
    assert pool.save_state() == fresh.save_state()
    assert serve(pool, 0, 200) == serve(fresh, 0, 200)


def test_every_bit_counts(learned: bytes) -> None:
    pool = BlockPool(BLOCKS, POLICY)
    for place in range(0, len(learned), 997):
        with pytest.raises(PolicyStateError):
            pool.load_state(learned[:place] + bytes([learned[place] ^ 16]) + learned[place + 1 :])


def test_other_policies_and_settings_are_refused(learned: bytes) -> None:
    with pytest.raises(PolicyStateError, match="cost-aware:hints=1, and this policy has 0"):
        BlockPool(BLOCKS, f"{POLICY},hints=0").load_state(learned)
    for pool in (BlockPool(BLOCKS, "lru"), EnginePool(BLOCKS), EnginePool(BLOCKS, "sieve")):
        assert not pool.learns
        with pytest.raises(PolicyStateError, match="learns nothing"):
            pool.load_state(learned)
        with pytest.raises(PolicyStateError, match="learns nothing"):
            pool.save_state()
    with pytest.raises(PolicyStateError, match="none of the policies learns"):
        replay(CodingAgents(sessions=1).load(), ["lru", "min"], 9000, state=learned)


def test_what_has_learned_already_takes_nothing(learned: bytes) -> None:
    pool = BlockPool(BLOCKS, POLICY)
    pool.load_state(learned)
    with pytest.raises(PolicyStateError, match="before the first request"):
        pool.load_state(learned)


def test_an_engine_pool_takes_it_too(learned: bytes) -> None:
    pool = EnginePool(BLOCKS, POLICY, clock=lambda: 0.0)
    assert pool.learns
    pool.load_state(learned)
    # Of another size: all but what the guard knows.
    assert EnginePool(BLOCKS, POLICY, clock=lambda: 0.0).save_state() != pool.save_state()


def test_a_cache_manager_names_the_file(tmp_path: Path) -> None:
    cache = CacheManager(BLOCKS, POLICY)
    serve(cache.pool, 0, 50)
    cache.save_learned(tmp_path / "learned")
    other = CacheManager(BLOCKS, POLICY)
    other.load_learned(tmp_path / "learned")
    assert other.pool.save_state() == cache.pool.save_state()
    (tmp_path / "foreign").write_text("nothing of the kind")
    with pytest.raises(PolicyStateError, match="foreign: policy state"):
        CacheManager(BLOCKS, POLICY).load_learned(tmp_path / "foreign")


@pytest.fixture
def trace(tmp_path: Path) -> Path:
    write_parquet(CodingAgents(sessions=8).load(), tmp_path / "trace.parquet")
    return tmp_path / "trace.parquet"


def test_the_command_line(trace: Path, tmp_path: Path) -> None:
    out = tmp_path / "learned"
    assert "requests at 5,000 blocks" in succeeds("learn", trace, "--capacity", "5k", "-o", out)
    succeeds("learn", trace, "--capacity", "5k", "--policy-state", out, "-o", tmp_path / "more")
    cold, warm = (
        replay(read_trace(trace), "cost-aware", 5000, state=start).rows[0].cost_saved
        for start in (None, (tmp_path / "more").read_bytes())
    )
    one = ["compare", trace, "--policy", "cost-aware", "--capacity", "5k"]
    succeeds(*one, "--policy-state", tmp_path / "more", "--json", tmp_path / "rows.json")
    assert json.loads((tmp_path / "rows.json").read_text())["rows"][0]["cost_saved"] == warm != cold
    (tmp_path / "foreign").write_bytes(b"x")
    refused = fails(*one, "--policy-state", tmp_path / "foreign")
    assert str(tmp_path / "foreign") in refused
    assert "learns nothing" in fails("learn", trace, "--policy", "lru", "--capacity", "5k", "-o", out)
