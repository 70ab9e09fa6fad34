"""Simulating a grid of policies, capacities, schedulers, rates and seeds on many cores, to be resumed after a kill."""

from __future__ import annotations

from kvopt.simulator.sweep.cell import Cell, CellRunner, Job, Loaders, ServerSetup, figure_names
from kvopt.simulator.sweep.run import SweepOutcome, run_sweep
from kvopt.simulator.sweep.spec import SweepSpec, read_spec

__all__ = [
    "Cell",
    "CellRunner",
    "Job",
    "Loaders",
    "ServerSetup",
    "SweepOutcome",
    "SweepSpec",
    "figure_names",
    "read_spec",
    "run_sweep",
]
