"""The runs of one simulation on several cores: the same runs, in the same order, as on one."""

from __future__ import annotations

import pickle
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from kvopt.errors import ConfigError, PolicyError, SchedulerError
from kvopt.policies import Policy, load_library
from kvopt.policies.python_file import load_class, source_of
from kvopt.scheduler import Scheduler
from kvopt.simulator.clients import ClientOptions
from kvopt.simulator.server import Progress, SimulatedServer, SimulationCell, SimulationOptions
from kvopt.simulator.simulation_result import SimulationRun
from kvopt.simulator.step_time import Profile
from kvopt.simulator.workers import Processes
from kvopt.workload.parquet import write_parquet

if TYPE_CHECKING:
    from kvopt.workload.base import Trace

NumberedCell: TypeAlias = tuple[int, SimulationCell]


@dataclass(frozen=True, slots=True)
class SimulationJob:
    """What a process needs besides the trace to run cells of one simulation."""

    profile: Profile
    clients: ClientOptions
    options: SimulationOptions
    priorities: NDArray[np.int64] | None
    p_star: float
    events: bool
    libraries: tuple[str, ...] = ()
    """Shared libraries of policies, loaded before any cell is run."""

    def server(self, trace: Trace) -> SimulatedServer:
        """What runs cells of this trace."""
        return SimulatedServer(
            trace, self.profile, self.clients, self.options, self.priorities, self.p_star, self.events
        )

    def runner(self, trace: Trace) -> _NumberedRunner:
        """The same for a process of its own."""
        for path in self.libraries:
            load_library(path)
        return _NumberedRunner(self.server(trace))


class _NumberedRunner:
    def __init__(self, server: SimulatedServer) -> None:
        self._server = server

    def run(self, cell: NumberedCell, progress: Progress | None = None) -> SimulationRun:
        number, asked = cell
        policy = _load(asked.policy, "policy", Policy, PolicyError)
        scheduler = _load(asked.scheduler, "scheduler", Scheduler, SchedulerError)
        return self._server.run(replace(asked, policy=policy, scheduler=scheduler), progress, str(number + 1))


@dataclass(frozen=True, slots=True)
class _InFile:
    # A class of a Python file that is no module: the process that uses it loads the file itself.
    spec: str


def run_cells(
    trace: Trace, job: SimulationJob, cells: Sequence[SimulationCell], jobs: int, progress: Progress | None
) -> list[SimulationRun]:
    """The run of each cell, in their order, from `jobs` processes.

    Raises ConfigError, before any work starts, for what cannot be sent to another process: policies, schedulers and
    models of time that are neither a module's own nor named as "file.py:Class". Else what `simulate` raises.
    """
    numbered: list[NumberedCell] = [(number, _portable(cell)) for number, cell in enumerate(cells)]
    try:
        pickle.dumps((job, numbered))
    except (pickle.PicklingError, AttributeError, TypeError) as error:
        raise ConfigError(f"jobs: {jobs}: cannot be sent to another process: {error}") from None
    runs: dict[int, SimulationRun] = {}
    with tempfile.TemporaryDirectory(prefix="kvopt-simulate-") as folder:
        path = Path(folder) / "trace.parquet"
        write_parquet(trace, path)
        workers: Processes[NumberedCell, SimulationRun] = Processes(path, job, jobs)
        try:
            for (number, _), run in workers.run(numbered):
                runs[number] = run
                if progress is not None:
                    progress(len(runs), len(cells), "runs")
        finally:
            workers.close()
    return [runs[number] for number in range(len(cells))]


def _portable(cell: SimulationCell) -> SimulationCell:
    named = {name: _in_file(getattr(cell, name)) for name in ("policy", "scheduler")}
    return replace(cell, **named)


def _in_file(value: Any) -> Any:
    spec = source_of(value) if isinstance(value, type) else None
    return value if spec is None else _InFile(spec)


def _load(value: Any, what: str, base: type[Any], broken: type[Any]) -> Any:
    return load_class(value.spec, what, base, broken) if isinstance(value, _InFile) else value
