"""`kvopt compare --sweep`: a policy under a grid of settings."""

from __future__ import annotations

import csv
from pathlib import Path

import pytest

from command_line import fails, succeeds
from kvopt.cli.policy_grid import policy_grid
from kvopt.errors import ConfigError
from kvopt.simulator import replay
from made_traces import SMALL_TRACE, make_trace

GRID = "asymcache:lifespan=1|100,r=10|40"
SPECS = [f"asymcache:lifespan={lifespan},r={r}" for lifespan in (1, 100) for r in (10, 40)]


def rows_of(path: Path) -> list[tuple[str, int, float]]:
    with path.open() as file:
        return [(row["policy"], int(row["capacity"]), float(row["block_hit"])) for row in csv.DictReader(file)]


def test_rows_are_those_of_each_parameter_set(small_trace_file: Path, tmp_path: Path) -> None:
    out = tmp_path / "out.csv"
    succeeds("compare", small_trace_file, "--sweep", GRID, "--capacity", "4,9", "--csv", out)
    expected = replay(make_trace(SMALL_TRACE), SPECS, [4, 9])
    rows = rows_of(out)
    assert [row[:2] for row in rows] == [(row.policy, row.capacity) for row in expected.rows]
    assert [hit for _, _, hit in rows] == pytest.approx([row.block_hit for row in expected.rows])


def test_beside_policies_that_are_named(small_trace_file: Path, tmp_path: Path) -> None:
    out = tmp_path / "out.csv"
    succeeds("compare", small_trace_file, "--policy", "lfu", "--sweep", GRID, "--capacity", "4", "--csv", out)
    assert [policy for policy, _, _ in rows_of(out)] == ["lfu", *SPECS]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("asymcache", "lacks a value"),
        ("asymcache:lifespan=1", "is one parameter set; write alternatives"),
        ("asymcache:lifespan=1||3", "lacks a value of 'lifespan'"),
        ("asymcache:lifespan=1|0", "lifespan"),
        ("asymcache:lifespam=1|2", "lifespam"),
        ("asymcach:lifespan=1|2", "asymcache"),
    ],
)
def test_grids_that_make_no_sense(small_trace_file: Path, text: str, message: str) -> None:
    assert message in fails("compare", small_trace_file, "--sweep", text)


def test_at_most_a_thousand_sets() -> None:
    axis = "|".join(str(i) for i in range(1, 33))
    with pytest.raises(ConfigError, match="is 1,024 parameter sets; it may be at most 1,000"):
        policy_grid(f"asymcache:lifespan={axis},r={axis}")
    assert len(policy_grid(f"asymcache:lifespan={axis}")) == 32
