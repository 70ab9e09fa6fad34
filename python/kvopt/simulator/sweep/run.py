"""Running a sweep: what is finished is kept, the rest is run, and all rows go into one file."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

from kvopt.simulator.sweep.cell import Cell, CellRunner, Job, Loaders, Row, cell_key
from kvopt.simulator.sweep.store import SweepStore
from kvopt.simulator.workers import Workers, available_cores, local_workers

if TYPE_CHECKING:
    from kvopt.simulator.sweep.spec import SweepSpec
    from kvopt.workload.base import Trace

Progress: TypeAlias = Callable[[int, "int | None", str], None]


@dataclass(frozen=True, slots=True)
class SweepOutcome:
    """What a sweep found."""

    trace: Trace
    rows: list[Row]
    """In the order capacity, scheduler, rate, policy, seed; a column a figure, see docs/sweep.md."""
    resumed: int
    """Cells that had been finished before."""


def run_sweep(
    spec: SweepSpec,
    output: str | os.PathLike[str],
    *,
    jobs: int | None = None,
    ray: str | bool = False,
    loaders: Loaders | None = None,
    progress: Progress | None = None,
) -> SweepOutcome:
    """Simulate every cell of `spec` and write the Parquet file `output`.

    Cells run in `jobs` processes (by default one a core), or with `ray` on the cluster at that address (True: the one
    that Ray finds, else a local one that is started). Cells that an earlier call with the same output had finished,
    also one that was killed, are not run again. The file is the same, byte by byte, however the cells were run.

    Everything is checked first: ConfigError and its kinds, TraceError, OSError. What a cell raises (PolicyError,
    SchedulerError, SimulationError) ends the sweep; finished cells are kept.
    """
    store = SweepStore(output)
    trace = spec.load_trace(progress)
    job = Job(spec.setup, loaders or Loaders())
    cells = spec.cells(trace)
    CellRunner(trace, job).check(cells)
    if jobs is None:
        jobs = available_cores()
    trace_file = store.begin(trace)
    digest = hashlib.sha256(trace_file.read_bytes()).hexdigest()
    setup = spec.setup.to_dict()
    keys = {cell: cell_key(cell, digest, setup) for cell in cells}
    rows = store.finished(keys.values())
    resumed = len(rows)
    waiting = [cell for cell, key in keys.items() if key not in rows]

    def report() -> None:
        if progress is not None:
            progress(len(rows), len(keys), "cells")

    report()
    if waiting:
        workers = _workers(trace_file, job, min(jobs, len(waiting)), ray, f"{digest} {json.dumps(setup)}")
        try:
            for cell, row in workers.run(waiting):
                store.add(keys[cell], row)
                rows[keys[cell]] = row
                report()
        finally:
            workers.close()
    ordered = {key: rows[key] for key in keys.values()}
    store.finish(ordered, {"trace": trace.name, "setup": setup})
    return SweepOutcome(trace, list(ordered.values()), resumed)


def _workers(trace_file: Path, job: Job, jobs: int, ray: str | bool, name: str) -> Workers[Cell, Row]:
    if ray is False:
        return local_workers(trace_file, job, jobs)
    from kvopt.simulator.sweep.on_ray import RayWorkers

    return RayWorkers(None if ray is True else ray, trace_file, job, name)
