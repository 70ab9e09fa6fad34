"""How much memory meets an SLO, and under which policy: bisection over simulations, with all its evidence."""

from __future__ import annotations

import math
import os
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from kvopt.errors import ConfigError
from kvopt.metrics import Confidence, confidence
from kvopt.output_file import write_output
from kvopt.simulator.bisection import LeastCapacity
from kvopt.simulator.replay import check_capacity
from kvopt.simulator.result import json_bytes
from kvopt.simulator.slo import Slo
from kvopt.simulator.sweep.cell import Cell, CellRunner, Job, Loaders, Row, ServerSetup
from kvopt.simulator.workers import local_workers
from kvopt.workload.parquet import write_parquet

if TYPE_CHECKING:
    from kvopt.workload.base import Trace

Progress: TypeAlias = Callable[[int, "int | None", str], None]

KIND = "kvopt-advice"
FORMAT_VERSION = 1


@dataclass(frozen=True, slots=True)
class Evidence:
    """One policy under one scheduler at one capacity: what it reached, over all seeds."""

    policy: str
    scheduler: str
    capacity: int
    """Blocks, the null block included."""
    figures: tuple[Confidence, ...]
    """One for each SLO, in their order."""
    seeds_met: tuple[int, ...]
    """In how many runs each SLO was met."""
    refused: float
    """Requests larger than the cache, the mean over seeds."""
    met: bool
    """Whether every SLO is met with the confidence that `advise` says, and nothing was refused."""


@dataclass(frozen=True, slots=True)
class Candidate:
    """The least capacity of one policy under one scheduler; None where the largest does not meet the SLOs."""

    policy: str
    scheduler: str
    capacity: int | None
    monotone: bool
    """Whether no capacity that was simulated fails above one that passes."""
    evidence: tuple[Evidence, ...]
    """Every capacity that was simulated, the smallest first."""


@dataclass(frozen=True, slots=True)
class Advice:
    """What `advise` found."""

    trace: dict[str, Any]
    slos: tuple[Slo, ...]
    low: int
    high: int
    tolerance: float
    seeds: tuple[int, ...]
    setup: dict[str, Any]
    candidates: tuple[Candidate, ...]
    """The best first: the least capacity, then the better figure of the first SLO; last who does not meet them."""

    @property
    def best(self) -> Candidate | None:
        """The first candidate; None where none meets the SLOs."""
        return self.candidates[0] if self.candidates[0].capacity is not None else None

    def to_dict(self) -> dict[str, Any]:
        """The advice as JSON values; docs/sweep.md describes it."""
        best = self.best
        answer = None if best is None else {name: getattr(best, name) for name in ("policy", "scheduler", "capacity")}
        return {
            "kind": KIND,
            "format_version": FORMAT_VERSION,
            "trace": self.trace,
            "setup": self.setup,
            "slos": [asdict(slo) for slo in self.slos],
            "range": {"low": self.low, "high": self.high, "tolerance": self.tolerance},
            "seeds": list(self.seeds),
            "answer": answer,
            "candidates": [asdict(candidate) for candidate in self.candidates],
        }

    def write_json(self, path: str | os.PathLike[str]) -> None:
        """Write `to_dict()` as JSON, whole or not at all; what is not a number is null. Raises ConfigError, OSError."""
        write_output(path, json_bytes(self.to_dict()))


def default_range(trace: Trace) -> tuple[int, int]:
    """Blocks from what the longest request needs with its answer and the null block, to all of the trace's blocks."""
    tokens = trace.input_tokens.astype(np.int64) + trace.output_tokens
    least = -(-int(tokens.max(initial=0)) // trace.block_tokens) + 1
    least = max(least, trace.prefix.longest_request + 2)
    return least, max(trace.unique_blocks + 1, least)


def advise(
    trace: Trace,
    slos: Sequence[Slo | str],
    policies: Sequence[str],
    low: int,
    high: int,
    setup: ServerSetup,
    *,
    schedulers: Sequence[str] = ("fifo",),
    rate: float = 1.0,
    seeds: int = 3,
    tolerance: float = 0.05,
    jobs: int = 1,
    loaders: Loaders | None = None,
    progress: Progress | None = None,
) -> Advice:
    """The least capacity from `low` to `high` blocks at which each policy meets all `slos`, to within `tolerance`.

    One seed: the arrivals of the trace, and a figure meets its SLO when it keeps the limit. More: seeds 1 and up, and
    the far end of the 95 % interval of the mean (Student's t) must keep it. A capacity that refuses requests meets
    nothing, unless an SLO limits ``refused``. Runs are spread over `jobs` processes, which changes no figure.

    Everything is checked first: ConfigError and its kinds. Raises what `simulate` raises.
    """
    wanted = tuple(slo if isinstance(slo, Slo) else Slo.parse(slo) for slo in slos)
    if not wanted:
        raise ConfigError("slo: give at least one, such as ttft_p99<2s")
    low, high = check_capacity(low), check_capacity(high)
    if low > high:
        raise ConfigError(f"capacity: the range from {low} to {high} blocks is empty")
    if isinstance(seeds, bool) or not isinstance(seeds, int) or seeds < 1:
        raise ConfigError(f"seeds: {seeds!r} is not a whole number from 1 up")
    if not 0.001 <= tolerance <= 1:
        raise ConfigError(f"tolerance: {tolerance!r} is not from 0.001 to 1")
    numbers = (0,) if seeds == 1 else tuple(range(1, seeds + 1))
    pairs = [(policy, line) for line in dict.fromkeys(schedulers) for policy in dict.fromkeys(policies)]
    if not pairs:
        raise ConfigError("policies and schedulers: name at least one of each")
    job = Job(setup, loaders or Loaders())
    CellRunner(trace, job).check([Cell(*pair, size, rate) for pair in pairs for size in (low, high)])
    searches = {pair: LeastCapacity(low, high, tolerance) for pair in pairs}
    evidence: dict[tuple[str, str], list[Evidence]] = {pair: [] for pair in pairs}
    done = 0
    with tempfile.TemporaryDirectory(prefix="kvopt-advise-") as folder:
        path = Path(folder) / "trace.parquet"
        write_parquet(trace, path)
        workers = local_workers(path, job, jobs)
        try:
            while asked := {pair: size for pair in pairs if (size := searches[pair].next()) is not None}:
                # Every policy's next capacity at once, so that all cores have work.
                cells = [Cell(*pair, size, rate, seed) for pair, size in asked.items() for seed in numbers]
                rows: dict[Cell, Row] = {}
                for cell, row in workers.run(cells):
                    rows[cell] = row
                    done += 1
                    if progress is not None:
                        progress(done, None, "runs")
                for pair, size in asked.items():
                    found = _evidence(wanted, [rows[Cell(*pair, size, rate, seed)] for seed in numbers])
                    evidence[pair].append(found)
                    searches[pair].tell(size, found.met)
        finally:
            workers.close()
    candidates = [_candidate(searches[pair], evidence[pair]) for pair in pairs]
    return Advice(
        trace=dict(trace.summary()),
        slos=wanted,
        low=low,
        high=high,
        tolerance=tolerance,
        seeds=numbers,
        setup={**setup.to_dict(), "rate": rate},
        candidates=tuple(sorted(candidates, key=lambda each: _order(each, wanted[0]))),
    )


def _evidence(slos: Sequence[Slo], rows: Sequence[Row]) -> Evidence:
    values = [[math.nan if row[slo.figure] is None else float(row[slo.figure]) for row in rows] for slo in slos]
    figures = tuple(confidence(each) if not any(map(math.isnan, each)) else _unknown() for each in values)
    refused = math.fsum(row["refused"] for row in rows) / len(rows)
    served = refused == 0 or any(slo.figure == "refused" for slo in slos)
    return Evidence(
        policy=rows[0]["policy"],
        scheduler=rows[0]["scheduler"],
        capacity=rows[0]["capacity"],
        figures=figures,
        seeds_met=tuple(sum(map(slo.met, each)) for slo, each in zip(slos, values, strict=True)),
        refused=refused,
        met=served and all(slo.met(far_end(slo, figure)) for slo, figure in zip(slos, figures, strict=True)),
    )


def far_end(slo: Slo, figure: Confidence) -> float:
    """The end of a figure's 95 % interval that is nearer to breaking the SLO; of one run the figure itself."""
    half = 0.0 if math.isnan(figure.half_width) else figure.half_width
    return figure.mean - half if slo.higher else figure.mean + half


def _unknown() -> Confidence:
    return Confidence(0, math.nan, math.nan)


def _candidate(search: LeastCapacity, evidence: Sequence[Evidence]) -> Candidate:
    ordered = tuple(sorted(evidence, key=lambda each: each.capacity))
    return Candidate(ordered[0].policy, ordered[0].scheduler, search.answer, search.monotone, ordered)


def _order(candidate: Candidate, slo: Slo) -> tuple[float, float]:
    at = candidate.evidence[-1]
    for each in candidate.evidence:
        if each.capacity == candidate.capacity:
            at = each
    mean = at.figures[0].mean
    figure = math.inf if math.isnan(mean) else -mean if slo.higher else mean
    return (math.inf if candidate.capacity is None else candidate.capacity), figure
