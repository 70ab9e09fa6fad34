"""Small traces for the timed simulator, and their events."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from kvopt._core import PrefixTraceBuilder
from kvopt.simulator import ClientOptions, Limits, SimulationOptions, SimulationResult, SimulationRun, simulate
from kvopt.simulator.step_time import StepTime
from kvopt.workload.base import Trace


@dataclass(frozen=True)
class Sent:
    """A request of a trace: its arrival in seconds, tokens of prompt and answer, and the ids of its full blocks."""

    time: float
    prompt: int
    answer: int
    blocks: Sequence[int] = ()
    columns: dict[str, Any] = field(default_factory=dict)


def served_trace(requests: Sequence[Sent], block_tokens: int = 4) -> Trace:
    """A trace of these; `columns` of a request may hold session, turn, stop, gap, subagent and api_time."""
    builder = PrefixTraceBuilder()
    for request in requests:
        builder.append(np.array(request.blocks, dtype=np.uint64))
    columns: dict[str, Any] = {
        "time": [request.time for request in requests],
        "input_tokens": [request.prompt for request in requests],
        "output_tokens": [request.answer for request in requests],
    }
    unknown = {"session": -1, "turn": -1, "stop": 0, "gap": np.nan, "subagent": False, "api_time": np.nan}
    for name, value in unknown.items():
        columns[name] = np.array([request.columns.get(name, value) for request in requests])
    return Trace.from_columns(builder.finish(), columns, name="served", block_tokens=block_tokens)


def serve(trace: Trace, blocks: int, time: StepTime | str, **options: Any) -> SimulationRun:
    """One run with the events, at so many usable blocks."""
    return serve_all(trace, blocks, time, **options).runs[0]


def serve_all(trace: Trace, blocks: int, time: StepTime | str, **options: Any) -> SimulationResult:
    """All runs with the events. `options` are those of simulate, Limits, ClientOptions and SimulationOptions."""
    limits = {name: options.pop(name) for name in ("token_budget", "max_sequences") if name in options}
    if "token_budget" in limits:
        limits.setdefault("max_sequences", min(limits["token_budget"], 1024))
    clients: dict[str, Any] = {
        name: options.pop(name) for name in ("mode", "rate", "session_limit", "patience") if name in options
    }
    server = {
        name: options.pop(name)
        for name in ("preemption", "answers", "whole_hits", "exact", "points", "jump", "tier", "retention")
        if name in options
    }
    clients.setdefault("mode", "open")
    return simulate(
        trace,
        options.pop("policies", "lru"),
        blocks + 1,  # one is the null block
        profile=time,
        clients=ClientOptions(**clients),
        options=SimulationOptions(limits=Limits(**limits), **server),
        events=True,
        **options,
    )


def events(run: SimulationRun) -> list[tuple[float, str, int, int]]:
    """What happened in a run."""
    assert run.log is not None
    return run.log.rows()
