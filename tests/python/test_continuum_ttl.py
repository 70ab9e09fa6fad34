"""What each rule for the TTL decides on known laws of gaps, and that the published ones are followed exactly."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import ArrayLike, NDArray

from gap_laws import exponential, fine, lognormal
from kvopt.continuum import Question, ReturnCurve, make_ttl_rule
from kvopt.continuum.paper_samples import DurationSample, PaperSamples
from kvopt.continuum.ttl import best_hold_ttl, best_paper_ttl, net_value
from kvopt.errors import ConfigError

Law = Callable[[NDArray[np.float64]], ArrayLike]
NEVER = math.inf
FINE_MEDIAN_1 = fine(lognormal(1, 1))


# Benefit in s, law, the paper's TTL and net value, the rightly billed TTL and net value (seconds).
@pytest.mark.parametrize(
    ("benefit", "law", "paper_ttl", "paper_net", "hold_ttl", "hold_net"),
    [
        pytest.param(3, lognormal(1, 1), 1.2, 0.85, 7.0, 1.38, id="3 s, lognormal 1 s, 1"),
        pytest.param(3, lognormal(0.2, 1.5), 0.6, 2.03, 5.0, 2.42, id="3 s, lognormal 0.2 s, 1.5"),
        pytest.param(3, lognormal(1, 2), 0.6, 0.74, 1.3, 0.85, id="3 s, lognormal 1 s, 2"),
        pytest.param(3, lognormal(1, 0.3), 1.5, 1.73, NEVER, 1.95, id="3 s, lognormal 1 s, 0.3"),
        pytest.param(3, exponential(1), 1.1, 1.33, NEVER, 2.00, id="3 s, exponential 1 s"),
        pytest.param(3, lognormal(4, 1), 0.0, 0.00, 0.0, 0.00, id="3 s, lognormal 4 s, 1"),
        pytest.param(10, lognormal(1, 1), 2.6, 7.04, 39.1, 8.35, id="10 s, lognormal 1 s, 1"),
        pytest.param(10, lognormal(0.2, 1.5), 1.3, 8.52, 22.9, 9.39, id="10 s, lognormal 0.2 s, 1.5"),
        pytest.param(10, lognormal(1, 2), 1.9, 5.20, 7.7, 6.07, id="10 s, lognormal 1 s, 2"),
        pytest.param(10, lognormal(1, 0.3), 1.8, 8.73, NEVER, 8.95, id="10 s, lognormal 1 s, 0.3"),
        pytest.param(10, exponential(1), 2.3, 8.10, NEVER, 9.00, id="10 s, exponential 1 s"),
        pytest.param(10, lognormal(4, 1), 4.0, 1.95, 20.6, 3.58, id="10 s, lognormal 4 s, 1"),
    ],
)
def test_billing_the_time_really_held_beats_the_papers_bill(
    benefit: float, law: Law, paper_ttl: float, paper_net: float, hold_ttl: float, hold_net: float
) -> None:
    curve = fine(law)
    paper, hold = best_paper_ttl(curve, benefit), best_hold_ttl(curve, benefit)
    assert paper == pytest.approx(paper_ttl, abs=0.05)
    assert net_value(curve, paper, benefit) == pytest.approx(paper_net, abs=0.006)
    # A hold that hardly anybody outlasts is one until the session is back.
    assert hold == pytest.approx(hold_ttl, abs=0.06)
    assert net_value(curve, min(hold, 1e4), benefit) == pytest.approx(hold_net, abs=0.006)


def test_the_paper_rule_finds_the_same_ttl_from_samples() -> None:
    rule = make_ttl_rule("paper")
    for p in (np.arange(1000) + 0.5) / 1000:
        rule.on_gap("tool", FINE_MEDIAN_1.quantile(float(p)))
    decision = rule.decide(Question(FINE_MEDIAN_1, loss=3.0, tool="tool"))
    assert decision.ttl == pytest.approx(1.18, rel=0.02)


@pytest.mark.parametrize("rule", ["index", "expected-hold"])
def test_a_rule_on_learned_bins_loses_little_against_the_law_itself(rule: str) -> None:
    for law in (lognormal(1, 1), lognormal(0.2, 1.5), lognormal(4, 1)):
        ttl = make_ttl_rule(rule).decide(Question(ReturnCurve.of_law(law), loss=10.0)).ttl
        best = net_value(fine(law), best_hold_ttl(fine(law), 10.0), 10.0)
        assert net_value(fine(law), ttl, 10.0) >= 0.99 * best


@settings(deadline=None)
@given(
    mean=st.floats(0.01, 1000.0),
    loss=st.floats(0.01, 100.0),
    blocks=st.integers(1, 10_000),
    price=st.floats(1e-6, 100.0),
    age=st.floats(0.0, 100.0),
)
def test_memoryless_gaps_are_held_for_ever_or_not_at_all(
    mean: float, loss: float, blocks: int, price: float, age: float
) -> None:
    index = loss / (mean * blocks)
    if abs(index / price - 1.0) < 1e-3:  # equal but for rounding
        return
    curve = ReturnCurve.of_law(exponential(mean))
    age = min(age, 5.0 * mean)
    decision = make_ttl_rule("index").decide(Question(curve, loss, age=age, blocks=blocks, price=price))
    assert decision.value == pytest.approx(index, rel=1e-6)
    assert decision.keep == (index > price)
    assert decision.ttl == (math.inf if index > price else 0.0)


@pytest.mark.parametrize("sigma", [0.5, 1.0, 2.0])
def test_index_is_the_best_slope_and_falls_below_the_price_where_the_best_hold_ends(sigma: float) -> None:
    curve = ReturnCurve.of_law(lognormal(2.0, sigma))
    loss, price = 5.0, 0.7
    ttl = make_ttl_rule("index").decide(Question(curve, loss, price=price)).ttl
    for i, age in enumerate(curve.edges[:-1].tolist()):
        if curve.survival[i] < 1e-6:
            break
        slopes = [
            (curve.returned[j] - curve.returned[i]) / (curve.held[j] - curve.held[i])
            for j in range(i + 1, len(curve.edges))
            if curve.held[j] > curve.held[i]
        ]
        assert curve.index_at(age) == pytest.approx(max(slopes), rel=1e-9)
        if age <= ttl * (1.0 - 1e-9):
            assert loss * curve.index_at(age) >= price * (1.0 - 1e-9)
        if age >= ttl * (1.0 + 1e-9):
            assert loss * curve.index_at(age) <= price * (1.0 + 1e-9)


def test_slack_memory_costs_nothing_so_all_is_held() -> None:
    decision = make_ttl_rule("index").decide(Question(FINE_MEDIAN_1, loss=0.001, price=0.0))
    assert (decision.keep, decision.ttl) == (True, math.inf)
    assert "slack" in decision.reasons[0]


def test_what_costs_nothing_to_lose_is_not_held() -> None:
    assert not make_ttl_rule("index").decide(Question(FINE_MEDIAN_1, loss=0.0)).keep
    assert not make_ttl_rule("expected-hold").decide(Question(FINE_MEDIAN_1, loss=0.0)).keep


def test_a_loss_that_delays_many_makes_holding_pay() -> None:
    """What an idle session keeps from all others, and what its prefill would, are charged alike."""
    question = Question(FINE_MEDIAN_1, loss=0.5, blocks=20, price=0.1)
    rule = make_ttl_rule("index")
    assert not rule.decide(question).keep
    assert rule.decide(question._replace(delayed=20.0)).keep
    ttl = rule.decide(question._replace(delayed=20.0, price=0.4)).ttl
    assert ttl == rule.decide(question._replace(delayed=5.0)).ttl  # only their ratio matters


def test_more_queueing_makes_holding_pay() -> None:
    question = Question(ReturnCurve.of_law(lognormal(4, 1)), loss=3.0)
    rule = make_ttl_rule("index")
    assert not rule.decide(question).keep
    assert rule.decide(question._replace(queueing=7.0)).ttl == pytest.approx(20.6, rel=0.15)


def test_decisions_carry_their_reasons_and_numbers() -> None:
    for name in ("index", "expected-hold", "paper", "fixed", "infercept"):
        decision = make_ttl_rule(name).decide(Question(FINE_MEDIAN_1, loss=2.0, queueing=1.0, blocks=4, price=0.5))
        assert decision.reasons
        assert all(decision.reasons)
        assert decision.numbers | {"loss": 2.0, "queueing": 1.0, "blocks": 4.0, "price": 0.5} == decision.numbers


class TestPaper:
    @pytest.mark.parametrize(("loss", "ttl"), [(0.5, 0.0), (1.0, 0.0), (3.0, math.log(3.0)), (10.0, math.log(10.0))])
    def test_cold_start_is_the_closed_form_of_an_exponential_gap(self, loss: float, ttl: float) -> None:
        assert make_ttl_rule("paper").decide(Question(FINE_MEDIAN_1, loss)).ttl == pytest.approx(ttl)

    def test_a_hundred_samples_are_cold_and_one_more_is_not(self) -> None:
        rule = make_ttl_rule("paper")
        question = Question(FINE_MEDIAN_1, 3.0, tool="a")
        for _ in range(100):
            rule.on_gap("a", 0.25)
        assert rule.decide(question).ttl == pytest.approx(math.log(3.0))
        rule.on_gap("a", 0.25)
        assert rule.decide(question).ttl == 0.25

    def test_a_tool_with_a_hundred_samples_uses_those_of_all_tools(self) -> None:
        rule = make_ttl_rule("paper")
        for _ in range(100):
            rule.on_gap("slow", 2.0)
        for _ in range(900):
            rule.on_gap("quick", 0.25)
        question = Question(FINE_MEDIAN_1, 10.0, tool="slow")
        # Of all: 0.9 x 10 - 0.25 = 8.75 against 10 - 2 = 8. Of its own: 2 seconds, since nothing is quicker.
        assert rule.decide(question).ttl == 0.25
        rule.on_gap("slow", 2.0)
        assert rule.decide(question).ttl == 2.0

    def test_the_wait_of_evicted_requests_raises_the_benefit_by_eta(self) -> None:
        rule = make_ttl_rule("paper")
        for seconds in np.linspace(0.01, 4.0, 200):
            rule.on_gap("a", float(seconds))
        question = Question(FINE_MEDIAN_1, 1.0, tool="a")
        assert rule.decide(question).numbers["benefit"] == 1.0
        rule.on_wait(6.0)
        rule.on_wait(8.0)
        decision = rule.decide(question)
        assert (decision.numbers["wait"], decision.numbers["eta"], decision.numbers["benefit"]) == (7.0, 1.0, 8.0)
        assert decision.ttl == pytest.approx(4.0)

    def test_eta_is_one_for_one_length_and_zero_for_memoryless_programs(self) -> None:
        samples = PaperSamples()
        for _ in range(10):
            samples.on_program(7)
            assert samples.eta == 1.0
        samples = PaperSamples()
        for length in np.random.default_rng(1).geometric(0.1, 20_000).tolist():
            samples.on_program(length)
        assert samples.eta == pytest.approx(0.0, abs=0.03)

    def test_eta_is_minus_the_correlation_of_served_and_remaining_requests(self) -> None:
        samples, pairs = PaperSamples(), []
        for length in (1, 4, 4, 9, 2):
            samples.on_program(length)
            pairs += [(k, length - k) for k in range(1, length + 1)]
        served, remaining = np.array(pairs).T
        assert samples.eta == pytest.approx(-np.corrcoef(served, remaining)[0, 1])

    @settings(deadline=None)
    @given(st.lists(st.floats(0.0, 100.0), min_size=1, max_size=60), st.floats(0.1, 50.0))
    def test_the_best_ttl_is_that_of_the_formula_over_the_last_samples(
        self, durations: list[float], benefit: float
    ) -> None:
        sample = DurationSample(window=20)
        for seconds in durations:
            sample.add(seconds)
        kept = durations[-20:]
        values = {0.0: 0.0} | {tau: sum(d <= tau for d in kept) / len(kept) * benefit - tau for tau in kept}
        ttl, value = sample.best_ttl(benefit)
        assert value == pytest.approx(max(values.values()), abs=1e-9)
        assert values[ttl] == pytest.approx(value, abs=1e-9)


class TestFixed:
    def test_two_seconds_for_a_tool_and_nothing_without_one(self) -> None:
        rule = make_ttl_rule("fixed")
        assert rule.decide(Question(FINE_MEDIAN_1, 1.0, tool="unknown")).ttl == 2.0
        assert not rule.decide(Question(FINE_MEDIAN_1, 1.0)).keep
        assert rule.decide(Question(FINE_MEDIAN_1, 1.0, tool="unknown", age=1.5)).ttl == 0.5

    def test_none_for_a_tool_that_takes_longer_on_average(self) -> None:
        rule = make_ttl_rule("fixed")
        rule.on_gap("a", 1.0)
        rule.on_gap("a", 3.0)
        assert rule.decide(Question(FINE_MEDIAN_1, 1.0, tool="a")).ttl == 2.0
        rule.on_gap("a", 2.2)
        assert not rule.decide(Question(FINE_MEDIAN_1, 1.0, tool="a")).keep

    def test_every_turn_when_asked(self) -> None:
        assert make_ttl_rule("fixed:seconds=5,every=1").decide(Question(FINE_MEDIAN_1, 1.0)).ttl == 5.0


def test_infercept_holds_until_the_memory_held_equals_the_waste_of_a_discard() -> None:
    rule = make_ttl_rule("infercept")
    # 4 s of prefill on 10 blocks while 30 others wait: 4 x (1/2 + 30/10) = 14 s of its own memory.
    question = Question(FINE_MEDIAN_1, 4.0, blocks=10, others=30.0)
    assert rule.decide(question).ttl == pytest.approx(14.0)
    assert rule.decide(question._replace(age=13.0)).ttl == pytest.approx(1.0)
    assert not rule.decide(question._replace(age=14.0)).keep
    assert rule.decide(question._replace(expected_gap=14.0)).keep
    assert not rule.decide(question._replace(expected_gap=14.1)).keep


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ("indx", "unknown TTL rule 'indx': did you mean 'index'"),
        ("fixed:second=2", "unknown option 'second'; it takes seconds, every"),
        ("fixed:seconds=two", "seconds is 'two'; it must be a number"),
        ("fixed:seconds=nan", "seconds: nan; it must be 0 to 1,000,000"),
        ("fixed:seconds=-1", "seconds: -1.0; it must be 0"),
        ("fixed:every=2", "every: 2.0; it must be 0 or 1"),
        ("paper:window=100", "window: 100.0; it must be above 100"),
        ("index:x=1", "unknown option 'x'; it takes none"),
    ],
)
def test_a_bad_rule_is_refused_by_name(spec: str, message: str) -> None:
    with pytest.raises(ConfigError, match=message.replace("(", r"\(")):
        make_ttl_rule(spec)
