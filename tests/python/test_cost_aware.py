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


@pytest.mark.parametrize(
    "spec", ["cost-aware:cost=3", "cost-aware:guard=2", "cost-aware:ghosts=-1", "cost-aware:tool=1"]
)
def test_settings_out_of_range_are_refused(spec: str) -> None:
    with pytest.raises(ConfigError, match="cost-aware"):
        replay(trace_of(one_off(3)), [spec], [50])


@pytest.mark.slow
def test_it_saves_more_on_real_agents(agentic: Trace) -> None:
    """Floors a little below what it reaches, far above LRU (0.151, 0.405, 0.676, 0.884)."""
    capacities = [10_000, 30_000, 60_000, 120_000]
    result = replay(agentic, ["cost-aware", "cost-aware:hints=0"], capacities)
    known = [result.row("cost-aware", c).cost_saved for c in capacities]
    tree = [result.row("cost-aware:hints=0", c).cost_saved for c in capacities]
    assert all(np.array(known) >= [0.256, 0.575, 0.768, 0.899]), known
    assert all(np.array(tree) >= [0.240, 0.530, 0.738, 0.893]), tree


@pytest.mark.slow
def test_it_saves_more_on_real_chat(shared_dir: Path) -> None:
    """Well above LRU where memory is scarce."""
    trace = read_trace(shared_dir / "traces" / "mooncake-conversation.jsonl.gz")
    result = replay(trace, ["lru", "cost-aware"], [1_000])
    assert result.row("cost-aware", 1_000).cost_saved > result.row("lru", 1_000).cost_saved + 0.015
