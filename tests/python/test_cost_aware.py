"""The cost-aware policy: what it saves on real agents, and that it does not lose to LRU where nothing can be won."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from kvopt._core import PrefixTraceBuilder
from kvopt.errors import ConfigError
from kvopt.simulator import replay
from kvopt.workload import Trace, read_trace

LOSS = 0.002  # of cost saved, below LRU


def trace_of(chains: list[list[int]], gap: float = 1.0) -> Trace:
    """One request a chain of block ids, `gap` seconds apart."""
    builder = PrefixTraceBuilder()
    for chain in chains:
        builder.append(np.array(chain, np.uint64))
    lengths = [len(chain) for chain in chains]
    columns = {
        "time": np.arange(len(chains)) * gap,
        "input_tokens": np.array(lengths, np.uint32) * 16,
        "output_tokens": np.full(len(chains), 64, np.uint32),
    }
    return Trace.from_columns(builder.finish(), columns, name="made", block_tokens=16)


def loop_over(capacity: int) -> list[list[int]]:
    """Single blocks in a circle that is one block too long for the cache."""
    return [[i % (capacity + 1), 10_000 + i] for i in range(30 * capacity)]


def one_off(requests: int) -> list[list[int]]:
    """Scan: nothing ever comes back."""
    return [list(range(10 * i, 10 * i + 10)) for i in range(requests)]


def uniform(requests: int) -> list[list[int]]:
    """Every chain is as likely as every other at any time."""
    draw = np.random.default_rng(5)
    return [[100 * int(c) + i for i in range(12)] for c in draw.integers(0, 200, requests)]


def abrupt(requests: int) -> list[list[int]]:
    """Sessions that return fast, then sessions that never do, then fast ones again."""
    draw = np.random.default_rng(6)
    fast = [[100 * int(c) + i for i in range(12)] for c in draw.integers(0, 40, requests)]
    never = [[1_000_000 + 100 * r + i for i in range(12)] for r in range(requests)]
    again = [[2_000_000 + 100 * int(c) + i for i in range(12)] for c in draw.integers(0, 40, requests)]
    return fast + never + again


@pytest.mark.parametrize(
    ("chains", "capacities"),
    [
        (loop_over(100), [101, 150]),
        (one_off(2000), [50, 500]),
        (uniform(120_000), [200, 600, 1200]),
        (abrupt(2000), [100, 300, 600]),
    ],
    ids=["loop", "one-off", "uniform", "abrupt"],
)
def test_it_does_not_lose_to_lru_where_nothing_can_be_won(chains: list[list[int]], capacities: list[int]) -> None:
    result = replay(trace_of(chains), ["lru", "cost-aware"], capacities)
    for capacity in capacities:
        lru = result.row("lru", capacity).cost_saved
        assert result.row("cost-aware", capacity).cost_saved >= lru - LOSS, capacity


def test_it_repeats_exactly() -> None:
    trace = trace_of(uniform(1500))
    rows = [replay(trace, ["cost-aware"], [300]).row("cost-aware", 300) for _ in range(2)]
    assert (rows[0].block_hit, rows[0].evictions) == (rows[1].block_hit, rows[1].evictions)


@pytest.mark.parametrize(
    "spec", ["cost-aware:cost=3", "cost-aware:guard=2", "cost-aware:ghosts=-1", "cost-aware:tool=1"]
)
def test_settings_out_of_range_are_refused(spec: str) -> None:
    with pytest.raises(ConfigError, match="cost-aware"):
        replay(trace_of(one_off(3)), [spec], [50])


@pytest.mark.slow
def test_it_saves_more_on_real_agents(shared_dir: Path) -> None:
    """Floors a little below what it reaches, far above LRU (0.151, 0.405, 0.676, 0.884)."""
    trace = read_trace(shared_dir / "traces" / "agentic-400.tar.xz")
    capacities = [10_000, 30_000, 60_000, 120_000]
    result = replay(trace, ["cost-aware", "cost-aware:hints=0"], capacities)
    known = [result.row("cost-aware", c).cost_saved for c in capacities]
    tree = [result.row("cost-aware:hints=0", c).cost_saved for c in capacities]
    assert all(np.array(known) >= [0.256, 0.575, 0.768, 0.899]), known
    assert all(np.array(tree) >= [0.240, 0.530, 0.738, 0.893]), tree


@pytest.mark.slow
def test_it_saves_more_on_real_chat(shared_dir: Path) -> None:
    """Never below LRU at any of eight sizes, and well above it where memory is scarce."""
    trace = read_trace(shared_dir / "traces" / "mooncake-conversation.jsonl.gz")
    capacities = [500, 1_000, 5_000, 10_000, 30_000, 50_000, 200_000, 400_000]
    result = replay(trace, ["lru", "cost-aware"], capacities)
    lost = [result.row("lru", c).cost_saved - result.row("cost-aware", c).cost_saved for c in capacities]
    assert max(lost) <= LOSS, lost
    assert lost[1] < -0.015, lost
