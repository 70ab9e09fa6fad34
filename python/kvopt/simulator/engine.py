"""The timed engine: continuous batching with chunked prefill over the native pool, step by step as vLLM's scheduler.

A step. Running requests come first, in the order of admission: each that decodes computes one token, the one in prefill
(the last) as much of its prompt as the token budget leaves. Who needs a block when none can be had preempts another.
If nobody was preempted, waiting requests are admitted while budget, sequences and memory last; the first that does not
fit blocks those behind it. The step takes its time; then answers grow, and those that are complete give up their
blocks. The loop is native (csrc/simulator); here its parts are put together.
"""

from __future__ import annotations

from dataclasses import astuple
from typing import TYPE_CHECKING

from kvopt import _core
from kvopt.scheduler import FifoScheduler, Scheduler
from kvopt.simulator.step_time import LinearStepTime, StepTime

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from kvopt.metrics import Collector
    from kvopt.simulator.clients import ClientOptions
    from kvopt.simulator.limits import Limits
    from kvopt.simulator.requests import RequestSource
    from kvopt.simulator.retention import Retention
    from kvopt.simulator.tier import TierOptions


def simulation(
    pool: _core.BlockPool,
    source: RequestSource,
    threads: _core.ThreadTable,
    times: NDArray[np.float64],
    collector: Collector,
    scheduler: Scheduler,
    step_time: StepTime,
    *,
    preemption: str = "last",
    limits: Limits,
    clients: ClientOptions,
    tier: TierOptions | None = None,
    retention: Retention | None = None,
    whole_hits: bool = False,
    jump: bool = True,
) -> _core.Simulation:
    """One server and one run, ready to run; `collector.read` is due afterwards.

    `times` (float64[R], seconds): when each request would come in an open loop. `whole_hits`: a prompt may be hit
    whole, as in a replay. `jump`: steps in which nothing happens are taken at once; the result is the same.
    """
    return _core.Simulation(
        pool=pool,
        source=source.native,
        threads=threads,
        times=times,
        collector=collector.native,
        scheduler=scheduler.queue if type(scheduler) is FifoScheduler else scheduler,
        step_time=astuple(step_time) if type(step_time) is LinearStepTime else step_time,
        retention=retention,
        preemption=preemption,
        token_budget=limits.token_budget,
        max_sequences=limits.max_sequences,
        closed=clients.mode == "closed",
        session_limit=clients.session_limit,
        patience=clients.patience,
        tier=None if tier is None else (tier.blocks, tier.block_ms, tier.latency_ms),
        whole_hits=whole_hits,
        jump=jump,
    )
