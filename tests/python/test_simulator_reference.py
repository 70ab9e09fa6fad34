"""Figures of the real traces against reference/replay.json, which an independent program computed."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from kvopt.simulator import miss_ratio_curve, replay
from kvopt.workload import Trace, read_trace

FILES = {"mooncake-conversation": "mooncake-conversation.jsonl.gz", "agentic-400": "agentic-400.tar.xz"}

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module", params=sorted(FILES))
def case(request: pytest.FixtureRequest, shared_dir: Path) -> tuple[Trace, dict[str, Any]]:
    name: str = request.param
    reference = json.loads((shared_dir / "reference" / "replay.json").read_text())["prefix_rule"][name]
    return read_trace(shared_dir / "traces" / FILES[name]), reference


def test_lru_and_min(case: tuple[Trace, dict[str, Any]]) -> None:
    trace, reference = case
    capacities = reference["capacity"]
    result = replay(trace, ["lru", "min", "min-bypass"], capacities)

    def column(policy: str, field: str) -> list[Any]:
        return [getattr(result.row(policy, capacity), field) for capacity in capacities]

    def share(policy: str, field: str) -> list[float]:
        return [round(value, 4) for value in column(policy, field)]

    assert share("lru", "block_hit") == reference["lru_block_hit"]
    assert column("lru", "evictions") == reference["lru_evictions"]
    assert share("lru", "cost_saved") == reference["lru_cost_saved"]
    assert share("min", "block_hit") == reference["min_forced_insertion_block_hit"]
    if "min_forced_insertion_evictions" in reference:
        assert column("min", "evictions") == reference["min_forced_insertion_evictions"]
    if "min_forced_insertion_cost_saved" in reference:
        assert share("min", "cost_saved") == reference["min_forced_insertion_cost_saved"]
    if "min_with_bypass_block_hit" in reference:
        assert share("min-bypass", "block_hit") == reference["min_with_bypass_block_hit"]


def test_the_miss_ratio_curve_meets_the_reference(case: tuple[Trace, dict[str, Any]]) -> None:
    trace, reference = case
    curve = miss_ratio_curve(trace, [*reference["capacity"], trace.unique_blocks + trace.prefix.longest_request])
    *points, everything = curve.points
    assert [round(point.block_hit, 4) for point in points] == reference["lru_block_hit"]
    assert [round(point.cost_saved, 4) for point in points] == reference["lru_cost_saved"]
    assert everything.block_hit == pytest.approx(1 - trace.unique_blocks / trace.block_references, rel=1e-12)
    if "infinite_cache_block_hit" in reference:
        assert round(everything.block_hit, 4) == reference["infinite_cache_block_hit"]
