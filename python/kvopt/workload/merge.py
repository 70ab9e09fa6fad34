"""Several traces as one: their requests in order of time, their sessions and blocks kept apart."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from kvopt._core import PrefixTrace
from kvopt.errors import ConfigError, TraceError
from kvopt.workload.base import COLUMNS, Progress, Trace, Workload


def merge_traces(traces: Sequence[Trace], *, name: str | None = None) -> Trace:
    """Merge traces by time; requests at the same time stay in the order in which the traces are given.

    Blocks and sessions of different traces are different; tools of the same name are the same.

    Args:
        traces: at least one; all with the same ``block_tokens``.
        name: of the result; by default the names joined by ``+``.

    Raises:
        ConfigError: no trace was given.
        TraceError: the traces differ in ``block_tokens``.
    """
    if not traces:
        raise ConfigError("no traces to merge; at least one is needed")
    sizes = {trace.block_tokens for trace in traces}
    if len(sizes) > 1:
        told = ", ".join(f"{trace.name}: {trace.block_tokens}" for trace in traces)
        raise TraceError(f"traces with blocks of different size cannot be merged (tokens a block: {told})")
    columns = {column: [getattr(trace, column) for trace in traces] for column in COLUMNS}
    tools = {tool: index for index, tool in enumerate(dict.fromkeys(t for trace in traces for t in trace.tool_names))}
    parents = []
    requests = sessions = 0
    for part, trace in enumerate(traces):
        parent = trace.prefix.parent.astype(np.int64)
        parents.append(np.where(parent >= 0, parent + requests, -1))
        requests += trace.requests
        session = trace.session.astype(np.int64)
        columns["session"][part] = np.where(session >= 0, session + sessions, -1)
        sessions += int(session.max()) + 1
        renumbered = np.array([tools[tool] for tool in trace.tool_names] + [-1], dtype=np.int32)
        columns["tool"][part] = renumbered[trace.tool]
    order = np.argsort(np.concatenate(columns["time"]), kind="stable")
    return Trace.from_columns(
        reordered_prefix(
            np.concatenate(parents),
            np.concatenate([trace.prefix.shared_blocks for trace in traces]),
            np.concatenate([trace.prefix.new_blocks for trace in traces]),
            order,
        ),
        {column: np.concatenate(values)[order] for column, values in columns.items()},
        name=name or "+".join(trace.name for trace in traces),
        block_tokens=sizes.pop(),
        tool_names=tuple(tools),
        source={"format": "merge", "parts": [{"name": trace.name, "source": dict(trace.source)} for trace in traces]},
    )


def reordered_prefix(
    parent: np.ndarray[tuple[int], np.dtype[np.int64]],
    shared_blocks: np.ndarray[tuple[int], np.dtype[np.uint32]],
    new_blocks: np.ndarray[tuple[int], np.dtype[np.uint32]],
    order: np.ndarray[tuple[int], np.dtype[np.int64]],
) -> PrefixTrace:
    """The prefix tree of requests in another order that keeps every parent before its children."""
    place = np.empty(len(order), dtype=np.int64)
    place[order] = np.arange(len(order))
    moved = parent[order]
    moved = np.where(moved >= 0, place[moved], -1)
    return PrefixTrace(moved.astype(np.int32), shared_blocks[order], new_blocks[order])


@dataclass(frozen=True, slots=True)
class Mixture(Workload):
    """Several workloads at once, merged by time.

    Raises:
        ConfigError: there is no part.
    """

    parts: tuple[Workload, ...]
    title: str = "mixture"

    def __post_init__(self) -> None:
        if not self.parts:
            raise ConfigError("a mixture needs at least one part")

    @property
    def name(self) -> str:
        """The title."""
        return self.title

    def load(self, progress: Progress | None = None) -> Trace:
        """Load all parts and merge them."""
        return merge_traces([part.load(progress) for part in self.parts], name=self.title)
