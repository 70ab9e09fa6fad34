"""Histories of gaps: censoring, what thin ones borrow, forgetting, bounds, and the laws that come out."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from gap_laws import exponential, lognormal
from kvopt.continuum import GapHistory, ReturnCurve
from kvopt.continuum.curve import EDGES, bin_of
from kvopt.continuum.open_gaps import OpenGaps
from kvopt.errors import ConfigError

TOOL = ("tool_use", "bash")
QUANTILES = {0.1: -1.2816, 0.25: -0.6745, 0.5: 0.0, 0.75: 0.6745, 0.9: 1.2816}
"""Of a standard normal distribution."""


def lognormal_gaps(n: int, seed: int, sigma: float = 1.0) -> NDArray[np.float64]:
    """With a median of 1 s."""
    return np.exp(np.random.default_rng(seed).normal(0.0, sigma, n))


@pytest.mark.parametrize("sigma", [0.5, 1.0, 2.0])
@pytest.mark.parametrize("seed", [1, 2, 3])
def test_quantiles_hold_when_half_of_the_gaps_are_cut_at_the_median(sigma: float, seed: int) -> None:
    gaps = lognormal_gaps(40_000, seed, sigma)
    cut = np.random.default_rng(seed + 100).random(len(gaps)) < 0.5
    history = GapHistory(memory=1e6)
    for gap, is_cut in zip(gaps.tolist(), cut.tolist(), strict=True):
        history.record(TOOL, min(gap, 1.0) if is_cut else gap, returned=not (is_cut and gap > 1.0))
    naive = gaps[~(cut & (gaps > 1.0))]  # only the sessions that came back, as a list of samples would have them
    for p, score in QUANTILES.items():
        true = math.exp(sigma * score)
        assert history.quantile(TOOL, p, 0.0) == pytest.approx(true, rel=0.10)
    worst = max(abs(np.quantile(naive, p) / math.exp(sigma * score) - 1.0) for p, score in QUANTILES.items())
    assert worst > 0.10


def test_tools_that_still_run_count_as_long_as_they_have_run() -> None:
    """Half of all calls never end; only the others are ever seen to return."""
    history, waiting = GapHistory(memory=1e6), GapHistory(memory=1e6)
    for i in range(2000):
        began = i * 0.01
        for each in (history, waiting):
            each.begin(TOOL, began)
        if i % 2:
            history.end(TOOL, began, began + 1.0)
            waiting.end(TOOL, began, began + 1.0)
        else:
            waiting.end(TOOL, began, began, returned=False)  # as if what runs were not looked at
    now = 20.0 + 500.0
    assert history.running(TOOL) == 1000
    assert history.within(TOOL, 400.0, 0.0, now) == pytest.approx(0.5, abs=0.03)
    assert waiting.within(TOOL, 400.0, 0.0, now) > 0.95


def test_a_conditional_chance_is_that_of_the_law() -> None:
    history = GapHistory(memory=1e6)
    gaps = lognormal_gaps(30_000, 7)
    for gap in gaps.tolist():
        history.record(TOOL, gap)
    for age in (0.0, 0.5, 1.0, 3.0):
        for x in (0.3, 1.0, 5.0):
            left = gaps[gaps > age]
            assert history.within(TOOL, x, age, 0.0) == pytest.approx(float((left <= age + x).mean()), abs=0.02)


def test_a_thin_tool_borrows_from_its_class_and_leaves_it_as_it_is_seen() -> None:
    history = GapHistory(shrinkage=15.0)
    for _ in range(500):
        history.record(("tool_use", "usual"), 10.0)
    medians = []
    for seen in (0, 5, 15, 60, 400):
        while history.weight(("tool_use", "quick")) < seen:
            history.record(("tool_use", "quick"), 0.1)
        medians.append(history.within(("tool_use", "quick"), 1.0, 0.0, 0.0))
    assert medians[0] < 0.05  # as the class
    assert medians == sorted(medians)  # no switch at a count: each sample moves it
    assert medians[2] == pytest.approx(0.5, abs=0.1)  # as many gaps of its own as it borrows
    assert medians[-1] > 0.9


def test_an_unknown_class_is_answered_by_all_gaps() -> None:
    history = GapHistory()
    for _ in range(300):
        history.record(("end_turn",), 100.0)
    curve = history.curve(("never seen", "nor this"), 0.0)
    assert curve is history.curve((), 0.0)
    assert curve.quantile(0.5) == pytest.approx(100.0, rel=0.15)


def test_nothing_seen_gives_the_prior_which_is_the_same_at_all_scales() -> None:
    curve = GapHistory().curve(TOOL, 0.0)
    assert curve.within(1.0) == pytest.approx(0.25, abs=0.02)
    assert curve.within(100.0) == pytest.approx(0.75, abs=0.02)


def test_the_past_is_forgotten() -> None:
    history = GapHistory(memory=100.0)
    for _ in range(5000):
        history.record(TOOL, 100.0)
    for _ in range(1000):
        history.record(TOOL, 1.0)
    assert history.quantile(TOOL, 0.9, 0.0) == pytest.approx(1.0, rel=0.2)
    assert history.weight(TOOL) == pytest.approx(100.0, rel=0.05)


def test_parallel_tools_take_as_long_as_the_slowest() -> None:
    history = GapHistory(memory=1e6)
    for a, b in zip(lognormal_gaps(20_000, 1).tolist(), lognormal_gaps(20_000, 2).tolist(), strict=True):
        history.record(("tool_use", "a"), a)
        history.record(("tool_use", "b"), 3.0 * b)
    together = ("tool_use", "a+b")
    history.join(together, [("tool_use", "a"), ("tool_use", "b")])
    longest = np.maximum(lognormal_gaps(50_000, 3), 3.0 * lognormal_gaps(50_000, 4))
    for p in (0.1, 0.5, 0.9):
        assert history.quantile(together, p, 0.0) == pytest.approx(float(np.quantile(longest, p)), rel=0.08)
    for _ in range(2000):  # they wait for each other: slower than independent
        history.record(together, 50.0)
    assert history.quantile(together, 0.5, 0.0) == pytest.approx(50.0, rel=0.1)


def test_names_are_bounded_and_those_in_use_stay() -> None:
    history = GapHistory(nodes=50)
    for i in range(5000):
        history.record(("tool_use", f"made up {i}"), 1.0)
        history.record(TOOL, 1.0)
    assert len(history) <= 50
    assert history.weight(TOOL) > 1000.0
    assert history.weight(("tool_use", "made up 0")) == 0.0


def test_a_gap_whose_name_was_dropped_meanwhile_still_ends() -> None:
    history = GapHistory(nodes=8)
    history.begin(("tool_use", "old"), 0.0)
    for i in range(100):
        history.record(("tool_use", f"made up {i}"), 1.0)
    history.end(("tool_use", "old"), 0.0, 5.0)
    assert history.running(("tool_use", "old")) == 0
    assert history.running(()) == 0


@pytest.mark.parametrize("gap", [math.nan, -1.0])
def test_a_gap_that_is_none_is_refused_and_changes_nothing(gap: float) -> None:
    history = GapHistory()
    with pytest.raises(ConfigError, match="gap:"):
        history.record(TOOL, gap)
    assert history.weight(()) == 0.0


def test_a_gap_of_a_thousand_million_seconds_is_one_without_end() -> None:
    history = GapHistory()
    for _ in range(200):
        history.record(TOOL, 1e9)
    assert history.within(TOOL, 1e5, 0.0, 0.0) < 0.1


@pytest.mark.parametrize("options", [{"shrinkage": -1.0}, {"shrinkage": math.nan}, {"memory": 1.0}, {"nodes": 1}])
def test_bad_options_are_refused(options: dict[str, float]) -> None:
    (name,) = options
    with pytest.raises(ConfigError, match=name):
        GapHistory(**options)  # type: ignore[arg-type]


@settings(deadline=None)
@given(st.floats(0.0, 1e9))
def test_every_gap_has_its_bin(gap: float) -> None:
    i = bin_of(gap)
    assert EDGES[i] <= gap * (1.0 + 1e-9)
    assert gap < EDGES[i + 1] * (1.0 + 1e-9) or i == len(EDGES) - 2


@settings(deadline=None)
@given(st.lists(st.tuples(st.floats(0.0, 50.0), st.booleans()), max_size=400), st.integers(1, 6))
def test_running_gaps_are_counted_at_their_age(steps: list[tuple[float, bool]], patience: int) -> None:
    """Starts and ends in any order: the count is exact, every age to a tenth or an eighth of a second."""
    starts: list[float] = []
    gaps, now = OpenGaps(), 0.0
    for wait, ends in steps:
        now += wait if patience > 3 else wait / 50.0
        if ends and starts:
            gaps.end(starts.pop(len(starts) // 2))
        else:
            gaps.begin(now)
            starts.append(now)
    assert gaps.running == len(starts)
    ages, counts = gaps.ages(now)
    assert counts.sum() == len(starts)
    seen = np.repeat(ages, counts.astype(int))
    true = now - np.array(starts)
    assert np.all(np.abs(np.sort(seen) - np.sort(true)) <= 0.125 + 0.15 * np.sort(true))


def test_a_million_running_gaps_take_little_memory() -> None:
    gaps = OpenGaps()
    for i in range(200_000):
        gaps.begin(i * 0.5)
    ages, counts = gaps.ages(100_000.0)
    assert len(ages) < 400
    assert counts.sum() == 200_000
    assert float(ages @ counts) == pytest.approx(200_000 * 50_000.0, rel=0.06)


@pytest.mark.parametrize("law", [lognormal(1, 1), exponential(3.0), lognormal(30, 2)])
def test_a_curve_agrees_with_its_law_between_the_edges_too(law: object) -> None:
    assert callable(law)
    curve = ReturnCurve.of_law(law)
    points = np.geomspace(0.01, 1e4, 300)
    fine = np.linspace(0.0, 50.0, 200_001)
    survival = 1.0 - law(fine)
    held = np.concatenate([[0.0], np.cumsum((survival[1:] + survival[:-1]) / 2.0 * np.diff(fine))])
    for x, returned in zip(points.tolist(), law(points).tolist(), strict=True):
        assert 1.0 - curve.survival_at(x) == pytest.approx(returned, abs=0.003)
        if x < 50.0:
            assert curve.held_until(x) == pytest.approx(float(np.interp(x, fine, held)), rel=0.003)
    for p in (0.1, 0.5, 0.9):
        assert law(np.array([curve.quantile(p)]))[0] == pytest.approx(p, abs=0.003)


def test_a_stretched_curve_is_the_law_of_stretched_gaps() -> None:
    curve, stretched = ReturnCurve.of_law(lognormal(1, 1)), ReturnCurve.of_law(lognormal(1, 1)).scaled(60.0)
    assert stretched.quantile(0.5) == pytest.approx(60.0 * curve.quantile(0.5))
    assert stretched.held_until(120.0) == pytest.approx(60.0 * curve.held_until(2.0))
    assert stretched.index_at(60.0) == pytest.approx(curve.index_at(1.0) / 60.0)


def test_a_law_that_is_none_is_refused() -> None:
    with pytest.raises(ConfigError, match="cdf"):
        ReturnCurve.of_law(lambda x: -x)
    with pytest.raises(ConfigError, match=r"p: 1\.5"):
        ReturnCurve.of_law(exponential(1.0)).quantile(1.5)
