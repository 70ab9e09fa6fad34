"""One simulated run, and what runs on one trace share: every combination of policy, scheduler, capacity and seed."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, TypeAlias

import numpy as np
from numpy.typing import NDArray

from kvopt import _core
from kvopt.cost import DEFAULT_P_STAR
from kvopt.errors import ConfigError, PolicyError
from kvopt.metrics import CAUSES, Collector, EventLog
from kvopt.policies import Policy
from kvopt.scheduler import Scheduler, make_scheduler, parse_scheduler
from kvopt.simulator.clients import ClientOptions, arrival_times
from kvopt.simulator.engine import simulation
from kvopt.simulator.limits import Limits
from kvopt.simulator.memory import Memory, dropped_blocks
from kvopt.simulator.needs import check_needs
from kvopt.simulator.policy_source import PolicyLike, breach, check_policy, new_policy
from kvopt.simulator.preemption import check_preemption
from kvopt.simulator.replay import check_capacities
from kvopt.simulator.requests import ANSWERS, RequestSource
from kvopt.simulator.retention import RetentionOptions, SessionRetention
from kvopt.simulator.simulation_result import SimulationRun
from kvopt.simulator.step_time import LinearStepTime, Profile
from kvopt.simulator.threads import Threads, find_threads
from kvopt.simulator.tier import TierOptions

if TYPE_CHECKING:
    from kvopt.workload.base import Trace

Progress: TypeAlias = Callable[[int, "int | None", str], None]
SchedulerLike: TypeAlias = "str | type[Scheduler]"
"""A spec such as "fifo" or "cache-aware:bound=10", or a Scheduler subclass that is made without arguments."""

AUTO = "auto"
"""The preemption that goes with the scheduler."""


@dataclass(frozen=True, slots=True)
class SimulationOptions:
    """How the server works, and what is measured. Raises ConfigError."""

    limits: Limits = field(default_factory=Limits)
    preemption: str = AUTO
    """"last", "priority", "cost", or "auto": what goes with the scheduler, "last" but for "priority"."""
    answers: str = "reused"
    """"reused": the next turn of a session hits the blocks of the answer before it; "private": nobody does."""
    whole_hits: bool = False
    """A prompt may be hit whole, as in a replay; then only its last token is computed, into the block that it hit. As
    vLLM, the default computes the whole block of the last token again."""
    exact: bool = True
    """Keep every latency; else quantiles are within 1 %, in memory that does not grow with the requests."""
    tier: TierOptions | None = None
    """A second tier, in CPU memory."""
    retention: RetentionOptions | None = None
    """What is held for sessions that come back."""
    points: int = 400
    """Most points of the series over time."""
    jump: bool = True
    """Take steps in which nothing happens at once; the result is the same."""

    def __post_init__(self) -> None:
        if self.preemption != AUTO:
            check_preemption(self.preemption)
        if self.answers not in ANSWERS:
            raise ConfigError(f"answers: {self.answers!r} is neither 'reused' nor 'private'")
        if self.tier is not None and not isinstance(self.tier, TierOptions):
            raise ConfigError(f"tier: {self.tier!r} is no TierOptions")
        if self.retention is not None and not isinstance(self.retention, RetentionOptions):
            raise ConfigError(f"retention: {self.retention!r} is no RetentionOptions")
        if isinstance(self.points, bool) or not isinstance(self.points, int) or self.points < 2:
            raise ConfigError(f"points: {self.points!r} is not a whole number from 2 up")


@dataclass(frozen=True, slots=True)
class SimulationCell:
    """One run: a policy by its spec or class and its name, a scheduler, blocks, and the seed of the arrivals."""

    policy: PolicyLike
    name: str
    scheduler: SchedulerLike
    capacity: int
    seed: int | None


class SimulatedServer:
    """What all runs on one trace share: its threads of requests, the profile, clients and options."""

    def __init__(
        self,
        trace: Trace,
        profile: Profile,
        clients: ClientOptions,
        options: SimulationOptions,
        priorities: NDArray[np.int64] | None,
        p_star: float,
        events: bool,
    ) -> None:
        self._trace, self._profile, self._clients, self._options = trace, profile, clients, options
        self._p_star, self._events = p_star, events
        self._threads: Threads = find_threads(trace)
        self._table = self._threads.table()
        self._source = RequestSource(trace, self._threads, options.answers, priorities)

    def run(self, cell: SimulationCell, progress: Progress | None, what: str) -> SimulationRun:
        """Simulate one cell; `progress` is told of requests done, of all, and `what`. Raises what `simulate` raises."""
        trace, options = self._trace, self._options
        collector = Collector(exact=options.exact, log=EventLog() if self._events else None, points=options.points)
        scheduler = make_scheduler(cell.scheduler)
        asked, step_time = options.retention, self._profile.step_time
        try:
            memory = Memory(
                cell.capacity,
                new_policy(cell.policy),
                block_tokens=trace.block_tokens,
                p_star=self._p_star,
                lease_share=0.0 if asked is None else asked.lease_share,
                retention=asked is not None,
            )
            engine = simulation(
                memory.pool,
                self._source,
                self._table,
                arrival_times(trace, self._threads, self._clients.rate, cell.seed),
                collector,
                scheduler,
                step_time,
                preemption=scheduler.preemption if options.preemption == AUTO else options.preemption,
                limits=options.limits,
                clients=self._clients,
                tier=options.tier,
                retention=None
                if asked is None
                else SessionRetention(asked, memory, self._source, scheduler, step_time, options.limits.token_budget),
                whole_hits=options.whole_hits,
                jump=options.jump,
            )
            engine.run(None if progress is None else lambda done: progress(done, trace.requests, what))
            collector.read()
        except PolicyError as error:
            raise breach(error, cell.policy, cell.capacity) from None
        return SimulationRun(
            policy=cell.name,
            scheduler=_scheduler_name(cell.scheduler),
            capacity=cell.capacity,
            seed=cell.seed,
            duration_s=engine.now,
            totals=collector.totals,
            prefill={
                cause: {"tokens": collector.prefill.tokens[cause], "seconds": collector.prefill.ms[cause] / 1000}
                for cause in CAUSES
            },
            latency_s={name: sample.distribution() for name, sample in collector.latency.items()},
            eviction_age_s=collector.eviction_age.distribution(),
            dropped_blocks=dropped_blocks(memory.pool),
            latency_histogram={name: sample.histogram() for name, sample in collector.latency.items()},
            series=collector.series.to_dict(),
            log=collector.log,
        )


def simulation_cells(
    trace: Trace,
    policies: Sequence[PolicyLike] | PolicyLike,
    capacities: Sequence[int] | int,
    schedulers: Sequence[SchedulerLike] | SchedulerLike,
    seeds: int,
) -> tuple[list[SimulationCell], list[str]]:
    """Every combination, and the names of the policies. Raises ConfigError and its kinds before any work starts."""
    sizes = check_capacities(capacities)
    if min(sizes) < 2:
        raise ConfigError(f"capacity: {min(sizes)} blocks; at least 2 are needed, for one is the null block")
    if isinstance(seeds, bool) or not isinstance(seeds, int) or seeds < 1:
        raise ConfigError(f"seeds: {seeds!r} is not a whole number from 1 up")
    asked = [policies] if isinstance(policies, (str, type, Policy)) else list(policies)
    lines = [schedulers] if isinstance(schedulers, (str, type)) else list(schedulers)
    if not asked or not lines:
        raise ConfigError("policies and schedulers: name at least one of each")
    numbers: list[int | None] = [None] if seeds == 1 else list(range(1, seeds + 1))
    offline = {policy.name for policy in _core.policies() if policy.offline}
    named: dict[str, PolicyLike] = {}
    for policy in asked:
        name = check_policy(policy, len(sizes) * len(lines) * len(numbers))
        if isinstance(policy, str) and _core.parse_policy(policy)[0] in offline:
            raise ConfigError(f"policies: {name} knows the future; it can only be replayed, not simulated")
        if named.setdefault(name, policy) != policy:
            raise ConfigError(f"policies: two different policies are called {name!r}")
    check_needs(trace, named.values())
    for scheduler in lines:
        check_scheduler(scheduler)
    cells = [
        SimulationCell(policy, name, scheduler, size, seed)
        for size in sizes
        for scheduler in dict.fromkeys(lines)
        for name, policy in named.items()
        for seed in numbers
    ]
    return cells, list(named)


def check_scheduler(scheduler: SchedulerLike) -> None:
    """Raise UnknownSchedulerError, ConfigError or SchedulerError unless it can be simulated."""
    if isinstance(scheduler, str):
        parse_scheduler(scheduler)
    else:
        make_scheduler(scheduler)


def _scheduler_name(scheduler: SchedulerLike) -> str:
    return scheduler if isinstance(scheduler, str) else scheduler.__name__


def profile_p_star(profile: Profile) -> float:
    """The position (tokens) where attention doubles a token's cost; the default's where the profile does not say."""
    time = profile.step_time
    if isinstance(time, LinearStepTime) and time.k1 > 0 and time.k3 > 0:
        return time.k1 / time.k3
    return DEFAULT_P_STAR
