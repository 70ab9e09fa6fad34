from __future__ import annotations

import csv
import json
import math
from dataclasses import asdict, fields
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kvopt.errors import ConfigError, UnknownPolicyError
from kvopt.policies import DummyPolicy
from kvopt.simulator import ReplayResult, ReplayRow, replay
from kvopt.simulator.measure import RequestWeights
from kvopt.workload.base import Trace
from made_traces import SMALL_TRACE, make_trace

TYPES: dict[Any, Any] = {"str": str, "int": int, "float": float}


@pytest.fixture
def small() -> Trace:
    return make_trace(SMALL_TRACE)


def cost(tokens: int, p_star: int = 28_600) -> Fraction:
    return tokens + Fraction(tokens * tokens, 2 * p_star)


def test_lru_by_hand(small: Trace) -> None:
    row = replay(small, "lru", 4).rows[0]
    # The fourth request evicts block 3, then block 4, the deepest of the next oldest; the fifth evicts block 6.
    kept = [1024, 512, 1536, 1024, 1536, 1024]
    assert (row.policy, row.capacity, row.requests, row.skipped) == ("lru", 4, 7, 1)
    assert (row.evictions, row.block_references) == (3, 13)
    assert row.block_hit == 6 / 13
    assert row.token_hit == (1024 + 1024 + 1000) / (1024 + 512 + 1200 + 1024 + 1536 + 1000)
    assert row.cost_saved == pytest.approx(float(3 * cost(1024) / sum(map(cost, kept))), rel=1e-12)
    assert row.seconds >= 0


def test_slack_memory_keeps_everything(small: Trace) -> None:
    for row in replay(small, ["lru", "fifo", "min"], [100]).rows:
        assert (row.evictions, row.skipped, row.block_references) == (0, 0, 19)
        assert row.block_hit == 7 / 19


def test_a_capacity_that_nothing_fits_into_counts_nothing(small: Trace) -> None:
    row = replay(small, "lru", 1).rows[0]
    assert (row.skipped, row.requests, row.block_references, row.evictions) == (7, 7, 0, 0)
    assert (row.block_hit, row.token_hit, row.cost_saved) == (0.0, 0.0, 0.0)


def test_p_star_changes_only_the_cost(small: Trace) -> None:
    near, far = (replay(small, "lru", 4, p_star=p_star).rows[0] for p_star in (100, 1e12))
    assert near.block_hit == far.block_hit
    assert far.cost_saved == pytest.approx(3 * 1024 / 6656, rel=1e-6)
    assert near.cost_saved < far.cost_saved


def test_rows_keep_the_order_asked_for_whatever_the_threads(small: Trace) -> None:
    policies, capacities = ["min", "lru", "fifo", "lfu", "min-bypass"], [9, 4, 100, 7]
    one, many = (replay(small, policies, capacities, threads=threads) for threads in (1, 8))
    assert [(row.capacity, row.policy) for row in one.rows] == [(c, p) for c in capacities for p in policies]
    timeless = [[asdict(row) | {"seconds": 0} for row in result.rows] for result in (one, many)]
    assert timeless[0] == timeless[1]


def test_repeats_are_replayed_once(small: Trace) -> None:
    result = replay(small, ["lru", "lru"], [4, 9, 4])
    assert [(row.policy, row.capacity) for row in result.rows] == [("lru", 4), ("lru", 9)]


def test_a_capacity_that_no_trace_fills_takes_no_more_memory_than_the_trace(small: Trace) -> None:
    policy = DummyPolicy()
    (row,) = replay(small, policy, 2**32 - 2).rows
    assert policy.runs.capacity == small.unique_blocks + 1
    enough = replay(small, DummyPolicy, 100).rows[0]
    assert asdict(row) | {"seconds": 0, "capacity": 100} == asdict(enough) | {"seconds": 0}


def test_a_row_is_found_by_policy_and_capacity(small: Trace) -> None:
    result = replay(small, ["lru", "fifo"], [4, 9])
    assert result.row("fifo", 9) is result.rows[3]
    assert result.only(["fifo"]).policies == ("fifo",)
    with pytest.raises(ConfigError, match=r"'lfu' at capacity 4: policies lru, fifo; capacities 4, 9"):
        result.row("lfu", 4)


@pytest.mark.parametrize("capacity", [0, -1, 2**32 - 1, 1.5, "4", None, True, math.nan])
def test_a_bad_capacity_is_refused_before_any_work(small: Trace, capacity: Any) -> None:
    calls: list[int] = []
    with pytest.raises(ConfigError, match="capacity: "):
        replay(small, "lru", [4, capacity], progress=lambda done, total, what: calls.append(done))
    assert calls == []


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"policies": []}, "policies: empty"),
        ({"capacities": []}, "capacities: empty"),
        ({"policies": [3]}, "policies: 3 is neither"),
        ({"policies": [int]}, "is neither a policy name nor a kvopt"),
        ({"p_star": 0}, "p_star: 0"),
        ({"threads": 0}, "threads: 0"),
        ({"threads": 2.0}, r"threads: 2\.0"),
    ],
)
def test_bad_arguments_are_named(small: Trace, change: dict[str, Any], message: str) -> None:
    arguments: dict[str, Any] = {"policies": ["lru"], "capacities": [4]} | change
    with pytest.raises(ConfigError, match=message):
        replay(small, arguments.pop("policies"), arguments.pop("capacities"), **arguments)


def test_an_unknown_policy_is_refused_before_any_work(small: Trace) -> None:
    calls: list[int] = []
    with pytest.raises(UnknownPolicyError, match=r"lrv.*lru"):
        replay(small, ["lru", "lrv"], [4], progress=lambda done, total, what: calls.append(done))
    assert calls == []


def test_progress_counts_the_cells(small: Trace) -> None:
    calls: list[tuple[int, int | None]] = []
    replay(small, ["lru", "min"], [4, 9], progress=lambda done, total, what: calls.append((done, total)))
    assert calls == [(done, 4) for done in range(5)]


def test_files_hold_the_rows(small: Trace, tmp_path: Path) -> None:
    result = replay(small, ["lru", "min"], [4, 9])
    result.write_json(tmp_path / "result.json")
    result.write_csv(tmp_path / "result.csv")
    document = json.loads((tmp_path / "result.json").read_text())
    assert document == result.to_dict()
    assert document["trace"]["p_star"] == 28_600
    assert list(document["rows"][0]) == [field.name for field in fields(ReplayRow)]
    with (tmp_path / "result.csv").open(newline="") as file:
        read = [
            {field.name: TYPES[field.type](row[field.name]) for field in fields(ReplayRow)}
            for row in csv.DictReader(file)
        ]
    assert read == document["rows"]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["result.csv", "result.json"]


def test_json_has_null_for_what_is_not_finite(tmp_path: Path) -> None:
    ReplayResult({"gap": math.nan, "list": (1, np.float32(2.0))}, ()).write_json(tmp_path / "result.json")
    text = (tmp_path / "result.json").read_text()
    assert json.loads(text) == {"trace": {"gap": None, "list": [1, 2.0]}, "rows": []}


requests = st.lists(st.tuples(st.integers(0, 9), st.integers(0, 9), st.booleans(), st.integers(0, 63)), min_size=1)


@given(requests, st.sampled_from([1, 16, 64]), st.sampled_from([100, 28_600]))
def test_figures_equal_a_loop_over_the_requests(
    drawn: list[tuple[int, int, bool, int]], block_tokens: int, p_star: int
) -> None:
    cells = [
        (blocks, min(hit, blocks), skip, blocks * block_tokens - min(cut, block_tokens - 1) * (blocks > 0))
        for blocks, hit, skip, cut in drawn
    ]
    trace = make_trace(
        [(0.0, tokens, [100 * r + b for b in range(blocks)]) for r, (blocks, _, _, tokens) in enumerate(cells)],
        block_tokens,
    )
    hits = np.array([0 if skip else hit for _, hit, skip, _ in cells], dtype=np.uint32)
    skipped = np.array([skip for _, _, skip, _ in cells])
    kept = [(blocks, hit, tokens) for blocks, hit, skip, tokens in cells if not skip]
    row = RequestWeights(trace, p_star).figures(hits, skipped)

    def ratio(part: Fraction | int, whole: Fraction | int) -> float:
        return float(Fraction(part) / whole) if whole else 0.0

    assert row.block_references == sum(blocks for blocks, _, _ in kept)
    assert row.skipped == len(cells) - len(kept)
    assert row.block_hit == pytest.approx(ratio(sum(hit for _, hit, _ in kept), row.block_references))
    assert row.token_hit == pytest.approx(
        ratio(sum(min(hit * block_tokens, tokens) for _, hit, tokens in kept), sum(tokens for _, _, tokens in kept))
    )
    saved = sum(cost(hit * block_tokens, p_star) for _, hit, _ in kept)
    assert row.cost_saved == pytest.approx(
        ratio(saved, sum(cost(blocks * block_tokens, p_star) for blocks, _, _ in kept)), rel=1e-12
    )
