"""The figures by which a trace is known: counts, lengths, gaps, sessions."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from kvopt.workload.base import StopReason, Trace

PERCENTILES = (50, 90, 99)


def summarize(trace: Trace) -> dict[str, Any]:
    """What ``kvopt trace info`` shows, as JSON values (None for what the trace does not know).

    Lengths are in tokens, times in seconds; ``infinite_cache_block_hit`` is the share of block references that an
    unlimited cache hits. Percentiles are ``{"p50": ..., "p90": ..., "p99": ...}``.
    """
    references = trace.block_references
    return {
        "name": trace.name,
        "block_tokens": trace.block_tokens,
        "requests": trace.requests,
        "block_references": references,
        "unique_blocks": trace.unique_blocks,
        "longest_request_blocks": trace.prefix.longest_request,
        "infinite_cache_block_hit": 1 - trace.unique_blocks / references if references else None,
        "duration_s": trace.duration,
        "input_tokens": percentiles(trace.input_tokens),
        "output_tokens": percentiles(trace.output_tokens),
        "sessions": _sessions(trace) if trace.has_sessions else None,
        "stop_reasons": _stop_reasons(trace) if trace.has_stop_reasons else None,
        "gap_after_tool_use_s": percentiles(trace.gap[_after_tool_use(trace)]),
        "gap_otherwise_s": percentiles(trace.gap[~_after_tool_use(trace)]),
        "tools": _tools(trace),
        "source": dict(trace.source),
    }


def percentiles(values: NDArray[Any]) -> dict[str, float] | None:
    """p50, p90 and p99 of the values that are not NaN, or None when there are none."""
    known = values[~np.isnan(values)]
    if known.size == 0:
        return None
    return {f"p{p}": round(float(v), 3) for p, v in zip(PERCENTILES, np.percentile(known, PERCENTILES), strict=True)}


def previous_in_session(trace: Trace) -> NDArray[np.int64]:
    """For each request the request before it in its session (its sub-agent apart from the rest), or -1 (int64[R]).

    All sub-agents of a session count as one line of requests; a turn 0 starts a new one.
    """
    order = np.lexsort((np.arange(trace.requests), trace.subagent, trace.session))
    line = np.stack((trace.session[order], trace.subagent[order].astype(np.int32)))
    same = (line[:, 1:] == line[:, :-1]).all(axis=0) & (trace.session[order][1:] >= 0) & (trace.turn[order][1:] != 0)
    previous = np.full(trace.requests, -1, dtype=np.int64)
    previous[order[1:][same]] = order[:-1][same]
    return previous


def _after_tool_use(trace: Trace) -> NDArray[np.bool_]:
    previous = previous_in_session(trace)
    after: NDArray[np.bool_] = (previous >= 0) & (trace.stop[previous] == StopReason.TOOL_USE)
    return after


def _sessions(trace: Trace) -> dict[str, Any]:
    known = trace.session >= 0
    own = known & ~trace.subagent
    _, index = np.unique(trace.session[own], return_inverse=True)
    first = np.full(index.max(initial=-1) + 1, np.inf)
    last = np.full(first.size, -np.inf)
    np.minimum.at(first, index, trace.time[own])
    np.maximum.at(last, index, trace.time[own])
    return {
        "count": int(np.unique(trace.session[known]).size),
        "requests": percentiles(np.bincount(index).astype(np.float64)),
        "minutes": percentiles((last - first) / 60),
        "subagent_requests": int(trace.subagent.sum()),
    }


def _stop_reasons(trace: Trace) -> dict[str, int]:
    counts = np.bincount(trace.stop, minlength=len(StopReason))
    return {reason.name.lower(): int(counts[reason]) for reason in StopReason}


def _tools(trace: Trace) -> dict[str, int] | None:
    if not trace.tool_names:
        return None
    counts = np.bincount(trace.tool[trace.tool >= 0], minlength=len(trace.tool_names))
    return {tool: int(count) for tool, count in zip(trace.tool_names, counts, strict=True)}
