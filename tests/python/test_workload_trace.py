"""The columns of a trace: what they must hold, and what is said of them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from kvopt import _core
from kvopt._core import PrefixTrace, PrefixTraceBuilder
from kvopt.errors import TraceError
from kvopt.workload import StopReason, Trace


def three_requests(**columns: Any) -> Trace:
    prefix = PrefixTrace(
        np.array([-1, 0, -1], np.int32), np.array([0, 2, 0], np.uint32), np.array([2, 1, 1], np.uint32)
    )
    given = {"time": [0.0, 1.0, 1.0], "input_tokens": [128, 192, 100], **columns}
    return Trace.from_columns(prefix, given, name="three", block_tokens=64, tool_names=("read", "shell"))


def test_what_is_unknown_says_so() -> None:
    trace = three_requests()
    assert trace.requests == 3
    assert (trace.block_references, trace.unique_blocks, trace.duration) == (6, 4, 1.0)
    assert trace.chain_blocks().tolist() == [2, 3, 1]
    assert trace.session.tolist() == [-1, -1, -1]
    assert trace.turn.tolist() == [-1, -1, -1]
    assert trace.tool.tolist() == [-1, -1, -1]
    assert np.isnan(trace.gap).all()
    assert np.isnan(trace.api_time).all()
    assert not trace.has_sessions
    assert not trace.has_stop_reasons


def test_columns_are_copies_that_cannot_change() -> None:
    time = np.array([0.0, 1.0, 2.0])
    trace = three_requests(time=time)
    time[0] = 99.0
    assert trace.time[0] == 0.0
    with pytest.raises(ValueError, match="read-only"):
        trace.time[0] = 1.0


@pytest.mark.parametrize(
    ("column", "values", "message"),
    [
        ("time", [0.0, float("nan"), 2.0], "request 1: time nan is not a finite number >= 0"),
        ("time", [-1.0, 0.0, 2.0], "request 0: time -1.0 is not a finite number >= 0"),
        ("time", [0.0, 1.0, float("inf")], "request 2: time inf"),
        ("time", [0.0, 3.0, 2.0], "request 2: time 2.0 is before"),
        ("time", [0.0, 1.0], r"column time has shape \(2,\), the prefix tree has 3 requests"),
        ("time", ["a", "b", "c"], "column time is of type"),
        ("input_tokens", [128, 2**32, 64], "request 1: input_tokens 4294967296 is not in 0..4294967295"),
        ("input_tokens", [-1, 192, 64], "request 0: input_tokens -1 is not in"),
        ("input_tokens", [128.0, 192.0, 64.0], "column input_tokens is of type float64"),
        ("input_tokens", [128, 128, 64], "request 1: input_tokens 128 is too few for its blocks of 64 tokens"),
        ("session", [0, -2, 0], "request 1: session -2 is below -1"),
        ("turn", [0, 0, -7], "request 2: turn -7 is below -1"),
        ("stop", [0, 5, 0], "request 1: stop 5 is above 4"),
        ("tool", [0, 1, 2], r"request 2: tool 2 is not in -1..1 \(tool_names\)"),
        ("gap", [0.0, -0.5, np.nan], "request 1: gap -0.5 is neither NaN nor"),
        ("api_time", [0.0, 1e300, np.nan], "request 1: api_time inf is neither NaN nor"),
        ("subagent", [0, 1, 0], "column subagent is of type int64, not bool"),
        ("colour", [0, 1, 0], "unknown column colour; the columns are time, "),
    ],
)
def test_bad_column(column: str, values: list[Any], message: str) -> None:
    with pytest.raises(TraceError, match=message):
        three_requests(**{column: values})


def test_a_partial_last_block_fits() -> None:
    assert three_requests(input_tokens=[65, 129, 1]).requests == 3


def test_empty_trace() -> None:
    with pytest.raises(TraceError, match="an empty trace"):
        Trace.from_columns(
            PrefixTraceBuilder().finish(), {"time": [], "input_tokens": []}, name="none", block_tokens=64
        )


@pytest.mark.parametrize("block_tokens", [0, -64, 2**31])
def test_block_tokens_out_of_range(block_tokens: int) -> None:
    prefix = PrefixTrace(np.array([-1], np.int32), np.array([0], np.uint32), np.array([0], np.uint32))
    with pytest.raises(TraceError, match=f"block_tokens {block_tokens} is not in 1"):
        Trace.from_columns(prefix, {"time": [0.0], "input_tokens": [1]}, name="one", block_tokens=block_tokens)


def test_missing_column() -> None:
    prefix = PrefixTrace(np.array([-1], np.int32), np.array([0], np.uint32), np.array([0], np.uint32))
    with pytest.raises(TraceError, match="no column input_tokens"):
        Trace.from_columns(prefix, {"time": [0.0]}, name="one", block_tokens=64)


def test_stop_reasons_are_those_of_the_core() -> None:
    assert {reason.name: int(reason) for reason in StopReason} == {
        name: int(value) for name, value in _core.StopReason.__members__.items()
    }


def test_summary_tells_gaps_by_what_came_before() -> None:
    summary = three_requests(
        session=[0, 0, 0],
        turn=[0, 1, 2],
        stop=[1, 2, 0],
        gap=[np.nan, 4.0, 300.0],
        tool=[1, -1, -1],
        time=[0.0, 5.0, 600.0],
    ).summary()
    assert summary["gap_after_tool_use_s"] == {"p50": 4.0, "p90": 4.0, "p99": 4.0}
    assert summary["gap_otherwise_s"] == {"p50": 300.0, "p90": 300.0, "p99": 300.0}
    assert summary["sessions"]["count"] == 1
    assert summary["sessions"]["minutes"]["p50"] == 10.0
    assert summary["stop_reasons"] == {"unknown": 1, "tool_use": 1, "end_turn": 1, "length": 0, "abort": 0}
    assert summary["tools"] == {"read": 0, "shell": 1}
    assert summary["infinite_cache_block_hit"] == pytest.approx(2 / 6)
    assert summary["longest_request_blocks"] == 3


def test_summary_without_sessions() -> None:
    summary = three_requests().summary()
    assert summary["sessions"] is None
    assert summary["stop_reasons"] is None
    assert summary["gap_otherwise_s"] is None
