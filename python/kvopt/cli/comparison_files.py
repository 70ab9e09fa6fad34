"""What `kvopt compare` writes: the rows asked for, the bounds beside them, and the report."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from kvopt.simulator.result import ReplayRow, csv_bytes, json_bytes

if TYPE_CHECKING:
    from kvopt.simulator import ReplayResult, UpperBounds
    from kvopt.simulator.regime import RegimeReport


@dataclass(frozen=True, slots=True)
class BoundLine:
    """Both bounds of one capacity as a line beside policies: the fields of ReplayRow, None where a bound has none."""

    policy: str
    """"bound", or "bound-bypass" where running requests need no memory."""
    capacity: int
    block_hit: float
    token_hit: None
    cost_saved: float
    evictions: None
    requests: int
    skipped: int
    block_references: int
    seconds: float


def bound_lines(bounds: Sequence[UpperBounds], result: ReplayResult) -> list[BoundLine]:
    """A line for each capacity of the result and each of `bounds`, which hold both metrics at each."""
    lines = []
    for capacity in result.capacities:
        references = next(row.block_references for row in result.rows if row.capacity == capacity)
        for each in bounds:
            hit, saved = each.row("block_hit", capacity), each.row("cost_saved", capacity)
            lines.append(
                BoundLine(
                    policy="bound-bypass" if hit.bypass else "bound",
                    capacity=capacity,
                    block_hit=hit.bound,
                    token_hit=None,
                    cost_saved=saved.bound,
                    evictions=None,
                    requests=hit.requests,
                    skipped=hit.skipped,
                    block_references=references,
                    seconds=hit.seconds + saved.seconds,
                )
            )
    return lines


def comparison_json(
    result: ReplayResult, bounds: Sequence[UpperBounds], report: RegimeReport, sentences: Sequence[str]
) -> bytes:
    """``{"trace": ..., "rows": [...], "bounds": [...], "report": {...}}``; no "bounds" where none were asked for."""
    rows = [row for each in bounds for row in each.to_dict()["bounds"]]
    told = report.to_dict() | {"sentences": list(sentences)}
    return json_bytes(result.to_dict() | ({"bounds": rows} if bounds else {}) | {"report": told})


def comparison_csv(result: ReplayResult, bounds: Sequence[BoundLine]) -> bytes:
    """One line a row, by capacity, its bounds after its policies; empty where a bound has no such figure."""
    lines: list[ReplayRow | BoundLine] = []
    for capacity in result.capacities:
        lines += [row for row in result.rows if row.capacity == capacity]
        lines += [line for line in bounds if line.capacity == capacity]
    return csv_bytes(ReplayRow, lines)
