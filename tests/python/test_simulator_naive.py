"""The engine does what a naive server does that takes every step, token and block by itself."""

from __future__ import annotations

from dataclasses import asdict

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kvopt.simulator import LinearStepTime
from kvopt.simulator.requests import RequestSource
from kvopt.simulator.threads import find_threads
from naive_server import NaiveRequest, NaiveServer
from served_traces import Sent, events, serve, served_trace

TIME = LinearStepTime(k0=5.0, k1=0.5, k2=0.03125, k3=0.0078125, d1=0.25, d2=0.0625)


@st.composite
def requests(draw: st.DrawFn, block_tokens: int) -> list[Sent]:
    """Prompts that share prefixes: each takes up some blocks of an earlier one and goes on by itself."""
    count = draw(st.integers(1, 9))
    chains: list[list[int]] = [[]]
    fresh = 0
    made = []
    time = 0.0
    for _ in range(count):
        time += draw(st.sampled_from([0.0, 0.0, 0.01, 0.05, 0.3]))
        before = draw(st.sampled_from(chains))
        kept = before[: draw(st.integers(0, len(before)))]
        added = draw(st.integers(0, 4))
        blocks = [*kept, *range(fresh, fresh + added)]
        fresh += added
        rest = draw(st.integers(0, block_tokens - 1))
        prompt = max(len(blocks) * block_tokens + rest, 1)
        made.append(Sent(time, prompt, draw(st.integers(1, 12)), blocks))
        chains.append(blocks)
    return made


@st.composite
def settings_of_a_server(draw: st.DrawFn) -> dict[str, int]:
    budget = draw(st.integers(1, 24))
    return {
        "block_tokens": draw(st.sampled_from([1, 2, 3, 4])),
        "blocks": draw(st.integers(2, 16)),
        "token_budget": budget,
        "max_sequences": draw(st.integers(1, budget)),
    }


@pytest.mark.parametrize("scheduler", ["fifo", "priority"])
@settings(max_examples=150, deadline=None)
@given(data=st.data(), server=settings_of_a_server())
def test_same_events_at_the_same_times(scheduler: str, data: st.DataObject, server: dict[str, int]) -> None:
    sent = data.draw(requests(server["block_tokens"]))
    priorities = np.array(data.draw(st.lists(st.integers(0, 2), min_size=len(sent), max_size=len(sent))))
    trace = served_trace(sent, server["block_tokens"])
    source = RequestSource(trace, find_threads(trace))
    naive = NaiveServer(
        server["blocks"],
        server["block_tokens"],
        server["token_budget"],
        server["max_sequences"],
        TIME.step_ms,
        by_priority=scheduler == "priority",
    )
    expected = naive.serve(
        [
            NaiveRequest(
                number,
                float(trace.time[number] - trace.time[0]),
                request.prompt,
                request.answer,
                source.make(number, 0.0, 0.0).keys.tolist(),
                int(priorities[number]),
            )
            for number, request in enumerate(sent)
        ]
    )
    jumping, stepping = (
        serve(
            trace,
            server["blocks"],
            TIME,
            schedulers=scheduler,
            priorities=priorities,
            token_budget=server["token_budget"],
            max_sequences=server["max_sequences"],
            jump=jump,
        )
        for jump in (True, False)
    )
    assert events(jumping) == events(stepping)
    assert asdict(jumping.totals) == pytest.approx(asdict(stepping.totals), rel=1e-12)
    if naive.pool.duplicates:
        # Of content that is cached twice, vLLM hits the first copy of each block, the pool the path of the deepest.
        return
    assert events(jumping) == expected
    assert jumping.totals.steps == naive.steps
    assert jumping.totals.preemptions == sum(kind == "preempted" for _, kind, _, _ in expected)
