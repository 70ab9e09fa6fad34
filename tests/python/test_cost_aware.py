"""The cost-aware policy: its settings, and what it saves; test_cost_aware_guard.py has where it must not lose."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from adversaries import one_off, trace_of, uniform
from kvopt.errors import ConfigError
from kvopt.simulator import replay
from kvopt.workload import Trace, read_trace


def test_it_repeats_exactly() -> None:
    trace = trace_of(uniform(1500))
    rows = [replay(trace, ["cost-aware"], [300]).row("cost-aware", 300) for _ in range(2)]
    assert (rows[0].block_hit, rows[0].evictions) == (rows[1].block_hit, rows[1].evictions)


@pytest.mark.parametrize("setting", ["cost=3", "cost=0.5", "guard=2", "ghosts=-1", "tool=1"])
def test_settings_out_of_range_are_refused(setting: str) -> None:
    with pytest.raises(ConfigError, match="cost-aware"):
        replay(trace_of(one_off(3)), [f"cost-aware:{setting}"], [50])


@pytest.mark.slow
def test_it_saves_more_on_real_agents(agentic: Trace) -> None:
    """Floors a little below what it reaches, far above LRU (0.151, 0.405, 0.676, 0.884)."""
    capacities = [10_000, 30_000, 60_000, 120_000]
    result = replay(agentic, ["cost-aware", "cost-aware:hints=0"], capacities)
    known = [result.row("cost-aware", c).cost_saved for c in capacities]
    tree = [result.row("cost-aware:hints=0", c).cost_saved for c in capacities]
    assert all(np.array(known) >= [0.260, 0.580, 0.778, 0.903]), known
    assert all(np.array(tree) >= [0.246, 0.550, 0.745, 0.896]), tree


@pytest.mark.slow
def test_it_saves_more_on_real_chat(shared_dir: Path) -> None:
    """Well above LRU where memory is scarce."""
    trace = read_trace(shared_dir / "traces" / "mooncake-conversation.jsonl.gz")
    capacities = [1_000, 5_000, 10_000, 30_000, 50_000]
    result = replay(trace, ["lru", "cost-aware"], capacities)
    assert result.row("cost-aware", 1_000).cost_saved > result.row("lru", 1_000).cost_saved + 0.030
    hits = [result.row("cost-aware", c).block_hit for c in capacities]
    assert all(np.array(hits) >= [0.077, 0.160, 0.226, 0.330, 0.356]), hits
