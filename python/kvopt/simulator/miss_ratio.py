"""The LRU miss-ratio curve: the hit ratio at every capacity, from one pass over the trace.

A block that LRU holds at one capacity it also holds at every larger one, so the stack distances of one pass give the
hits at all capacities (Mattson et al., "Evaluation techniques for storage hierarchies", 1970). A capacity that some
request does not fit into skips that request, which changes the sequence that LRU sees; those are replayed one by one.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from typing import TYPE_CHECKING, Any

import numpy as np

from kvopt import _core
from kvopt.cost import DEFAULT_P_STAR, check_p_star
from kvopt.errors import ConfigError
from kvopt.output_file import write_output
from kvopt.simulator.measure import HitFigures, RequestWeights
from kvopt.simulator.replay import Progress, check_capacity, replay
from kvopt.simulator.result import csv_bytes, json_bytes

if TYPE_CHECKING:
    from kvopt.workload.base import Trace

DEFAULT_POINTS = 40


@dataclass(frozen=True, slots=True)
class MissRatioPoint:
    """LRU at one capacity. The ratios are over the requests that were not skipped."""

    policy: str
    """Always "lru"."""
    capacity: int
    """Blocks."""
    miss_ratio: float
    """1 - `block_hit`."""
    block_hit: float
    """Hit blocks / referenced blocks, 0 to 1."""
    token_hit: float
    """Hit tokens, at most the input of each request, / input tokens, 0 to 1."""
    cost_saved: float
    """Prefill cost of the hits / prefill cost of all blocks, 0 to 1."""
    requests: int
    """All requests."""
    skipped: int
    """Requests that do not fit into the capacity."""
    block_references: int
    replayed: bool
    """True when the capacity was replayed by itself, because it is no larger than the longest request."""


@dataclass(frozen=True, slots=True)
class MissRatioCurve:
    """Points by rising capacity."""

    trace: Mapping[str, object]
    """The summary of the trace, and `p_star` in tokens."""
    points: tuple[MissRatioPoint, ...]

    def to_dict(self) -> dict[str, Any]:
        """``{"trace": {...}, "rows": [{"policy": "lru", "capacity": ..., ...}]}`` of plain Python values."""
        return {"trace": dict(self.trace), "rows": [asdict(point) for point in self.points]}

    def write_json(self, path: str | os.PathLike[str]) -> None:
        """Write `to_dict()` as JSON, whole or not at all. Raises ConfigError or OSError."""
        write_output(path, json_bytes(self.to_dict()))

    def write_csv(self, path: str | os.PathLike[str]) -> None:
        """Write the points as CSV with one column a field, whole or not at all. Raises ConfigError or OSError."""
        write_output(path, csv_bytes(MissRatioPoint, self.points))


def miss_ratio_curve(
    trace: Trace,
    capacities: Sequence[int] | None = None,
    *,
    p_star: float = DEFAULT_P_STAR,
    threads: int | None = None,
    progress: Progress | None = None,
) -> MissRatioCurve:
    """LRU's hit ratio at each of `capacities` (blocks; 40 from 1 to the trace's unique blocks unless given).

    Capacities above the longest request cost one pass together; each other costs a replay, and its point says so.
    `p_star` (tokens) sets the prefill cost of `cost_saved`. Raises ConfigError for an empty list, a bad capacity or
    a bad `p_star`, before any work starts.
    """
    p_star = check_p_star(p_star)
    prefix = trace.prefix
    if capacities is None:
        asked = even_steps(1, max(prefix.unique_blocks, prefix.longest_request + 1))
    else:
        asked = [check_capacity(capacity) for capacity in capacities]
    if not asked:
        raise ConfigError("capacities: empty; give at least one capacity in blocks")
    sizes = sorted(set(asked))
    points: list[MissRatioPoint] = []
    short = [size for size in sizes if size <= prefix.longest_request]
    if short:
        for row in replay(trace, "lru", short, p_star=p_star, threads=threads, progress=progress).rows:
            figures = HitFigures(**{field.name: getattr(row, field.name) for field in fields(HitFigures)})
            points.append(_point(row.capacity, figures, replayed=True))
    long = sizes[len(short) :]
    if long:
        distances = _core.lru_stack_distances(prefix)
        weights = RequestWeights(trace, p_star)
        none_skipped = np.zeros(prefix.requests, dtype=np.bool_)
        for size in long:
            figures = weights.figures(distances.request_hits_at(size), none_skipped)
            points.append(_point(size, figures, replayed=False))
    return MissRatioCurve(dict(trace.summary()) | {"p_star": p_star}, tuple(points))


def even_steps(first: int, last: int, points: int = DEFAULT_POINTS) -> list[int]:
    """At most `points` whole numbers from `first` to `last`, both kept, evenly spaced on a logarithmic axis."""
    steps = np.unique(np.rint(np.geomspace(first, max(first, last), points)).astype(np.int64))
    return [int(step) for step in steps]


def _point(capacity: int, figures: HitFigures, *, replayed: bool) -> MissRatioPoint:
    miss_ratio = 1.0 - figures.block_hit
    return MissRatioPoint(policy="lru", capacity=capacity, miss_ratio=miss_ratio, replayed=replayed, **asdict(figures))
