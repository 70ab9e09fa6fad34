"""What a simulation found: one entry a run, and summaries over seeds."""

from __future__ import annotations

import math
import os
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from kvopt.errors import ConfigError
from kvopt.metrics import Confidence, Distribution, EventLog, Totals, confidence
from kvopt.output_file import write_output
from kvopt.simulator.result import json_bytes

KIND = "kvopt-simulation"
FORMAT_VERSION = 1

RunKey = tuple[str, str, int]
"""Policy, scheduler, capacity."""


@dataclass(frozen=True, slots=True)
class SimulationRun:
    """One policy under one scheduler at one capacity with one seed. See docs/simulator.md for every figure."""

    policy: str
    scheduler: str
    capacity: int
    """Blocks, the null block included."""
    seed: int | None
    """Of the arrivals; None: those of the trace."""
    duration_s: float
    """From the first arrival in the trace to the last answer."""
    totals: Totals
    prefill: Mapping[str, Mapping[str, float]]
    """Tokens and seconds by cause."""
    latency_s: Mapping[str, Distribution]
    eviction_age_s: Distribution
    dropped_blocks: Mapping[str, int]
    """Cached blocks that lost their content, by reason."""
    latency_histogram: Mapping[str, Mapping[str, list[float]]] = field(repr=False)
    series: Mapping[str, Any] = field(repr=False)
    log: EventLog | None = field(default=None, repr=False)
    """The events, where they were asked for."""

    @property
    def key(self) -> RunKey:
        """What is the same for all seeds."""
        return self.policy, self.scheduler, self.capacity

    def labels(self) -> dict[str, Any]:
        """What tells the run from the others."""
        return {
            "policy": self.policy,
            "scheduler": self.scheduler,
            "capacity": self.capacity,
            "seed": 0 if self.seed is None else self.seed,
        }

    def figures(self) -> dict[str, float]:
        """The figures that are compared: ratios, latencies in seconds, counts; NaN where there is nothing."""
        totals = self.totals
        tokens = {cause: figures["tokens"] for cause, figures in self.prefill.items()}
        seconds = {cause: figures["seconds"] for cause, figures in self.prefill.items()}
        again = tokens["evicted"] + tokens["preempted"]
        latency = {
            f"{name}_{figure}": getattr(distribution, figure)
            for name, distribution in self.latency_s.items()
            for figure in ("mean", "p50", "p90", "p99", "max")
        }
        return {
            "token_hit": _ratio(totals.hit_tokens, totals.prompt_tokens),
            "recomputed_share": _ratio(again, totals.hit_tokens + totals.reread_tokens + totals.loaded_tokens + again),
            "recomputed_tokens": float(again),
            "recomputed_s": seconds["evicted"] + seconds["preempted"],
            "prefill_s": math.fsum(seconds.values()),
            "useful_share": _ratio(totals.useful_block_s, totals.cached_block_s),
            "wasted_share": _ratio(totals.wasted_block_s, totals.cached_block_s),
            "preemptions": float(totals.preemptions),
            "refused": float(totals.refused),
            "aborted": float(totals.aborted),
            "evictions": float(totals.evictions),
            "requests_per_s": _ratio(totals.finished, self.duration_s),
            "output_tokens_per_s": _ratio(totals.output_tokens, self.duration_s),
            **latency,
        }

    def to_dict(self) -> dict[str, Any]:
        """The run as JSON values; docs/simulator.md describes it."""
        return {
            "policy": self.policy,
            "scheduler": self.scheduler,
            "capacity": self.capacity,
            "seed": self.seed,
            "duration_s": self.duration_s,
            "figures": self.figures(),
            "totals": asdict(self.totals),
            "prefill": {cause: dict(figures) for cause, figures in self.prefill.items()},
            "latency_s": {name: asdict(distribution) for name, distribution in self.latency_s.items()},
            "eviction_age_s": asdict(self.eviction_age_s),
            "dropped_blocks": dict(self.dropped_blocks),
            "latency_histogram": {name: dict(histogram) for name, histogram in self.latency_histogram.items()},
            "series": dict(self.series),
        }


@dataclass(frozen=True, slots=True)
class SimulationSummary:
    """The figures of one policy, scheduler and capacity over all seeds."""

    policy: str
    scheduler: str
    capacity: int
    figures: Mapping[str, Confidence]

    def to_dict(self) -> dict[str, Any]:
        """The summary as JSON values."""
        figures = {name: asdict(value) for name, value in self.figures.items()}
        return {
            "policy": self.policy,
            "scheduler": self.scheduler,
            "capacity": self.capacity,
            "figures": figures,
        }


@dataclass(frozen=True, slots=True)
class SimulationResult:
    """Runs ordered by capacity, scheduler, policy and seed, each in the order in which they were asked for."""

    trace: Mapping[str, Any]
    """The summary of the trace."""
    setup: Mapping[str, Any]
    """What all runs have in common: clients, limits, profile."""
    runs: tuple[SimulationRun, ...]

    def run(self, policy: str, scheduler: str = "fifo", capacity: int | None = None) -> SimulationRun:
        """The first run of these; ConfigError names what there is when there is none."""
        for run in self.runs:
            if run.policy == policy and run.scheduler == scheduler and capacity in (None, run.capacity):
                return run
        known = ", ".join(f"{run.policy} / {run.scheduler} / {run.capacity}" for run in self.runs)
        raise ConfigError(f"no run of {policy} / {scheduler} / {capacity}; there are {known}")

    def summaries(self) -> tuple[SimulationSummary, ...]:
        """Mean and 95 % interval of each figure over the seeds, in the order of the runs."""
        groups: dict[RunKey, list[SimulationRun]] = {}
        for run in self.runs:
            groups.setdefault(run.key, []).append(run)
        return tuple(
            SimulationSummary(*key, _over_runs([run.figures() for run in runs])) for key, runs in groups.items()
        )

    def differences(self, to: str = "lru") -> tuple[SimulationSummary, ...]:
        """Each figure less that of policy `to` under the same scheduler, capacity and seed, for all other policies.

        The seeds are paired: both met the same arrivals. Raises ConfigError where a run has no counterpart.
        """
        base = {(run.scheduler, run.capacity, run.seed): run.figures() for run in self.runs if run.policy == to}
        groups: dict[RunKey, list[dict[str, float]]] = {}
        for run in self.runs:
            if run.policy == to:
                continue
            other = base.get((run.scheduler, run.capacity, run.seed))
            if other is None:
                raise ConfigError(f"no run of {to} / {run.scheduler} / {run.capacity} with seed {run.seed}")
            figures = {name: value - other[name] for name, value in run.figures().items()}
            groups.setdefault(run.key, []).append(figures)
        return tuple(SimulationSummary(*key, _over_runs(figures)) for key, figures in groups.items())

    def to_dict(self) -> dict[str, Any]:
        """The result as JSON values; docs/simulator.md describes it."""
        return {
            "kind": KIND,
            "format_version": FORMAT_VERSION,
            "trace": dict(self.trace),
            "setup": dict(self.setup),
            "summary": [summary.to_dict() for summary in self.summaries()],
            "runs": [run.to_dict() for run in self.runs],
        }

    def write_json(self, path: str | os.PathLike[str]) -> None:
        """Write `to_dict()` as JSON, whole or not at all; what is not a number is null. Raises ConfigError, OSError."""
        write_output(path, json_bytes(self.to_dict()))


def _over_runs(figures: list[dict[str, float]]) -> dict[str, Confidence]:
    return {name: confidence([each[name] for each in figures]) for name in figures[0]}


def _ratio(part: float, whole: float) -> float:
    return part / whole if whole else math.nan
