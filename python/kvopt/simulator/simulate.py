"""Simulating a trace under every combination of policy, scheduler, capacity and seed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike, NDArray

from kvopt.cost import check_p_star
from kvopt.errors import ConfigError
from kvopt.policies.library import loaded_libraries
from kvopt.simulator.clients import ClientOptions
from kvopt.simulator.parallel import SimulationJob, run_cells
from kvopt.simulator.policy_source import PolicyLike
from kvopt.simulator.server import (
    Progress,
    SchedulerLike,
    SimulationOptions,
    profile_p_star,
    simulation_cells,
)
from kvopt.simulator.simulation_result import SimulationResult
from kvopt.simulator.step_time import DEFAULT_PROFILE, Profile, StepTime, check_profile
from kvopt.simulator.workers import check_jobs

if TYPE_CHECKING:
    from kvopt.workload.base import Trace


def simulate(
    trace: Trace,
    policies: Sequence[PolicyLike] | PolicyLike,
    capacities: Sequence[int] | int,
    *,
    schedulers: Sequence[SchedulerLike] | SchedulerLike = "fifo",
    profile: str | Profile | StepTime = DEFAULT_PROFILE,
    clients: ClientOptions | None = None,
    options: SimulationOptions | None = None,
    seeds: int = 1,
    priorities: ArrayLike | None = None,
    p_star: float | None = None,
    events: bool = False,
    jobs: int = 1,
    progress: Progress | None = None,
) -> SimulationResult:
    """Serve `trace` under each of `policies` and `schedulers` at each of `capacities` (blocks, with the null block).

    One seed: the arrivals of the trace. More: as many runs of each combination, with arrivals drawn by seeds 1 and up
    (see `arrival_times`), the same for all combinations. `priorities` (int[R], the lowest goes first) are for priority
    scheduling; by default those of sub-agents are 1, all others 0. `p_star` (tokens) is what policies with a cost model
    compute with, by default that of the profile. With `events` each run keeps its log. The runs are spread over `jobs`
    processes, with the same result.

    Everything is checked before any work starts: ConfigError, UnknownPolicyError, UnknownSchedulerError. PolicyError
    and SchedulerError say who broke the contract; SimulationError, that a run stalls or its books do not balance.
    """
    cells, names = simulation_cells(trace, policies, capacities, schedulers, seeds)
    profile = check_profile(profile)
    clients = clients or ClientOptions()
    options = options or SimulationOptions()
    ranks = None if priorities is None else _check_priorities(priorities, trace.requests)
    tokens = check_p_star(profile_p_star(profile) if p_star is None else p_star)
    job = SimulationJob(profile, clients, options, ranks, tokens, events, loaded_libraries())
    jobs = min(check_jobs(jobs), len(cells))
    if jobs > 1:
        runs = run_cells(trace, job, cells, jobs, progress)
    else:
        server = job.server(trace)
        runs = [server.run(cell, progress, f"{index + 1} of {len(cells)}") for index, cell in enumerate(cells)]
    setup = {
        "clients": asdict(clients),
        "profile": profile.to_dict(),
        "options": asdict(options),
        "policies": names,
        "seeds": seeds,
        "p_star": tokens,
        "block_tokens": trace.block_tokens,
    }
    return SimulationResult(dict(trace.summary()), setup, tuple(runs))


def _check_priorities(priorities: ArrayLike, requests: int) -> NDArray[np.int64]:
    given = np.asarray(priorities)
    if given.shape != (requests,) or given.dtype.kind not in "iu":
        raise ConfigError(
            f"priorities: {given.dtype} of shape {given.shape}; integers of shape ({requests},) are needed"
        )
    return given.astype(np.int64)
