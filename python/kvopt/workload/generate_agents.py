"""Coding agents: long sessions whose requests follow a tool call within seconds or a person within minutes.

Quantiles are those of the kv-cache-tester sessions (github.com/callanjfox/kv-cache-tester): gaps at the client after a
tool call with median 9 s, p90 67 s, p99 607 s, otherwise 131 s and 1,917 s; sessions with a median of 45 requests and
60 minutes; inputs with a median of 104 k tokens and p99 499 k. What these figures leave open (answer lengths, growth
of the context, how stops follow each other) was measured on 400 of those sessions.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kvopt.workload.base import Progress, StopReason, Trace, Workload
from kvopt.workload.parameters import check_parameters, parameter
from kvopt.workload.quantile_curve import QuantileCurve
from kvopt.workload.session_chains import SessionChains

TOOLS = ("read", "edit", "search", "shell", "test", "task")
"""From the quickest to the slowest; ``task`` runs a sub-agent."""

_SLOWEST_GAP_SCORE = np.array([-0.4, 0.15, 0.5, 1.4])  # of read, edit, search and shell
_TASK = TOOLS.index("task")

_TOOL_GAP = {0.0: 1, 0.01: 2, 0.1: 4, 0.25: 5, 0.5: 9, 0.75: 19, 0.9: 67, 0.99: 607, 1.0: 7200}
_USER_GAP = {0.0: 1, 0.01: 3, 0.1: 15, 0.25: 40, 0.5: 131, 0.75: 470, 0.9: 1917, 0.99: 15000, 1.0: 40000}
_TOOL_OUTPUT = {0.0: 30, 0.01: 68, 0.1: 108, 0.25: 137, 0.5: 211, 0.75: 422, 0.9: 916, 0.99: 3731, 1.0: 16000}
_LAST_OUTPUT = {0.0: 5, 0.01: 19, 0.1: 83, 0.25: 126, 0.5: 240, 0.75: 476, 0.9: 847, 0.99: 3548, 1.0: 16000}
_ADDED_INPUT = {0.0: 10, 0.01: 20, 0.1: 40, 0.25: 90, 0.5: 290, 0.75: 930, 0.9: 2720, 0.99: 16400, 1.0: 60000}
_FIRST_INPUT = {0.0: 100, 0.1: 900, 0.25: 3500, 0.5: 9500, 0.75: 80000, 0.9: 220000, 0.99: 450000, 1.0: 700000}
_CONTEXT_LIMIT = {0.0: 60000, 0.1: 120000, 0.5: 165000, 0.75: 190000, 0.9: 330000, 1.0: 800000}
_KEPT_AFTER_LIMIT = {0.0: 0.08, 0.1: 0.17, 0.25: 0.25, 0.5: 0.56, 0.75: 0.85, 1.0: 0.98}

_REQUESTS_SPREAD = 1.1
_MOST_REQUESTS = 410
_TOOL_AFTER_TOOL = 0.93
_TOOL_AFTER_OTHER = 0.41
_CUT_SHORT = 0.03
_PACE_SHARE = 0.21  # of the variance of a session's log gaps: 0.57 squared between sessions, 1.09 squared within
_PREFILL_SECONDS = 1.3
_SECONDS_PER_TOKEN = 0.02


@dataclass(frozen=True, slots=True)
class CodingAgents(Workload):
    """Sessions of coding agents that start as a Poisson process.

    Every session begins with the tool definitions and system prompt of one of a few agents, which all its sessions
    share. Its context grows by the answer and the tool's result, and is cut to a summary when it reaches its limit.
    Within a session gaps go together (a slow session stays slow), and slower tools take the longer gaps.

    Raises:
        ConfigError: a parameter is out of range.
    """

    sessions: int = parameter(400, "sessions", minimum=1, maximum=10**6)
    arrival_gap: float = parameter(30.0, "mean seconds between the starts of sessions", minimum=1e-6, maximum=1e6)
    seed: int = parameter(1, "seed of all draws", maximum=2**63 - 1)
    block_tokens: int = parameter(64, "tokens in a block", minimum=1, maximum=2**20)
    requests_median: float = parameter(45.0, "median requests of a session", minimum=2, maximum=400)
    tool_gap_median: float = parameter(9.0, "median seconds of a tool call", minimum=1e-3, maximum=1e5)
    user_gap_median: float = parameter(131.0, "median seconds until a person goes on", minimum=1e-3, maximum=1e6)
    agents: int = parameter(4, "different agents, each with its own tools and system prompt", minimum=1, maximum=1000)
    prompt_tokens: int = parameter(15000, "mean tokens of an agent's tools and system prompt", minimum=1, maximum=10**6)
    subagent_share: float = parameter(0.1, "share of sessions that run a sub-agent", maximum=1)

    def __post_init__(self) -> None:
        check_parameters(self)

    @property
    def name(self) -> str:
        """Always ``agents``."""
        return "agents"

    def load(self, progress: Progress | None = None) -> Trace:
        """Generate the trace; the same parameters give the same trace."""
        return _Generation(self).run(progress)


@dataclass(slots=True)
class _Chain:
    """One session or sub-agent while it is made; arrays [n]."""

    time: NDArray[np.float64]
    input_tokens: NDArray[np.int64]
    shared_tokens: NDArray[np.int64]
    output_tokens: NDArray[np.int64]
    stop: NDArray[np.int64]
    tool: NDArray[np.int64]
    gap: NDArray[np.float64]
    api_time: NDArray[np.float64]

    def columns(self, session: int, subagent: bool) -> dict[str, Any]:
        return {
            "time": self.time,
            "input_tokens": self.input_tokens,
            "output_tokens": self.output_tokens,
            "session": session,
            "turn": np.arange(len(self.time)),
            "stop": self.stop,
            "tool": self.tool,
            "gap": self.gap,
            "subagent": subagent,
            "api_time": self.api_time,
        }


class _Generation:
    def __init__(self, parameters: CodingAgents) -> None:
        self.parameters = parameters
        self.random = np.random.default_rng(parameters.seed)
        self.tool_gap = QuantileCurve(_TOOL_GAP, parameters.tool_gap_median / _TOOL_GAP[0.5])
        self.user_gap = QuantileCurve(_USER_GAP, parameters.user_gap_median / _USER_GAP[0.5])
        self.tool_output = QuantileCurve(_TOOL_OUTPUT)
        self.last_output = QuantileCurve(_LAST_OUTPUT)
        self.added_input = QuantileCurve(_ADDED_INPUT)
        self.first_input = QuantileCurve(_FIRST_INPUT)
        self.context_limit = QuantileCurve(_CONTEXT_LIMIT)
        self.kept = QuantileCurve(_KEPT_AFTER_LIMIT)
        spread = self.random.uniform(0.8, 1.2, parameters.agents)
        self.prompt_tokens = np.maximum(1, (parameters.prompt_tokens * spread).astype(np.int64))

    def run(self, progress: Progress | None) -> Trace:
        p = self.parameters
        chains = SessionChains(p.block_tokens)
        starts = np.cumsum(self.random.exponential(p.arrival_gap, p.sessions))
        popularity = 1 / np.arange(1, p.agents + 1)
        agents = self.random.choice(p.agents, p.sessions, p=popularity / popularity.sum())
        for session in range(p.sessions):
            if progress is not None and session % 16 == 0:
                progress(session, p.sessions, "generating sessions")
            agent = int(agents[session])
            wanted = self.random.lognormal(np.log(p.requests_median), _REQUESTS_SPREAD)
            main = self._chain(int(np.clip(round(wanted), 2, _MOST_REQUESTS)), int(self.prompt_tokens[agent]))
            helper = self._subagent(main) if self.random.random() < p.subagent_share else None
            at = _times(main, float(starts[session]))
            chains.add_chain(main.columns(session, subagent=False), main.shared_tokens, prompt=agent)
            if helper is not None:
                chain, caller = helper
                _times(chain, float(at[caller] + main.api_time[caller]))
                chains.add_chain(chain.columns(session, subagent=True), chain.shared_tokens, prompt=p.agents)
        if progress is not None:
            progress(p.sessions, p.sessions, "generating sessions")
        return chains.trace(self.parameters.name, {"format": "generated", "kind": "agents", **asdict(p)}, TOOLS)

    def _chain(self, requests: int, prompt_tokens: int, *, subagent: bool = False) -> _Chain:
        draw = self.random
        stop = self._stops(requests)
        if subagent:
            stop[:] = StopReason.TOOL_USE
            stop[-1] = StopReason.END_TURN
        calls = stop == StopReason.TOOL_USE
        after_call = np.concatenate(([False], calls[:-1]))
        pace = np.sqrt(_PACE_SHARE) * draw.standard_normal()
        score = pace + np.sqrt(1 - _PACE_SHARE) * draw.standard_normal(requests)
        gap = np.where(after_call, self.tool_gap.at(score), self.user_gap.at(score))
        gap[0] = np.nan
        slowness = 0.8 * np.append(score[1:], 0.0) + 0.6 * draw.standard_normal(requests)
        tool = np.where(calls, np.searchsorted(_SLOWEST_GAP_SCORE, slowness), -1)
        lengths = draw.standard_normal(requests)
        output = np.where(calls, self.tool_output.at(lengths), self.last_output.at(lengths)).astype(np.int64)
        speed = draw.lognormal(0.0, 0.15, requests)
        inputs, shared = self._contexts(output, prompt_tokens, fresh=subagent)
        return _Chain(
            time=np.zeros(requests),
            input_tokens=inputs,
            shared_tokens=shared,
            output_tokens=output,
            stop=stop,
            tool=tool,
            gap=gap,
            api_time=(_PREFILL_SECONDS + _SECONDS_PER_TOKEN * output) * speed,
        )

    def _stops(self, requests: int) -> NDArray[np.int64]:
        luck = self.random.random(requests).tolist()
        ends = np.where(self.random.random(requests) < _CUT_SHORT, StopReason.LENGTH, StopReason.END_TURN)
        calls = []
        calling = True
        for value in luck:
            calling = value < (_TOOL_AFTER_TOOL if calling else _TOOL_AFTER_OTHER)
            calls.append(calling)
        return np.where(calls, StopReason.TOOL_USE, ends)

    def _contexts(
        self, output: NDArray[np.int64], prompt_tokens: int, *, fresh: bool
    ) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Input tokens of each request, and how many of them the request before had (the first: the prompt)."""
        draw = self.random
        added = self.added_input.at(draw.standard_normal(len(output))).astype(np.int64).tolist()
        kept = self.kept.at(draw.standard_normal(len(output))).tolist()
        first, top = draw.standard_normal(2)
        limit = float(self.context_limit.at(top))
        context = prompt_tokens + (added[0] if fresh else int(self.first_input.at(first)))
        limit = max(limit, context * 1.2)
        inputs = [context]
        shared = [prompt_tokens]
        for answer, more, share in zip(output[:-1].tolist(), added[1:], kept[1:], strict=True):
            grown = context + answer + more
            if grown > limit:
                common = prompt_tokens
                context = max(int(grown * share), prompt_tokens + more)
            else:
                common = context
                context = grown
            inputs.append(context)
            shared.append(common)
        return np.array(inputs), np.array(shared)

    def _subagent(self, main: _Chain) -> tuple[_Chain, int] | None:
        """A sub-agent, and which request of ``main`` calls it as a tool; the call takes as long as it runs."""
        callers = np.flatnonzero(main.stop[:-1] == StopReason.TOOL_USE)
        if not callers.size:
            return None
        caller = int(self.random.choice(callers))
        requests = int(np.clip(round(self.random.lognormal(np.log(11), 0.4)), 4, 24))
        chain = self._chain(requests, int(self.prompt_tokens.mean() * 0.6), subagent=True)
        main.tool[caller] = _TASK
        main.gap[caller + 1] = float(np.nansum(chain.gap) + chain.api_time.sum()) + 0.1
        return chain, caller


def _times(chain: _Chain, start: float) -> NDArray[np.float64]:
    """Set the arrivals of a chain that starts at ``start``: each after the answer before it and its own gap."""
    waits = chain.gap[1:] + chain.api_time[:-1]
    chain.time = start + np.concatenate(([0.0], np.cumsum(waits)))
    return chain.time
