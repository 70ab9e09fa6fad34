"""Regimes of results made by hand, and LRU's curve against replays."""

from __future__ import annotations

import math

import numpy as np
import pytest

from kvopt.errors import ConfigError
from kvopt.simulator import LruCurve, Regime, ReplayResult, regime_report, replay
from kvopt.simulator.regime import SLACK
from kvopt.workload import CodingAgents, Trace
from made_results import MadeCurve, UnknownCurve, made_bounds, made_result

CURVE = MadeCurve(slope=0.001, most=0.8)  # lru saves 0.1 with 100 blocks, 0.8 with 800 or more


def only(result: ReplayResult, curve: MadeCurve = CURVE, **options: object) -> Regime:
    (regime,) = regime_report(result, curve, **options).regimes  # type: ignore[arg-type]
    return regime


def test_shares_of_the_gap_to_the_optimum_and_to_the_bound() -> None:
    result = made_result({100: {"lru": 0.10, "lfu": 0.05, "lhd": 0.25, "min": 0.40, "min-bypass": 0.45}})
    regime = only(result, bounds=made_bounds({100: 0.70}))
    assert {s.policy: s.gap_closed for s in regime.policies} == pytest.approx(
        {"lru": 0, "lfu": -1 / 6, "lhd": 0.5, "min": 1, "min-bypass": 35 / 30}
    )
    assert regime.standing("lhd").bound_closed == pytest.approx(0.25)
    assert regime.standing("lfu").over_lru == pytest.approx(-0.05)
    assert [s.policy for s in regime.policies if s.offline] == ["min", "min-bypass"]
    assert (regime.lru, regime.optimum, regime.bound, regime.unlimited) == (0.10, 0.40, 0.70, 0.8)


@pytest.mark.parametrize(
    ("saved", "best"),
    [
        ({"lru": 0.30, "fifo": 0.3004, "min": 0.4}, "lru"),  # a difference that does not show
        ({"lru": 0.30, "fifo": 0.3006, "min": 0.4}, "fifo"),
        ({"lru": 0.30, "fifo": 0.3006, "min": 0.9}, "lru"),  # a share of the gap that does not show
        ({"lru": 0.10, "fifo": 0.1, "min": 0.8, "min-bypass": 0.9}, "lru"),  # offline is never the best online
        ({"lru": 0.10, "lfu:x=1": 0.2, "lhd": 0.15}, "lfu:x=1"),  # without min
        ({"min": 0.4}, "lru"),
    ],
)
def test_the_best_online_policy(saved: dict[str, float], best: str) -> None:
    assert only(made_result({100: saved}), MadeCurve(0.003, 0.95)).best == best


@pytest.mark.parametrize(
    ("best", "predictability"), [(0.26, "predictable"), (0.24, "partly"), (0.17, "partly"), (0.15, "hardly")]
)
def test_reuse_is_as_predictable_as_the_best_online_policy_shows(best: float, predictability: str) -> None:
    regime = only(made_result({100: {"lru": 0.10, "lhd": best, "lfu": 0.0, "min": 0.40}}))
    assert regime.predictability == predictability


@pytest.mark.parametrize(
    "saved", [{"lru": 0.1, "min": 0.4}, {"lru": 0.1, "lfu": 0.2}, {"lru": 0.1, "lfu": 0.1, "min": 0.1}]
)
def test_without_a_gap_or_another_policy_nothing_is_said_of_reuse(saved: dict[str, float]) -> None:
    assert only(made_result({100: saved})).predictability is None


def test_what_more_memory_brings() -> None:
    saved = {100: {"lru": 0.1, "lhd": 0.2, "min": 0.4}, 200: {"lru": 0.2, "lhd": 0.4, "min": 0.5}}
    first, last = regime_report(made_result(saved), CURVE, more_blocks=50).regimes
    assert first.more_lru == pytest.approx(0.05)
    assert first.more_best == pytest.approx(0.2 * math.log(1.5, 2))
    assert first.as_lru_with == 200
    assert last.more_lru == pytest.approx(0.05)
    assert last.more_best is None


def test_a_tenth_more_blocks_where_the_size_of_a_block_is_unknown() -> None:
    report = regime_report(made_result({1: {"lru": 0.1}, 204: {"lru": 0.2}}), CURVE)
    assert [regime.more_blocks for regime in report.regimes] == [1, 20]


def test_more_memory_across_several_capacities() -> None:
    saved = {capacity: {"lru": 0.1, "lhd": share} for capacity, share in ((100, 0.2), (150, 0.3), (400, 0.5))}
    regime = regime_report(made_result(saved), CURVE, more_blocks=150).regimes[0]
    assert regime.more_best == pytest.approx(0.1 + 0.2 * math.log(250 / 150) / math.log(400 / 150))


def test_no_interpolation_between_rows_of_other_requests() -> None:
    small = made_result({100: {"lru": 0.1, "lhd": 0.2}}, skipped=3)
    large = made_result({200: {"lru": 0.2, "lhd": 0.4}})
    result = ReplayResult(small.trace, small.rows + large.rows)
    assert regime_report(result, CURVE).regimes[0].more_best is None


def test_memory_is_slack_where_lru_is_as_good_as_without_limit() -> None:
    slack = [only(made_result({100: {"lru": share}})).slack for share in (0.794, 0.796, 0.8)]
    assert slack == [False, True, True]
    assert regime_report(made_result({100: {"lru": 0.1}}), CURVE).slack_from == 795


def test_lru_is_taken_from_its_curve_where_it_was_not_replayed() -> None:
    regime = only(made_result({100: {"lhd": 0.25, "min": 0.40}}))
    assert regime.lru == pytest.approx(0.1)
    assert regime.standing("lhd").gap_closed == pytest.approx(0.5)


def test_the_flat_rule_compares_hits_and_interpolates_lru() -> None:
    result = made_result({100: {"lru": 0.1, "min": 0.3}, 200: {"lru": 0.2, "min": 0.5}}, flat=True)
    report = regime_report(result, UnknownCurve(0.001, 0.8))
    assert (report.metric, report.slack_from) == ("block_hit", None)
    assert report.regimes[0].more_lru == pytest.approx(0.1 * math.log(1.1, 2))
    assert report.regimes[1].more_lru is None


def test_bounds_that_lack_a_capacity_are_refused() -> None:
    with pytest.raises(ConfigError, match="no bound of 'cost_saved' at capacity 100"):
        regime_report(made_result({100: {"lru": 0.1}}), CURVE, bounds=made_bounds({200: 0.5}))


@pytest.fixture(scope="module")
def agents() -> Trace:
    return CodingAgents(sessions=12).load()


def test_the_curve_is_lru_at_every_capacity(agents: Trace) -> None:
    """Also where some requests do not fit, when their share must be over the requests that do."""
    longest = agents.prefix.longest_request
    curve = LruCurve(agents)
    for row in replay(agents, "lru", [longest // 2, longest, longest + 1, 2 * longest]).rows:
        assert curve.worth(row.capacity, row.capacity) == pytest.approx(row.cost_saved), row.capacity
    small, large = (curve.worth(longest // 2, longest // 2), curve.worth(2 * longest, longest // 2))
    assert small is not None
    assert large is not None
    assert small < large <= curve.unlimited(longest // 2)


def test_the_curve_finds_the_least_capacity(agents: Trace) -> None:
    longest = agents.prefix.longest_request
    curve = LruCurve(agents)
    wanted = curve.worth(3 * longest, 3 * longest)
    assert wanted is not None
    found = curve.reaching(wanted, longest + 1, 3 * longest)
    assert found is not None
    assert found <= 3 * longest
    below = curve.worth(found - 1, 3 * longest)
    assert below is not None
    assert below < wanted
    assert curve.reaching(1.1, 10, 10) is None


def test_without_limit_every_repeated_block_is_hit(agents: Trace) -> None:
    enough = agents.unique_blocks + agents.prefix.longest_request + 1
    row = replay(agents, "lru", enough).rows[0]
    assert row.evictions == 0
    assert LruCurve(agents).unlimited(enough) == pytest.approx(row.cost_saved)
    assert LruCurve(agents, rule="flat").unlimited(enough) == pytest.approx(row.block_hit)
    slack = LruCurve(agents).slack_from(SLACK)
    assert slack is not None
    assert replay(agents, "lru", slack).rows[0].cost_saved >= row.cost_saved - SLACK


def test_the_report_is_plain_values(agents: Trace) -> None:
    capacity = 2 * agents.prefix.longest_request
    result = replay(agents, ["lru", "min"], [capacity])
    report = regime_report(result, LruCurve(agents)).to_dict()
    assert report["metric"] == "cost_saved"
    assert report["slack_within"] == SLACK
    (regime,) = report["regimes"]
    assert [standing["policy"] for standing in regime["policies"]] == ["lru", "min"]
    assert regime["capacity"] == capacity
    assert np.isfinite(regime["more_lru"])
