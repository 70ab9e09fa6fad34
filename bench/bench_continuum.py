"""What the coordinator costs a scheduler: one decision with 10,000 sessions alive, an idle tick, and each other event.

Stands for the Python time that retention adds to each step of a server. Sessions return and leave in a steady state.
Each single event is timed, in CPU time, so that a busy machine counts little; "empty call" is what the timer and a call
cost by themselves, included in every other figure. Asserted inside: each decision is one, the pool is sound, and a
million sessions that never return take at most 200 MB.
"""

from __future__ import annotations

import gc
import json
import subprocess
import sys
from collections import defaultdict
from collections.abc import Callable
from pathlib import Path
from time import thread_time_ns
from typing import Any

import numpy as np
import pytest
from benchmark_fixture import Benchmark

from kvopt._core import BlockPool
from kvopt.continuum import ClientRecord, ContinuumOptions, Coordinator, Footprint, NativePool
from kvopt.policies import StopReason

SESSIONS = 10_000
ROUNDS = 3_000
TOOLS = [f"tool {i}" for i in range(20)]
BLOCKS = 8


class Server:
    """Sessions on a native pool in which each has a few blocks."""

    def __init__(self, rule: str) -> None:
        self.pool = BlockPool(4 * SESSIONS * BLOCKS, "priority", retention=True, lease_budget=SESSIONS * BLOCKS)
        retained = NativePool(self.pool, lease_budget=SESSIONS * BLOCKS, soft=True)
        self.coordinator = Coordinator(retained, lambda new, cached: 1e-4 * new, ContinuumOptions(ttl=rule))
        self.random = np.random.default_rng(1)
        self.now = 0.0
        self.times: dict[str, list[int]] = defaultdict(list)
        self.turns = 0

    def timed(self, name: str, call: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        begin = thread_time_ns()
        answer = call(*args, **kwargs)
        self.times[name].append(thread_time_ns() - begin)
        return answer

    def decide(self, session: int) -> None:
        """A decision by itself, on a session that is idle."""
        idle = self.coordinator.session(str(session))
        assert idle is not None
        decision = self.timed("a decision", self.coordinator.appraisal.decide, idle, self.now)
        assert decision.reasons

    def turn(self, session: int) -> None:
        coordinator, now = self.coordinator, self.now
        keys = (np.arange(BLOCKS, dtype=np.uint64) + session * BLOCKS).astype(np.uint64)
        request = self.turns
        self.turns += 1
        record = ClientRecord(session_id=str(session), tools=(TOOLS[session % len(TOOLS)],))
        self.timed("empty call", id, now)
        self.timed("arrival", coordinator.arrival, request, now, record, blocks=BLOCKS)
        allocation = self.pool.acquire(keys, now=now)
        self.pool.commit(allocation, keys[allocation.hit :], now=now)
        self.timed("scheduled", coordinator.scheduled, request, now)
        decision = self.timed(
            "finished: learn, decide, protect",
            coordinator.finished,
            request,
            now,
            stop=StopReason.TOOL_USE,
            footprint=Footprint(BLOCKS, 2, "system prompt"),
            handle=allocation,
        )
        assert decision is not None
        self.pool.release(allocation, now=now)


@pytest.mark.parametrize("rule", ["index", "expected-hold", "paper", "fixed", "infercept"])
def test_events(benchmark: Benchmark, rule: str) -> None:
    server = Server(rule)
    for session in range(SESSIONS):
        server.now += 0.002
        server.turn(session)
    server.times.clear()

    def rounds() -> None:
        for session in server.random.integers(0, SESSIONS, ROUNDS).tolist():
            server.now += 0.002
            server.timed("tick with what is due", server.coordinator.tick, server.now)
            server.timed("demand", server.coordinator.demand, server.now, 10)
            while server.coordinator.tick(server.now):  # after the pause in which the sessions were made
                pass
            idle = server.timed("idle tick", server.coordinator.tick, server.now)
            assert idle == 0
            server.decide(session)
            server.turn(session)

    gc.collect()
    gc.disable()
    try:
        benchmark.pedantic(rounds, rounds=1)
    finally:
        gc.enable()
    benchmark.group = "continuum"
    figures = {
        name: {
            "p5": float(np.percentile(ns, 5)),
            "p50": float(np.percentile(ns, 50)),
            "p99": float(np.percentile(ns, 99)),
            "mean": float(np.mean(ns)),
            "max": float(np.max(ns)),
        }
        for name, ns in server.times.items()
    }
    benchmark.extra_info |= {"question": "continuum", "rule": rule, "sessions": SESSIONS, "calls": figures}
    assert server.pool.verify() == []


def test_memory_of_a_million_sessions(benchmark: Benchmark) -> None:
    child = [sys.executable, Path(__file__).with_name("continuum_child.py"), "1000000", "100000"]
    benchmark.group = "continuum"

    def run() -> dict[str, float]:
        done = subprocess.run(child, check=True, stdout=subprocess.PIPE, text=True)
        figures: dict[str, float] = json.loads(done.stdout)
        return figures

    figures = benchmark.pedantic(run, rounds=1)
    benchmark.extra_info |= {"question": "continuum memory", **figures}
    assert figures["decisions"] == 1_000_000
    assert figures["bytes"] <= 200e6
