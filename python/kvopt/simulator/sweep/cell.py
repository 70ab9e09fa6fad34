"""One cell of a grid: what tells it from the others, how it is run, and its row of figures.

A row depends on nothing but the trace, the setup and the cell, so it is the same on every core and machine.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

from kvopt._core import __version__
from kvopt.metrics import CAUSES, LATENCIES, Distribution, Totals
from kvopt.policies import load_library
from kvopt.simulator.clients import ClientOptions
from kvopt.simulator.policy_source import PolicyLike
from kvopt.simulator.server import (
    Progress,
    SchedulerLike,
    SimulatedServer,
    SimulationCell,
    SimulationOptions,
    profile_p_star,
    simulation_cells,
)
from kvopt.simulator.simulation_result import SimulationRun
from kvopt.simulator.step_time import Profile

if TYPE_CHECKING:
    from kvopt.workload.base import Trace

ROW_FORMAT = 1
_AGE = ("mean", "p50", "p90", "p99", "max")

Row: TypeAlias = dict[str, Any]
"""Column to value: text, whole numbers, and floats that are None where there is nothing to measure."""


@dataclass(frozen=True, slots=True)
class Cell:
    """One run: a policy and a scheduler as specs, blocks, the rate of arrivals, and the seed that draws them."""

    policy: str
    scheduler: str
    capacity: int
    rate: float = 1.0
    seed: int = 0
    """0: the arrivals of the trace."""

    def __str__(self) -> str:
        return f"{self.policy} / {self.scheduler} / {self.capacity} blocks / rate {self.rate:g} / seed {self.seed}"


@dataclass(frozen=True, slots=True)
class ServerSetup:
    """What all cells have in common but the trace. Picklable where the profile is."""

    profile: Profile
    mode: str = "closed"
    session_limit: int | None = None
    patience: float | None = None
    options: SimulationOptions = field(default_factory=SimulationOptions)
    libraries: tuple[str, ...] = ()
    """Shared libraries of policies, loaded before any cell is run."""

    def __post_init__(self) -> None:
        self.clients(1.0)

    def clients(self, rate: float) -> ClientOptions:
        """The clients at a rate of arrivals. Raises ConfigError."""
        return ClientOptions(self.mode, rate, self.session_limit, self.patience)

    def to_dict(self) -> dict[str, Any]:
        """What rows depend on, as JSON values."""
        return {
            "profile": self.profile.to_dict(),
            "clients": {"mode": self.mode, "session_limit": self.session_limit, "patience": self.patience},
            "options": asdict(self.options),
            "libraries": [_digest(Path(path).read_bytes()) for path in self.libraries],
        }


def _policy_by_name(spec: str) -> PolicyLike:
    return spec


def _scheduler_by_name(spec: str) -> SchedulerLike:
    return spec


@dataclass(frozen=True, slots=True)
class Loaders:
    """What specs stand for: functions of a module's top level, so that other processes find them."""

    policy: Callable[[str], PolicyLike] = _policy_by_name
    scheduler: Callable[[str], SchedulerLike] = _scheduler_by_name


@dataclass(frozen=True, slots=True)
class Job:
    """What a worker needs besides the trace to run cells."""

    setup: ServerSetup
    loaders: Loaders = field(default_factory=Loaders)

    def runner(self, trace: Trace) -> CellRunner:
        """What runs cells of this trace."""
        return CellRunner(trace, self)


class CellRunner:
    """Runs the cells of one trace, one after another."""

    def __init__(self, trace: Trace, job: Job) -> None:
        self._trace, self._job = trace, job
        self._servers: dict[float, SimulatedServer] = {}
        for path in job.setup.libraries:
            load_library(path)

    def check(self, cells: list[Cell]) -> None:
        """Raise what simulating these would raise before any work starts: ConfigError and its kinds."""
        if not cells:
            return
        for rate in dict.fromkeys(cell.rate for cell in cells):
            self._job.setup.clients(rate)
        policies = [self._job.loaders.policy(spec) for spec in dict.fromkeys(cell.policy for cell in cells)]
        schedulers = [self._job.loaders.scheduler(spec) for spec in dict.fromkeys(cell.scheduler for cell in cells)]
        simulation_cells(self._trace, policies, list(dict.fromkeys(cell.capacity for cell in cells)), schedulers, 1)

    def run(self, cell: Cell, progress: Progress | None = None) -> Row:
        """The row of a cell, all but its key. Raises what `simulate` raises."""
        setup, load = self._job.setup, self._job.loaders
        if cell.rate not in self._servers:
            self._servers[cell.rate] = SimulatedServer(
                self._trace,
                setup.profile,
                setup.clients(cell.rate),
                setup.options,
                None,
                profile_p_star(setup.profile),
                False,
            )
        policy, scheduler = load.policy(cell.policy), load.scheduler(cell.scheduler)
        (named,), _ = simulation_cells(self._trace, policy, cell.capacity, scheduler, 1)
        asked = SimulationCell(policy, named.name, scheduler, cell.capacity, cell.seed or None)
        return row_of(self._servers[cell.rate].run(asked, progress, str(cell)), cell.rate)


def cell_key(cell: Cell, trace_digest: str, setup: Mapping[str, Any]) -> str:
    """The same for cells whose rows are: a hash of the trace, the setup and the cell; of a Python file, its content."""
    parts = {
        "format": ROW_FORMAT,
        "version": __version__,
        "trace": trace_digest,
        "setup": setup,
        "policy": _content(cell.policy),
        "scheduler": _content(cell.scheduler),
        "capacity": cell.capacity,
        "rate": cell.rate,
        "seed": cell.seed,
    }
    return _digest(json.dumps(parts, sort_keys=True).encode())[:24]


def row_of(run: SimulationRun, rate: float) -> Row:
    """The row of a run: its labels, figures, and totals that are no figures; NaN becomes None."""
    row: Row = {
        "policy": run.policy,
        "scheduler": run.scheduler,
        "capacity": run.capacity,
        "rate": rate,
        "seed": run.seed or 0,
        "duration_s": run.duration_s,
        **run.figures(),
    }
    for name, value in asdict(run.totals).items():
        row.setdefault(name, value)
    for cause in CAUSES:
        row[f"prefill_{cause}_tokens"] = int(run.prefill[cause]["tokens"])
        row[f"prefill_{cause}_s"] = run.prefill[cause]["seconds"]
    for name in _AGE:
        row[f"eviction_age_{name}_s"] = getattr(run.eviction_age_s, name)
    return {
        name: None if isinstance(value, float) and not math.isfinite(value) else value for name, value in row.items()
    }


def columns() -> dict[str, type]:
    """The columns of a row and their types, in order."""
    kinds: dict[str, type] = {"policy": str, "scheduler": str, "capacity": int, "rate": float, "seed": int}
    kinds["duration_s"] = float
    kinds |= dict.fromkeys(figure_names(), float)
    for total in fields(Totals):
        kinds.setdefault(total.name, int if isinstance(total.default, int) else float)
    for cause in CAUSES:
        kinds |= {f"prefill_{cause}_tokens": int, f"prefill_{cause}_s": float}
    return kinds | {f"eviction_age_{name}_s": float for name in _AGE}


def figure_names() -> tuple[str, ...]:
    """The names of the figures that runs are compared by, as in a result's `figures`."""
    nothing = {cause: {"tokens": 0.0, "seconds": 0.0} for cause in CAUSES}
    latency = dict.fromkeys(LATENCIES, Distribution.empty())
    return tuple(
        SimulationRun("", "", 0, None, 0.0, Totals(), nothing, latency, Distribution.empty(), {}, {}, {}).figures()
    )


def _content(spec: str) -> list[str]:
    file, _, name = spec.rpartition(":")
    return [_digest(Path(file).read_bytes()), name] if file.endswith(".py") else [spec]


def _digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()
