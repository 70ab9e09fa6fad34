"""Some sessions of a trace as a trace of its own, perhaps at other times: for folds, and merges of another seed."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from kvopt._core import PrefixTraceBuilder
from kvopt.errors import ConfigError
from kvopt.workload.base import Trace


def take_sessions(
    trace: Trace, sessions: ArrayLike, *, delays: ArrayLike | None = None, name: str | None = None
) -> Trace:
    """The requests of these sessions, which keep their numbers, sorted by time; ties by session, then as they were.

    Args:
        trace: its requests without a session are left out.
        sessions: whole numbers of sessions, int[S], without repeats.
        delays: seconds to add to the times of each of them, float[S]; they may be negative.
        name: of the result; the trace's own unless given.

    Raises:
        ConfigError: no sessions, a repeated or unknown one, or `delays` of another length.
        TraceError: a delay puts a request before time 0.
    """
    wanted = np.asarray(sessions)
    if wanted.ndim != 1 or wanted.dtype.kind not in "iu" or not wanted.size:
        raise ConfigError(f"sessions: {sessions!r} is not a list of session numbers")
    numbers, counts = np.unique(wanted, return_counts=True)
    if counts.max() > 1:
        raise ConfigError(f"sessions: {numbers[counts > 1][0]} comes twice")
    unknown = np.setdiff1d(numbers, trace.session[trace.session >= 0])
    if unknown.size:
        raise ConfigError(f"sessions: no request of {trace.name} is of session {unknown[0]}")
    moved = np.zeros(wanted.size) if delays is None else np.asarray(delays, np.float64)
    if moved.shape != wanted.shape:
        raise ConfigError(f"delays: of shape {moved.shape}, for {wanted.size} sessions")
    delay = np.zeros(int(numbers[-1]) + 1)
    delay[wanted] = moved
    kept = np.flatnonzero(np.isin(trace.session, numbers))
    time = trace.time[kept] + delay[trace.session[kept]]
    order = np.lexsort((trace.session[kept], time))
    builder = PrefixTraceBuilder()
    for request in kept[order]:
        builder.append(trace.prefix.chain(int(request)).astype(np.uint64))
    columns = {column: values[kept[order]] for column, values in trace.columns().items()}
    return Trace.from_columns(
        builder.finish(),
        columns | {"time": time[order]},
        name=name or trace.name,
        block_tokens=trace.block_tokens,
        tool_names=trace.tool_names,
        source={"format": "sessions", "sessions": int(wanted.size), "of": dict(trace.source)},
    )
