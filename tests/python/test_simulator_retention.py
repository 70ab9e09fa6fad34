"""Retention in the timed engine: leases give way, every request ends, and steps that are jumped over change nothing."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from kvopt.errors import ConfigError
from kvopt.policies import StopReason
from kvopt.simulator import LinearStepTime, simulate
from kvopt.simulator.retention import RetentionOptions, prefill_seconds
from kvopt.simulator.server import SimulationOptions
from kvopt.workload import CodingAgents
from served_traces import Sent, events, serve, served_trace

TIME = LinearStepTime(k0=100.0, k1=10.0, d1=1.0)
PINS = RetentionOptions("fixed:seconds=1e6,every=1", "always", 0.9)


def turn(time: float, session: int, number: int, blocks: int, answer: int = 1, gap: float = 0.0) -> Sent:
    """One turn of a session whose prompt is so many whole blocks and one token."""
    chain = [1000 * session + place for place in range(blocks)]
    columns = {"session": session, "turn": number, "stop": StopReason.TOOL_USE.value, "gap": gap}
    return Sent(time, 4 * blocks + 1, answer, chain, columns)


def hits(run: Any) -> dict[int, int]:
    """Tokens that each request hit when it was admitted first."""
    found: dict[int, int] = {}
    for _, what, request, amount in events(run):
        if what == "admitted":
            found.setdefault(request, amount)
    return found


def test_a_lease_keeps_blocks_that_are_the_oldest() -> None:
    trace = served_trace([turn(0.0, 1, 0, 3), turn(5.0, 2, 0, 3), turn(10.0, 3, 0, 4), turn(20.0, 1, 1, 3)])
    assert hits(serve(trace, 9, TIME))[3] == 4
    pins = RetentionOptions("fixed:seconds=1e6,every=1", "always", 0.9, last_turn=True)
    assert hits(serve(trace, 9, TIME, retention=pins))[3] == 12


@pytest.mark.parametrize(("new", "cached"), [(1, 0), (8192, 0), (100_000, 0), (30_000, 50_000), (12_000, 7)])
def test_a_loss_is_what_the_steps_that_compute_it_take(new: int, cached: int) -> None:
    model = LinearStepTime(k0=5.0, k1=0.03, k2=4e-5, k3=1e-6)
    steps = range(0, new, 8192)
    ms = sum(model.step_ms([(min(8192, new - done), cached + done)], 0, 0) for done in steps)
    assert prefill_seconds(model, new, cached, 8192) == pytest.approx(ms / 1000.0, rel=0.02)
    assert prefill_seconds(model, 0, cached, 8192) == 0.0


def test_a_lease_gives_way_where_that_lets_in_the_first_who_waits() -> None:
    trace = served_trace([turn(0.0, 1, 0, 5), turn(5.0, 2, 0, 6)])
    alone = serve(trace, 8, TIME)
    held = serve(trace, 8, TIME, retention=PINS)
    assert held.latency_s["queueing"].max == alone.latency_s["queueing"].max
    assert held.totals.preemptions == alone.totals.preemptions == 0


def test_a_lease_gives_way_before_a_running_request_is_preempted() -> None:
    trace = served_trace([turn(0.0, 1, 0, 4), turn(5.0, 2, 0, 3, answer=14)])
    run = serve(trace, 8, TIME, retention=PINS)
    assert run.totals.preemptions == 0
    assert run.totals.finished == 2


def test_what_a_last_turn_leaves_goes_first_though_it_is_newer() -> None:
    trace = served_trace([turn(0.0, 2, 0, 4), turn(5.0, 1, 0, 4), turn(20.0, 3, 0, 2), turn(30.0, 2, 1, 4)])
    told = RetentionOptions("index", "never", last_turn=True)
    assert hits(serve(trace, 9, TIME, policies="priority"))[3] == 8
    assert hits(serve(trace, 9, TIME, policies="priority", retention=told))[3] == 16


sent = st.builds(
    turn,
    time=st.integers(0, 40).map(lambda tenths: tenths / 10),
    session=st.integers(0, 4),
    number=st.just(0),
    blocks=st.integers(1, 6),
    answer=st.integers(1, 12),
    gap=st.integers(0, 20).map(lambda tenths: tenths / 10),
)


def sessions(turns: list[Sent]) -> list[Sent]:
    """The same with turns numbered within each session, in the order of time."""
    number: dict[int, int] = {}
    numbered = []
    for each in sorted(turns, key=lambda each: each.time):
        session = each.columns["session"]
        number[session] = number.get(session, -1) + 1
        numbered.append(
            Sent(each.time, each.prompt, each.answer, each.blocks, {**each.columns, "turn": number[session]})
        )
    return numbered


TAKES_BLOCKS_WHILE_IT_DECODES = [
    *(turn(0.0, 0, 0, 1) for _ in range(9)),
    turn(0.0, 2, 0, 1),
    turn(0.9, 4, 0, 1, answer=5),
    turn(1.0, 1, 0, 1, answer=10),
    turn(0.9, 4, 0, 1, gap=0.4),
    turn(1.0, 1, 0, 1),
]


@settings(deadline=None, max_examples=120)
@example(
    turns=TAKES_BLOCKS_WHILE_IT_DECODES,
    blocks=5,
    rule="fixed:seconds=1e6,every=1",
    leases="scarce",
    scheduler="continuum",
    policy="lru",
    patience=None,
    mode="closed",
    last_turn=False,
)
@given(
    turns=st.lists(sent, min_size=1, max_size=14),
    blocks=st.integers(2, 10),
    rule=st.sampled_from(["fixed:seconds=1e6,every=1", "index", "expected-hold", "paper", "infercept"]),
    leases=st.sampled_from(["always", "scarce"]),
    scheduler=st.sampled_from(["fifo", "continuum", "continuum:bound=1,ageing=0"]),
    policy=st.sampled_from(["lru", "priority", "cost-aware"]),
    patience=st.none() | st.integers(1, 60).map(lambda tenths: tenths / 20),
    mode=st.sampled_from(["open", "closed"]),
    last_turn=st.booleans(),
)
def test_every_request_finishes_is_refused_or_gives_up(
    turns: list[Sent],
    blocks: int,
    rule: str,
    leases: Any,
    scheduler: str,
    policy: str,
    patience: float | None,
    mode: str,
    last_turn: bool,
) -> None:
    """Leases at the budget, pools of a few blocks and clients that give up at every point: no stall, sound books.

    The engine itself raises when it stalls, when books do not balance, or when a block is held at the end.
    """
    retention = RetentionOptions(rule, leases, 0.9, last_turn)
    options: dict[str, Any] = {"schedulers": scheduler, "policies": policy, "patience": patience, "mode": mode}
    trace = served_trace(sessions(turns))
    run = serve(trace, blocks, TIME, retention=retention, **options)
    totals = run.totals
    assert totals.finished + totals.refused + totals.aborted == totals.requests
    assert patience is not None or totals.requests == trace.requests
    assert totals.refused == 0 or max(each.prompt + each.answer for each in turns) > 4 * blocks
    stepwise = serve(trace, blocks, TIME, retention=retention, jump=False, **options)
    assert events(stepwise) == events(run)


@pytest.mark.parametrize("rule", ["index", "paper", "fixed:seconds=60,every=1,leases=always"])
def test_steps_that_are_jumped_over_change_nothing(rule: str) -> None:
    trace = CodingAgents(sessions=6, requests_median=8, arrival_gap=3, user_gap_median=20, seed=3).load()
    options = {jump: SimulationOptions(retention=RetentionOptions.parse(rule), jump=jump) for jump in (False, True)}
    runs = [
        simulate(trace, "cost-aware", 9000, schedulers="continuum", options=each, events=True).runs[0]
        for each in options.values()
    ]
    assert events(runs[0]) == events(runs[1])
    assert runs[0].figures() == pytest.approx(runs[1].figures(), rel=1e-9)


@pytest.mark.parametrize(
    ("spec", "said"),
    [
        ("indx", "index"),
        ("index:leases=often", "often"),
        ("index:lease_share=1", "0.9"),
        ("index:lease_share=x", "not a number"),
        ("index:last_turn=yes", "0 or 1"),
        ("index:leases=never,leases=never", "twice"),
        ("index:second=2", "second"),
    ],
)
def test_a_bad_spec_is_named(spec: str, said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        RetentionOptions.parse(spec)


def test_a_spec_holds_settings_of_the_rule_and_of_retention() -> None:
    parsed = RetentionOptions.parse("fixed:seconds=2,leases=always,every=1,lease_share=0.5,last_turn=1")
    assert parsed == RetentionOptions("fixed:seconds=2,every=1", "always", 0.5, True)
