"""Upper bounds that hold for every policy, online or offline, under the prefix rule.

Each is proven by prices of memory, one a window of requests: the Lagrangian dual of choosing what to keep between two
uses. Better prices prove a lower bound, but every price vector proves one. A bound is conditional on the schedule: it
holds for the requests in the order of the trace, not for a server whose hits make later requests come sooner.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

import numpy as np
from numpy.typing import ArrayLike

from kvopt import _core
from kvopt.cost import DEFAULT_P_STAR, check_p_star
from kvopt.errors import ConfigError
from kvopt.output_file import write_output
from kvopt.simulator.replay import Progress, check_capacities, check_threads
from kvopt.simulator.result import csv_bytes, json_bytes

if TYPE_CHECKING:
    from kvopt.workload.base import Trace

Metric: TypeAlias = Literal["block_hit", "cost_saved"]

METRICS: tuple[Metric, ...] = ("block_hit", "cost_saved")

DEFAULT_STEPS = 1000


@dataclass(frozen=True, slots=True)
class UpperBoundRow:
    """The bound of one metric at one capacity, over the requests that were not skipped."""

    metric: Metric
    """What is bounded: "block_hit" or "cost_saved"."""
    capacity: int
    """Blocks."""
    bound: float
    """No policy's share is above this, 0 to 1."""
    uniform_bound: float
    """The same from one price for the whole trace: what the steps started from."""
    requests: int
    """All requests."""
    skipped: int
    """Requests with at least as many blocks as the capacity."""
    bypass: bool
    """Whether a request's own blocks needed no place while it ran."""
    steps: int
    """Steps until the bound stopped moving."""
    seconds: float
    """On one thread."""


@dataclass(frozen=True, slots=True)
class UpperBounds:
    """Rows ordered by capacity, then by metric, each in the order in which they were asked for."""

    trace: Mapping[str, object]
    """The summary of the trace, `p_star` in tokens, `bypass` and `window`."""
    rows: tuple[UpperBoundRow, ...]

    def row(self, metric: Metric, capacity: int) -> UpperBoundRow:
        """The row of a metric at a capacity; ConfigError when it was not asked for."""
        for row in self.rows:
            if row.metric == metric and row.capacity == capacity:
                return row
        raise ConfigError(f"no bound of {metric!r} at capacity {capacity}")

    def to_dict(self) -> dict[str, Any]:
        """``{"trace": {...}, "bounds": [{"metric": ..., "capacity": ..., ...}]}`` of plain Python values."""
        return {"trace": dict(self.trace), "bounds": [asdict(row) for row in self.rows]}

    def write_json(self, path: str | os.PathLike[str]) -> None:
        """Write `to_dict()` as JSON, whole or not at all. Raises ConfigError or OSError."""
        write_output(path, json_bytes(self.to_dict()))

    def write_csv(self, path: str | os.PathLike[str]) -> None:
        """Write the rows as CSV with one column a field, whole or not at all. Raises ConfigError or OSError."""
        write_output(path, csv_bytes(UpperBoundRow, self.rows))


def upper_bound(
    trace: Trace,
    capacities: Sequence[int] | int,
    metric: Metric | Sequence[Metric] = "block_hit",
    *,
    bypass: bool = False,
    window: int = 1,
    steps: int = DEFAULT_STEPS,
    p_star: float = DEFAULT_P_STAR,
    threads: int | None = None,
    progress: Progress | None = None,
) -> UpperBounds:
    """Bound what any policy can reach on `trace` at each of `capacities` (blocks), by each metric.

    While a request runs, its own blocks fill their share of the capacity, as in a replay and in a server. With
    `bypass` they need no place, so that the bound also holds for `min-bypass`. `window` requests share a price; more of
    them find the prices sooner and prove less. `steps` ends the search early; 0 leaves one price for the whole trace.
    `p_star` (tokens) sets the prefill cost of "cost_saved"; `threads` is at most how many bounds are computed at once.
    Raises ConfigError for a bad argument, before any work starts.
    """
    sizes = check_capacities(capacities)
    metrics = _check_metrics(metric)
    window = _check_count("window", window, 1)
    steps = _check_count("steps", steps, 0)
    p_star = check_p_star(p_star)
    workers = check_threads(threads)
    cells = [(size, name) for size in sizes for name in metrics]
    rows: dict[int, UpperBoundRow] = {}

    def compute(capacity: int, name: Metric) -> UpperBoundRow:
        bound = _core.upper_bound(
            trace.prefix,
            capacity,
            name,
            bypass=bypass,
            window=window,
            steps=steps,
            block_tokens=trace.block_tokens,
            p_star=p_star,
        )
        return UpperBoundRow(
            metric=name,
            capacity=capacity,
            bound=_share(bound.value, bound.total),
            uniform_bound=_share(bound.uniform, bound.total),
            requests=trace.requests,
            skipped=bound.skipped,
            bypass=bypass,
            steps=bound.steps,
            seconds=bound.seconds,
        )

    executor = ThreadPoolExecutor(min(workers, len(cells)), thread_name_prefix="kvopt-replay-bound")
    try:
        futures = {executor.submit(compute, *cell): index for index, cell in enumerate(cells)}
        for future in as_completed(futures):
            rows[futures[future]] = future.result()
            if progress is not None:
                progress(len(rows), len(cells), "bounds")
    except BaseException:
        executor.shutdown(wait=False, cancel_futures=True)
        raise
    executor.shutdown()
    summary = dict(trace.summary()) | {"p_star": p_star, "bypass": bypass, "window": window}
    return UpperBounds(summary, tuple(rows[index] for index in range(len(cells))))


def upper_bound_at(
    trace: Trace,
    prices: ArrayLike,
    capacity: int,
    metric: Metric = "block_hit",
    *,
    bypass: bool = False,
    p_star: float = DEFAULT_P_STAR,
) -> float:
    """The bound (a share, 0 or more) that given prices prove.

    `prices` are float64[requests], finite and at least 0: what it costs to keep a block while each request runs, in hit
    blocks or in units of a first token's prefill. Raises ConfigError for a bad argument.
    """
    (size,) = check_capacities([capacity])
    (name,) = _check_metrics(metric)
    given = np.ascontiguousarray(prices, dtype=np.float64)
    if given.ndim != 1:
        raise ConfigError(f"prices: an array of {given.ndim} dimensions; one price for each request is needed")
    bound = _core.upper_bound_at(
        trace.prefix, given, size, name, bypass=bypass, block_tokens=trace.block_tokens, p_star=check_p_star(p_star)
    )
    return _share(bound.value, bound.total)


def _check_metrics(metric: Metric | Sequence[Metric]) -> list[Metric]:
    asked = [metric] if isinstance(metric, str) else list(dict.fromkeys(metric))
    if not asked:
        raise ConfigError("metric: empty; it must be 'block_hit' or 'cost_saved'")
    for name in asked:
        if name not in METRICS:
            raise ConfigError(f"metric: {name!r} is not 'block_hit' or 'cost_saved'")
    return asked


def _check_count(name: str, value: int, lowest: int) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or not lowest <= value < 2**32 - 1:
        raise ConfigError(f"{name}: {value!r} is not a whole number from {lowest} to {2**32 - 2}")
    return value


def _share(part: float, whole: float) -> float:
    return part / whole if whole else 0.0
