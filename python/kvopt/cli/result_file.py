"""Reading back what `kvopt compare --json` and `kvopt mrc --json` wrote."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, Literal

import msgspec

from kvopt.errors import TraceError

_Share = Annotated[float, msgspec.Meta(ge=0.0, le=1.0)]


class ResultRow(msgspec.Struct, frozen=True):
    """One policy at one capacity (blocks); ratios from 0 to 1."""

    policy: Annotated[str, msgspec.Meta(min_length=1)]
    capacity: Annotated[int, msgspec.Meta(ge=1)]
    block_hit: _Share
    cost_saved: _Share | None = None
    requests: Annotated[int, msgspec.Meta(ge=0)] = 0
    skipped: Annotated[int, msgspec.Meta(ge=0)] = 0


class ResultTrace(msgspec.Struct, frozen=True):
    """What of the trace's summary a figure shows."""

    name: str = ""
    block_tokens: Annotated[int, msgspec.Meta(ge=1)] | None = None


class ResultBound(msgspec.Struct, frozen=True):
    """What no policy exceeds by one metric at one capacity (blocks); with `bypass` running requests need no memory."""

    metric: Literal["block_hit", "cost_saved"]
    capacity: Annotated[int, msgspec.Meta(ge=1)]
    bound: _Share
    requests: Annotated[int, msgspec.Meta(ge=0)] = 0
    skipped: Annotated[int, msgspec.Meta(ge=0)] = 0
    bypass: bool = False


class Result(msgspec.Struct, frozen=True):
    """The trace, its rows, and what no policy exceeds."""

    trace: ResultTrace
    rows: Annotated[tuple[ResultRow, ...], msgspec.Meta(min_length=1)]
    bounds: tuple[ResultBound, ...] = ()

    def bound_rows(self) -> list[ResultRow]:
        """The bounds as rows of policies that are called "bound" and "bound-bypass", where both metrics are known."""
        hits = {(each.bypass, each.capacity): each for each in self.bounds if each.metric == "block_hit"}
        saved = {(each.bypass, each.capacity): each.bound for each in self.bounds if each.metric == "cost_saved"}
        return [
            ResultRow(
                "bound-bypass" if bypass else "bound",
                capacity,
                hit.bound,
                saved[bypass, capacity],
                hit.requests,
                hit.skipped,
            )
            for (bypass, capacity), hit in hits.items()
            if (bypass, capacity) in saved
        ]


def read_result(path: Path) -> Result:
    """Read a result file.

    Raises OSError when it cannot be read, TraceError when it is corrupt, foreign, or repeats a policy and capacity.
    """
    content = path.read_bytes()
    try:
        result = msgspec.json.decode(content, type=Result)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise TraceError(f"{path}: not a JSON result of kvopt compare or kvopt mrc: {error}") from None
    seen: set[tuple[str, int]] = set()
    for number, row in enumerate((*result.rows, *result.bound_rows())):
        if (row.policy, row.capacity) in seen:
            raise TraceError(f"{path}: rows[{number}]: policy {row.policy!r} at capacity {row.capacity} comes twice")
        seen.add((row.policy, row.capacity))
    for number, bound in enumerate(result.bounds):
        if bound in result.bounds[:number]:
            raise TraceError(f"{path}: bounds[{number}]: {bound.metric} at capacity {bound.capacity} comes twice")
    return result


def result_of(document: dict[str, Any]) -> Result:
    """The same from a document that was never written."""
    return msgspec.convert(document, Result)
