"""What a workload is: requests in the order of their arrival, and the prefix tree of their blocks."""

from __future__ import annotations

import enum
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, DTypeLike, NDArray

from kvopt._core import PrefixTrace
from kvopt.errors import TraceError

Progress: TypeAlias = Callable[[int, int | None, str], None]
"""Called now and then as ``progress(done, total, what)``; ``total`` is None while it is unknown."""


class StopReason(enum.IntEnum):
    """Why the answer to a request ended, as far as the trace tells."""

    UNKNOWN = 0
    TOOL_USE = 1
    END_TURN = 2
    LENGTH = 3
    ABORT = 4


class Workload(ABC):
    """Anything that yields a trace: a file in some format, or a generator with its parameters."""

    @property
    @abstractmethod
    def name(self) -> str:
        """Short name for tables and file metadata."""

    @abstractmethod
    def load(self, progress: Progress | None = None) -> Trace:
        """Read or generate the whole trace.

        Raises:
            TraceError: the data break their format.
            OSError: a file cannot be read.
        """


@dataclass(frozen=True, slots=True, eq=False)
class Trace:
    """R requests in arrival order, one entry a request in every column.

    The columns are checked and copied on construction and read-only afterwards. :meth:`from_columns` fills in
    "unknown" for whatever a source does not know.

    Attributes:
        prefix: the blocks of every request, as a prefix tree of R requests.
        time: arrival in seconds, finite, not negative, never decreasing (float64[R]).
        input_tokens: prompt length (uint32[R]); it holds all blocks of the request, the last one perhaps in part.
        output_tokens: answer length (uint32[R]).
        session: number of the session or -1 if unknown (int32[R]).
        turn: position of the request within its session or its sub-agent; 0 is the first, -1 unknown (int32[R]).
        stop: a :class:`StopReason` (uint8[R]).
        tool: index into ``tool_names`` of the tool that the answer calls, or -1 (int32[R]).
        gap: seconds at the client between the previous answer of the same session and this request, NaN where there is
            none or it is unknown (float32[R]).
        subagent: whether a sub-agent of the session sent the request (bool[R]).
        api_time: seconds that the server took for the answer, NaN if unknown (float32[R]).
        steps: a client's hint: requests of the session until this prefix is needed again, -1 unknown (int32[R]).
        return_probability: a hint: how likely the session goes on, 0 to 1, NaN unknown (float32[R]).
        name: short name of the trace.
        block_tokens: tokens in a full block, at least 1.
        tool_names: distinct names that ``tool`` refers to.
        source: how the trace was made; JSON values only.

    Raises:
        TraceError: a column has the wrong length, type or a value out of range; names the first such request.
    """

    prefix: PrefixTrace
    time: NDArray[np.float64]
    input_tokens: NDArray[np.uint32]
    output_tokens: NDArray[np.uint32]
    session: NDArray[np.int32]
    turn: NDArray[np.int32]
    stop: NDArray[np.uint8]
    tool: NDArray[np.int32]
    gap: NDArray[np.float32]
    subagent: NDArray[np.bool_]
    api_time: NDArray[np.float32]
    steps: NDArray[np.int32]
    return_probability: NDArray[np.float32]
    name: str
    block_tokens: int
    tool_names: tuple[str, ...] = ()
    source: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        requests = self.prefix.requests
        if requests == 0:
            raise TraceError(f"{self.name}: an empty trace; at least one request is needed")
        if not 1 <= self.block_tokens < 2**31:
            raise TraceError(f"{self.name}: block_tokens {self.block_tokens} is not in 1..2147483647")
        if len(set(self.tool_names)) != len(self.tool_names):
            raise TraceError(f"{self.name}: tool_names repeats a name: {list(self.tool_names)}")
        for column, dtype in COLUMNS.items():
            object.__setattr__(self, column, _checked(self.name, column, getattr(self, column), dtype, requests))
        self._check_values()

    def _check_values(self) -> None:
        self._refuse("time", ~np.isfinite(self.time) | (self.time < 0), "is not a finite number >= 0")
        backwards = np.zeros(len(self.time), dtype=bool)
        backwards[1:] = np.diff(self.time) < 0
        self._refuse("time", backwards, "is before the time of the request before it")
        self._refuse("session", self.session < -1, "is below -1")
        self._refuse("turn", self.turn < -1, "is below -1")
        self._refuse("stop", self.stop > max(StopReason), f"is above {int(max(StopReason))}, the last stop reason")
        unknown_tool = (self.tool < -1) | (self.tool >= len(self.tool_names))
        self._refuse("tool", unknown_tool, f"is not in -1..{len(self.tool_names) - 1} (tool_names)")
        self._refuse("gap", np.isinf(self.gap) | (self.gap < 0), "is neither NaN nor a finite number >= 0")
        self._refuse(
            "api_time", np.isinf(self.api_time) | (self.api_time < 0), "is neither NaN nor a finite number >= 0"
        )
        self._refuse("steps", self.steps < -1, "is below -1")
        chance = self.return_probability
        self._refuse("return_probability", (chance < 0) | (chance > 1), "is neither NaN nor from 0 to 1")
        room = -(-self.input_tokens.astype(np.int64) // self.block_tokens)
        self._refuse(
            "input_tokens", self.chain_blocks() > room, f"is too few for its blocks of {self.block_tokens} tokens"
        )

    def _refuse(self, column: str, bad: NDArray[np.bool_], why: str) -> None:
        if bad.any():
            request = int(np.argmax(bad))
            raise TraceError(f"{self.name}: request {request}: {column} {getattr(self, column)[request]} {why}")

    @classmethod
    def from_columns(
        cls,
        prefix: PrefixTrace,
        columns: Mapping[str, ArrayLike],
        *,
        name: str,
        block_tokens: int,
        tool_names: tuple[str, ...] = (),
        source: Mapping[str, Any] | None = None,
    ) -> Trace:
        """Make a trace from the columns that are known; the others become "unknown".

        ``columns`` must hold ``time`` and ``input_tokens``.

        Raises:
            TraceError: as the constructor; also for a column that is missing or does not exist.
        """
        strange = sorted(set(columns) - set(COLUMNS))
        missing = [column for column in COLUMNS if column not in columns and column not in UNKNOWN]
        if strange or missing:
            wrong = [f"no column {column}" for column in missing] + [f"unknown column {column}" for column in strange]
            raise TraceError(f"{name}: {', '.join(wrong)}; the columns are {', '.join(COLUMNS)}")
        filled: dict[str, Any] = {
            column: columns[column] if column in columns else np.full(prefix.requests, UNKNOWN[column], dtype=dtype)
            for column, dtype in COLUMNS.items()
        }
        return cls(
            prefix=prefix, name=name, block_tokens=block_tokens, tool_names=tool_names, source=source or {}, **filled
        )

    @property
    def requests(self) -> int:
        """How many requests, R."""
        return self.prefix.requests

    @property
    def block_references(self) -> int:
        """Blocks of all requests, counted each time."""
        return self.prefix.block_references

    @property
    def unique_blocks(self) -> int:
        """Different blocks."""
        return self.prefix.unique_blocks

    @property
    def duration(self) -> float:
        """Seconds from the first arrival to the last."""
        return float(self.time[-1] - self.time[0])

    @property
    def has_sessions(self) -> bool:
        """Whether any request says to which session it belongs."""
        return bool((self.session >= 0).any())

    @property
    def has_stop_reasons(self) -> bool:
        """Whether any request says why its answer ended."""
        return bool((self.stop != StopReason.UNKNOWN).any())

    def knows(self, column: str) -> bool:
        """Whether any request has a value in this column; never where a trace has no such column."""
        if column not in COLUMNS:
            return False
        values = getattr(self, column)
        if column not in UNKNOWN:
            return bool(values.size)
        known = ~np.isnan(values) if values.dtype.kind == "f" else values != UNKNOWN[column]
        return bool(known.any())

    def chain_blocks(self) -> NDArray[np.int64]:
        """Blocks of each request (int64[R])."""
        return self.prefix.shared_blocks.astype(np.int64) + self.prefix.new_blocks

    def columns(self) -> dict[str, NDArray[Any]]:
        """All columns by name."""
        return {column: getattr(self, column) for column in COLUMNS}

    def summary(self) -> dict[str, Any]:
        """Counts, lengths and gaps as JSON values; see :func:`kvopt.workload.summary.summarize`."""
        from kvopt.workload.summary import summarize

        return summarize(self)

    def __repr__(self) -> str:
        return (
            f"Trace({self.name!r}, requests={self.requests}, block_references={self.block_references}, "
            f"unique_blocks={self.unique_blocks}, block_tokens={self.block_tokens})"
        )


COLUMNS: dict[str, Any] = {
    "time": np.float64,
    "input_tokens": np.uint32,
    "output_tokens": np.uint32,
    "session": np.int32,
    "turn": np.int32,
    "stop": np.uint8,
    "tool": np.int32,
    "gap": np.float32,
    "subagent": np.bool_,
    "api_time": np.float32,
    "steps": np.int32,
    "return_probability": np.float32,
}
"""Every per-request column and its type."""

UNKNOWN: dict[str, Any] = {
    "output_tokens": 0,
    "session": -1,
    "turn": -1,
    "stop": StopReason.UNKNOWN,
    "tool": -1,
    "gap": np.nan,
    "subagent": False,
    "api_time": np.nan,
    "steps": -1,
    "return_probability": np.nan,
}
"""What stands in a column that a source knows nothing of."""


def _checked(trace: str, column: str, values: ArrayLike, dtype: DTypeLike, requests: int) -> NDArray[Any]:
    """A read-only copy of one column as ``dtype``, or TraceError."""
    given = np.asarray(values)
    wanted = np.dtype(dtype)
    if given.shape != (requests,):
        raise TraceError(f"{trace}: column {column} has shape {given.shape}, the prefix tree has {requests} requests")
    accepted = {"f": "fiu", "i": "iu", "u": "iu", "b": "b"}[wanted.kind]
    if given.dtype.kind not in accepted:
        raise TraceError(f"{trace}: column {column} is of type {given.dtype}, not {wanted}")
    if wanted.kind in "iu" and given.dtype != wanted:
        limits = np.iinfo(wanted)
        bad = (given < limits.min) | (given > limits.max)
        if bad.any():
            request = int(np.argmax(bad))
            raise TraceError(
                f"{trace}: request {request}: {column} {given[request]} is not in {limits.min}..{limits.max}"
            )
    with np.errstate(over="ignore"):  # an overflow becomes inf and is refused by name
        checked = np.array(given, dtype=wanted)
    checked.setflags(write=False)
    return checked
