from __future__ import annotations

from dataclasses import asdict
from typing import Any

import numpy as np
import pytest

from kvopt.errors import ConfigError, PolicyError
from kvopt.policies import DummyPolicy, Policy, RankingPolicy, RequestInfo
from kvopt.simulator import replay
from kvopt.workload.base import StopReason, Trace
from made_traces import SMALL_TRACE, SPACED_TRACE, make_trace


class Recorder(DummyPolicy):
    """Keeps what it is told of each request."""

    def __init__(self) -> None:
        super().__init__()
        self.seen: list[RequestInfo] = []

    def on_evictable(self, runs: np.ndarray[Any, np.dtype[np.uint32]], info: RequestInfo) -> None:
        super().on_evictable(runs, info)
        self.seen.append(info)


class LruInPython(RankingPolicy):
    def rank(self, run: int, now: float) -> float:
        return float(self.runs.last_use[run])


class Broken(DummyPolicy):
    def choose(self, wanted: int, now: float) -> int:
        raise RuntimeError("no idea")


class Unfinished(Policy):
    pass


def test_a_class_serves_every_capacity_with_an_object_of_its_own() -> None:
    result = replay(make_trace(SPACED_TRACE), ["lru", LruInPython, "min"], [4, 9, 100])
    assert result.policies == ("lru", "LruInPython", "min")
    for capacity in (4, 9, 100):
        lru, mine = (asdict(result.row(name, capacity)) for name in ("lru", "LruInPython"))
        assert mine | {"policy": "lru", "seconds": 0} == lru | {"seconds": 0}


def test_a_policy_sees_what_the_trace_knows_of_a_request() -> None:
    plain = make_trace([(1000, 512, [1]), (2000, 512, [2])])
    trace = Trace.from_columns(
        plain.prefix,
        {
            "time": plain.time,
            "input_tokens": plain.input_tokens,
            "output_tokens": np.array([7, 8]),
            "session": np.array([5, 6]),
            "turn": np.array([0, 3]),
            "stop": np.array([StopReason.TOOL_USE, StopReason.END_TURN]),
            "tool": np.array([1, -1]),
            "gap": np.array([np.nan, 2.5]),
            "subagent": np.array([False, True]),
        },
        tool_names=("a", "b"),
        name="small",
        block_tokens=512,
    )
    policy = Recorder()
    replay(trace, policy, 10)
    fields = ("now", "session", "turn", "tool", "output_tokens", "subagent")
    assert [tuple(getattr(info, field) for field in fields) for info in policy.seen] == [
        (1.0, 5, 0, 1, 7, False),
        (2.0, 6, 3, -1, 8, True),
    ]
    assert [info.stop.name for info in policy.seen] == ["TOOL_USE", "END_TURN"]
    assert policy.seen[1].gap == 2.5


def test_an_object_serves_one_replay_only() -> None:
    trace, policy = make_trace(SMALL_TRACE), DummyPolicy()
    with pytest.raises(ConfigError, match=r"serves one pool; give its class .* at 2 capacities"):
        replay(trace, policy, [4, 9])
    assert replay(trace, [policy], [4]).policies == ("DummyPolicy",)
    with pytest.raises(ConfigError, match="serves one pool; it has served one"):
        replay(trace, policy, 4)


def test_a_policy_that_raises_ends_the_replay() -> None:
    with pytest.raises(PolicyError, match="no idea"):
        replay(make_trace(SMALL_TRACE), ["lru", Broken], [4])


def test_an_unfinished_policy_is_refused_before_any_work() -> None:
    calls: list[int] = []
    with pytest.raises(ConfigError, match="Unfinished lacks the methods choose, on_evictable, on_referenced"):
        replay(make_trace(SMALL_TRACE), ["lru", Unfinished], 4, progress=lambda done, total, what: calls.append(done))
    assert calls == []


def test_two_policies_of_one_name_are_refused() -> None:
    class DummyPolicy(Recorder):
        pass

    from kvopt import policies

    with pytest.raises(ConfigError, match="two different policies are called 'DummyPolicy'"):
        replay(make_trace(SMALL_TRACE), [DummyPolicy, policies.DummyPolicy], 4)
