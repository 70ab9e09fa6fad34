"""Clients that give up, at every point of a request's life: the books balance, and nobody waits for those who went."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kvopt.simulator import LinearStepTime, SimulationRun, TierOptions
from kvopt.workload.base import Trace
from served_traces import Sent, events, serve, served_trace

TIME = LinearStepTime(k0=10, k1=1, d1=2)
TIER = TierOptions(20, 7.0, 3.0)
# Prompts that share blocks and find too little room: they queue, load, run in chunks and are preempted.
CROWD = [
    Sent(0.00, 12, 6, [0, 1, 2], {"session": 0, "turn": 0}),
    Sent(0.01, 9, 9, [0, 1], {"session": 1, "turn": 0}),
    Sent(0.02, 22, 3, [5, 6, 7, 8, 9], {"session": 2, "turn": 0}),
    Sent(0.05, 8, 12, [10, 11], {"session": 3, "turn": 0}),
    Sent(0.40, 26, 4, [0, 1, 2, 12, 13, 14], {"session": 0, "turn": 1, "gap": 0.1}),
    Sent(0.45, 24, 2, [5, 6, 7, 8, 9, 15], {"session": 2, "turn": 1, "gap": 0.05}),
]


def check(run: SimulationRun, trace: Trace) -> None:
    """What holds whoever gives up; that tokens and blocks add up was checked when the run ended."""
    totals = run.totals
    assert totals.finished + totals.aborted + totals.refused + totals.unsent == trace.requests
    last = {request: kind for _, kind, request, _ in events(run) if kind != "evicted"}
    assert Counter(last.values()) == Counter(finished=totals.finished, aborted=totals.aborted, refused=totals.refused)
    waited = [time for time, kind, _, _ in events(run) if kind == "first_token"]
    assert len(waited) == run.latency_s["ttft"].count


@pytest.mark.parametrize("mode", ["closed", "open"])
@pytest.mark.parametrize("tier", [None, TIER], ids=["one tier", "two tiers"])
def test_an_abort_at_every_point(mode: str, tier: TierOptions | None) -> None:
    trace = served_trace(CROWD)
    options: dict[str, Any] = {"token_budget": 8, "mode": mode, "tier": tier}
    calm = events(serve(trace, 8, TIME, **options))
    arrival = {request: time for time, kind, request, _ in calm if kind == "arrived"}
    states: Counter[str] = Counter()
    waits = {time - came for time, *_ in calm for came in arrival.values() if time > came}
    for patience in sorted({wait + shift for wait in waits for shift in (0.0, 1e-6)}):
        run = serve(trace, 8, TIME, patience=patience, **options)
        check(run, trace)
        before: dict[int, str] = {}
        for _, kind, request, _ in events(run):
            if kind == "aborted":
                states[before[request]] += 1
            before[request] = kind if kind != "evicted" else before[request]
    reached = {"arrived", "admitted", "preempted"} | ({"loading"} if tier is not None and mode == "closed" else set())
    assert reached <= set(states)


@settings(max_examples=60, deadline=None)
@given(
    seed=st.integers(0, 10_000),
    blocks=st.integers(5, 14),
    budget=st.integers(1, 20),
    patience=st.floats(0.005, 0.6),
    tier=st.sampled_from([None, TIER]),
    mode=st.sampled_from(["closed", "open"]),
    scheduler=st.sampled_from(["fifo", "priority", "cache-aware:bound=0.1"]),
    session_limit=st.sampled_from([None, 2]),
)
def test_random_crowds(
    seed: int,
    blocks: int,
    budget: int,
    patience: float,
    tier: TierOptions | None,
    mode: str,
    scheduler: str,
    session_limit: int | None,
) -> None:
    random = np.random.default_rng(seed)
    sent = []
    for number, time in enumerate(np.cumsum(random.exponential(0.03, 12)).tolist()):
        chain = [
            *range(int(random.integers(0, 4))),
            *range(10 * number + 10, 10 * number + 10 + int(random.integers(3))),
        ]
        prompt = max(4 * len(chain) + int(random.integers(4)), 1)
        about = {"session": number % 5, "turn": number // 5, "gap": float(random.exponential(0.05)), "stop": number % 5}
        sent.append(Sent(time, prompt, int(random.integers(1, 12)), chain, about))
    trace = served_trace(sent)
    options: dict[str, Any] = {
        "token_budget": budget,
        "mode": mode,
        "tier": tier,
        "patience": patience,
        "schedulers": scheduler,
        "session_limit": session_limit if mode == "closed" else None,
    }
    jumping, stepping = (serve(trace, blocks, TIME, jump=jump, **options) for jump in (True, False))
    assert events(jumping) == events(stepping)
    check(jumping, trace)
