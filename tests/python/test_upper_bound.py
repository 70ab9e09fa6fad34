from __future__ import annotations

import itertools
import json
import random
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from kvopt import _core
from kvopt.cost import prefill_cost
from kvopt.errors import ConfigError
from kvopt.simulator import replay, upper_bound, upper_bound_at
from kvopt.simulator.upper_bound import METRICS, Metric
from kvopt.workload import Trace, read_trace
from made_traces import SMALL_TRACE, make_trace

P_STAR = 700.0  # so small that depth matters on short paths
BLOCK_TOKENS = 512


def small_instance(seed: int) -> tuple[Trace, list[list[int]], int]:
    """A trace of a few overlapping paths of a small tree, the paths, and a capacity that is scarce."""
    draw = random.Random(seed)
    paths: list[list[int]] = []
    for _ in range(draw.randint(3, 8)):
        length = draw.randint(1, 4)
        paths.append([10 * depth + draw.randint(0, 1 if depth else draw.randint(0, 2)) for depth in range(length)])
    # A node is known by its whole path, as in a trace.
    nodes = [[hash(tuple(path[: i + 1])) for i in range(len(path))] for path in paths]
    trace = make_trace([(1000.0 * i, BLOCK_TOKENS * len(path), path) for i, path in enumerate(paths)], BLOCK_TOKENS)
    return trace, nodes, draw.randint(2, 6)


def best_of_all(paths: Sequence[Sequence[int]], capacity: int, metric: Metric, *, bypass: bool) -> float:
    """The share that the best choice of what to keep reaches, by trying every content of the cache."""

    def worth(blocks: int) -> float:
        return float(prefill_cost(blocks * BLOCK_TOKENS, P_STAR)) if metric == "cost_saved" else blocks

    best = {frozenset[int](): 0.0}
    total = 0.0
    for path in paths:
        if len(path) >= capacity:
            continue
        total += worth(len(path))
        following: dict[frozenset[int], float] = {}
        for cached, gained in best.items():
            hit = next((i for i, node in enumerate(path) if node not in cached), len(path))
            value = gained + worth(hit)
            own = frozenset(path)
            choices, fixed = (cached | own, frozenset[int]()) if bypass else (cached - own, own)
            room = min(len(choices), capacity - len(fixed))
            for kept in itertools.combinations(sorted(choices), room):
                content = fixed | frozenset(kept)
                following[content] = max(value, following.get(content, 0.0))
        best = following
    return max(best.values()) / total if total else 0.0


@pytest.mark.parametrize("bypass", [False, True])
@pytest.mark.parametrize("metric", METRICS)
def test_no_choice_of_what_to_keep_is_above_the_bound(metric: Metric, bypass: bool) -> None:
    """On 200 small instances: at the prices found, at prices of wider windows, and at any prices at all."""
    optimum = "min-bypass" if bypass else "min"
    tight = 0
    for seed in range(200):
        trace, paths, capacity = small_instance(seed)
        exact = best_of_all(paths, capacity, metric, bypass=bypass)
        row = getattr(replay(trace, optimum, capacity, p_star=P_STAR).rows[0], metric)
        assert row <= exact + 1e-12
        for window in (1, 3):
            found = upper_bound(trace, capacity, metric, bypass=bypass, window=window, p_star=P_STAR).rows[0]
            assert exact <= found.bound <= found.uniform_bound
            if window == 1:
                tight += found.bound <= exact * (1 + 1e-3)
        numbers = np.random.default_rng(seed)
        for scale in (0.01, 0.3, 3.0, 1000.0):
            prices = scale * numbers.exponential(size=trace.requests) * (numbers.random(trace.requests) < 0.7)
            assert exact <= upper_bound_at(trace, prices, capacity, metric, bypass=bypass, p_star=P_STAR)
    assert tight > 150


def test_the_brute_force_finds_what_is_counted_by_hand() -> None:
    """Three blocks are kept over a request of two only where its own need no place."""
    paths = [[1], [2], [3], [4, 5], [1], [2], [3]]
    assert best_of_all(paths, 3, "block_hit", bypass=False) == 1 / 8
    assert best_of_all(paths, 3, "block_hit", bypass=True) == 3 / 8
    trace = make_trace([(1000.0 * i, 512 * len(path), path) for i, path in enumerate(paths)])
    assert upper_bound(trace, 3).rows[0].bound == 1 / 8
    assert upper_bound(trace, 3, bypass=True).rows[0].bound == 3 / 8


@pytest.mark.parametrize("metric", METRICS)
def test_more_steps_never_prove_less(metric: Metric) -> None:
    draw = random.Random(5)
    requests = []
    for i in range(400):
        session = draw.randint(0, 20)
        length = draw.randint(1, 12)
        requests.append((1000.0 * i, 512 * length, [1000 * session + depth for depth in range(length)]))
    trace = make_trace(requests)
    rows = [upper_bound(trace, 40, metric, steps=steps).rows[0] for steps in (0, 1, 5, 20, 50, 100, 300, 1000)]
    bounds = [row.bound for row in rows]
    assert bounds == sorted(bounds, reverse=True)
    assert bounds[0] == rows[0].uniform_bound
    assert bounds[-1] < 0.95 * bounds[0]
    assert rows[-1].steps < 1000  # it stopped by itself
    assert bounds[-1] >= getattr(replay(trace, "min", 40).rows[0], metric)


def test_its_prices_prove_it() -> None:
    trace, _, capacity = small_instance(3)
    found = _core.upper_bound(trace.prefix, capacity, "cost_saved", block_tokens=512)
    again = _core.upper_bound_at(trace.prefix, found.prices, capacity, "cost_saved", block_tokens=512)
    assert found.prices.shape == (trace.requests,)
    assert again.value == found.value
    assert again.total == found.total


def test_memory_that_holds_everything_hits_all_but_the_first_uses() -> None:
    trace = make_trace(SMALL_TRACE)
    (row,) = upper_bound(trace, 100).rows
    assert (row.bound, row.uniform_bound, row.steps, row.skipped) == (7 / 19, 7 / 19, 0, 0)
    assert upper_bound_at(trace, np.zeros(trace.requests), 100) == 7 / 19


def test_requests_that_do_not_fit_are_left_out() -> None:
    trace = make_trace(SMALL_TRACE)
    (row,) = upper_bound(trace, 4).rows
    assert (row.requests, row.skipped) == (7, 1)
    assert row.bound == 6 / 13
    (nothing,) = upper_bound(trace, 1).rows
    assert (nothing.skipped, nothing.bound) == (7, 0.0)
    empty = _core.PrefixTrace([], [], [])
    assert _core.upper_bound(empty, 10).value == _core.upper_bound_at(empty, np.zeros(0), 10).value == 0.0


def test_rows_and_files(tmp_path: Path) -> None:
    trace = make_trace(SMALL_TRACE)
    result = upper_bound(trace, [100, 4], ["cost_saved", "block_hit"], p_star=P_STAR)
    assert [(row.capacity, row.metric) for row in result.rows] == [
        (100, "cost_saved"),
        (100, "block_hit"),
        (4, "cost_saved"),
        (4, "block_hit"),
    ]
    assert result.row("block_hit", 4).bound == 6 / 13
    with pytest.raises(ConfigError, match="no bound of 'block_hit' at capacity 5"):
        result.row("block_hit", 5)
    result.write_json(tmp_path / "bounds.json")
    result.write_csv(tmp_path / "bounds.csv")
    document = json.loads((tmp_path / "bounds.json").read_text())
    assert document["trace"]["p_star"] == P_STAR
    assert document["bounds"][3]["bound"] == 6 / 13
    assert len((tmp_path / "bounds.csv").read_text().splitlines()) == 5


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"capacities": 0}, "capacity: 0 is not from 1"),
        ({"capacities": []}, "capacities: empty"),
        ({"metric": "token_hit"}, "metric: 'token_hit' is not 'block_hit' or 'cost_saved'"),
        ({"metric": []}, "metric: empty"),
        ({"window": 0}, "window: 0 is not a whole number from 1"),
        ({"steps": -1}, "steps: -1 is not a whole number from 0"),
        ({"steps": 1.5}, "steps: 1.5 is not a whole number"),
        ({"p_star": 0}, "p_star"),
        ({"threads": 0}, "threads"),
    ],
)
def test_bad_arguments_are_refused(arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        upper_bound(make_trace(SMALL_TRACE), **({"capacities": 4} | arguments))


@pytest.mark.parametrize(
    ("prices", "message"),
    [
        ([0.0] * 6, "6 prices for 7 requests"),
        ([0.0] * 6 + [-1.0], r"prices\[6\] is -1"),
        ([float("nan")] + [0.0] * 6, r"prices\[0\] is nan"),
        ([[0.0] * 7], "2 dimensions"),
    ],
)
def test_bad_prices_are_refused(prices: list[Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        upper_bound_at(make_trace(SMALL_TRACE), prices, 4)


FILES = {"mooncake-conversation": "mooncake-conversation.jsonl.gz", "agentic-400": "agentic-400.tar.xz"}


@pytest.fixture(scope="module", params=sorted(FILES))
def case(request: pytest.FixtureRequest, shared_dir: Path) -> tuple[str, Trace, dict[str, Any]]:
    name: str = request.param
    reference = json.loads((shared_dir / "reference" / "replay.json").read_text())["prefix_rule"][name]
    return name, read_trace(shared_dir / "traces" / FILES[name]), reference


@pytest.mark.slow
def test_real_traces_meet_the_reference(case: tuple[str, Trace, dict[str, Any]]) -> None:
    """Not above windowed prices found elsewhere by more than 0.5 %, not below what `min` reaches."""
    name, trace, reference = case
    capacities = reference["capacity"]
    bounds = upper_bound(trace, capacities, METRICS)
    optimum = replay(trace, "min", capacities)
    for metric, kind in itertools.product(METRICS, ("uniform", "windowed")):
        published = reference.get(f"upper_bound_{kind}_price_{metric}", [])
        for capacity, value in zip(capacities, published, strict=False):
            row = bounds.row(metric, capacity)
            assert (row.bound if kind == "windowed" else row.uniform_bound) <= value * 1.005
    for row in bounds.rows:
        assert row.bound >= getattr(optimum.row("min", row.capacity), row.metric)
        if row.metric == "block_hit":  # of which min is the true optimum
            assert row.bound <= optimum.row("min", row.capacity).block_hit * 1.005
    if name == "mooncake-conversation":
        for capacity in (1000, 5000):
            reached = replay(trace, "min-bypass", capacity).rows[0].block_hit
            assert reached <= upper_bound(trace, capacity, bypass=True).rows[0].bound <= 1.02 * reached
