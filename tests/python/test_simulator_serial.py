"""With one request at a time the timed simulator hits what replay hits: on real traces, under every native policy."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from kvopt import _core
from kvopt._core import PrefixTrace
from kvopt.metrics import EventKind
from kvopt.simulator import ClientOptions, Limits, LinearStepTime, SimulationOptions, simulate
from kvopt.workload import CodingAgents, read_trace
from kvopt.workload.base import Trace

ONLINE = [policy.name for policy in _core.policies() if not policy.offline and not policy.needs]
INSTANT = LinearStepTime()


def as_replayed(trace: Trace, first: int | None = None) -> Trace:
    """The first requests of a trace as replay sees them: prompts are their blocks, answers take no room."""
    prefix = trace.prefix
    kept = slice(0, first)
    chain = trace.chain_blocks()[kept]
    columns = {name: values[kept] for name, values in trace.columns().items()}
    columns["input_tokens"] = chain * trace.block_tokens
    columns["output_tokens"] = np.ones(len(chain), np.int64)
    cut = PrefixTrace(prefix.parent[kept], prefix.shared_blocks[kept], prefix.new_blocks[kept])
    return Trace.from_columns(
        cut, columns, name=trace.name, block_tokens=trace.block_tokens, tool_names=trace.tool_names
    )


def served_hits(trace: Trace, policy: str, capacity: int, budget: int) -> tuple[NDArray[np.int64], int]:
    """Blocks that each request hits when requests are served one at a time and at once, and the evictions."""
    result = simulate(
        trace,
        policy,
        capacity + 1,  # one is the null block
        profile=INSTANT,
        clients=ClientOptions("open"),
        options=SimulationOptions(limits=Limits(budget, 1), whole_hits=True),
        events=True,
    )
    log = result.runs[0].log
    assert log is not None
    hits = np.zeros(trace.requests, np.int64)
    for _, kind, request, amount in log.rows():
        if kind == EventKind.ADMITTED.name.lower():
            hits[request] = -(-amount // trace.block_tokens)  # a prompt that is hit whole computes its last token
    return hits, result.runs[0].totals.evictions


def check(trace: Trace, policy: str, capacity: int, budget: int = 2**40) -> None:
    chain = trace.chain_blocks()
    assert capacity not in chain  # replay refuses such a request, a server has just room for it
    context = {
        name: getattr(trace, name)
        for name in ("session", "turn", "tool", "output_tokens", "gap", "stop", "steps", "return_probability")
    }
    context["subagent"] = trace.subagent.astype(np.uint8)
    replayed = _core.replay(
        trace.prefix, trace.time - trace.time[0], policy, capacity, block_tokens=trace.block_tokens, context=context
    )
    hits, evictions = served_hits(trace, policy, capacity, budget)
    assert np.array_equal(hits, replayed.hit_blocks)
    assert evictions == replayed.evictions


@pytest.fixture(scope="module")
def agents() -> Trace:
    return as_replayed(CodingAgents(sessions=12, seed=3).load())


@pytest.mark.parametrize("policy", ONLINE)
def test_made_sessions(agents: Trace, policy: str) -> None:
    check(agents, policy, 3001)


def test_chunks_change_nothing_for_lru(agents: Trace) -> None:
    check(agents, "lru", 3001, budget=8192)


@pytest.fixture(scope="module")
def chats(shared_dir: Path) -> Trace:
    return as_replayed(read_trace(shared_dir / "traces" / "mooncake-conversation.jsonl.gz"))


@pytest.fixture(scope="module")
def recorded(shared_dir: Path) -> Trace:
    return as_replayed(read_trace(shared_dir / "traces" / "agentic-400.tar.xz"), 6000)


@pytest.mark.slow
@pytest.mark.parametrize("policy", ONLINE)
def test_chats(chats: Trace, policy: str) -> None:
    check(chats, policy, 3000)


@pytest.mark.slow
@pytest.mark.parametrize("policy", ONLINE)
def test_recorded_sessions(recorded: Trace, policy: str) -> None:
    check(recorded, policy, 30_001)
