from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kvopt.errors import ConfigError
from kvopt.simulator import miss_ratio_curve, replay
from kvopt.simulator.miss_ratio import even_steps
from made_traces import SMALL_TRACE, make_trace

chains = st.lists(st.lists(st.integers(0, 2), min_size=1, max_size=6), min_size=1, max_size=40)


@given(chains)
def test_every_point_equals_a_replay_of_its_own(drawn: list[list[int]]) -> None:
    trace = make_trace([(float(r), 512 * len(ids), ids) for r, ids in enumerate(drawn)])
    longest = max(map(len, drawn))
    capacities = list(range(1, trace.unique_blocks + longest + 2))
    curve = miss_ratio_curve(trace, capacities)
    assert [point.capacity for point in curve.points] == capacities
    for point, row in zip(curve.points, replay(trace, "lru", capacities).rows, strict=True):
        assert (point.block_hit, point.token_hit, point.cost_saved) == (row.block_hit, row.token_hit, row.cost_saved)
        assert point.miss_ratio == 1 - row.block_hit
        assert (point.skipped, point.block_references) == (row.skipped, row.block_references)
        assert point.replayed == (point.capacity <= longest)


def test_the_default_runs_from_one_block_to_the_infinite_cache() -> None:
    trace = make_trace(SMALL_TRACE)
    curve = miss_ratio_curve(trace)
    assert curve.points[0].capacity == 1
    assert curve.points[-1].capacity == trace.unique_blocks == 12
    assert curve.points[-1].block_hit == 7 / 19
    assert not curve.points[-1].replayed


def test_capacities_are_sorted_and_repeats_dropped() -> None:
    curve = miss_ratio_curve(make_trace(SMALL_TRACE), [9, 4, 9])
    assert [point.capacity for point in curve.points] == [4, 9]


@pytest.mark.parametrize("capacities", [[], [0], [7, -1], [1.5]])
def test_bad_capacities_are_refused(capacities: list[int]) -> None:
    with pytest.raises(ConfigError, match="capacit"):
        miss_ratio_curve(make_trace(SMALL_TRACE), capacities)


@given(st.integers(1, 10**7), st.integers(1, 60))
def test_steps_are_even_rise_and_keep_both_ends(last: int, points: int) -> None:
    steps = even_steps(1, last, points + 1)
    assert steps == sorted(set(steps))
    assert (steps[0], steps[-1]) == (1, last)
    assert len(steps) <= points + 1


def test_files_hold_the_points(tmp_path: Path) -> None:
    curve = miss_ratio_curve(make_trace(SMALL_TRACE), [4, 9])
    curve.write_json(tmp_path / "curve.json")
    curve.write_csv(tmp_path / "curve.csv")
    assert json.loads((tmp_path / "curve.json").read_text()) == curve.to_dict()
    lines = (tmp_path / "curve.csv").read_text().splitlines()
    assert lines[0] == (
        "policy,capacity,miss_ratio,block_hit,token_hit,cost_saved,requests,skipped,block_references,replayed"
    )
    assert [line.split(",")[:2] for line in lines[1:]] == [["lru", "4"], ["lru", "9"]]
