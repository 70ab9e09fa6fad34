"""What a policy thinks of its cache in the middle of a trace."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from kvopt._core import BlockPool, RequestInfo, StopReason
from kvopt.cache import Explanation
from kvopt.cost import DEFAULT_P_STAR, check_p_star
from kvopt.errors import ConfigError
from kvopt.simulator.needs import check_needs
from kvopt.simulator.policy_source import check_policy
from kvopt.simulator.replay import Progress, check_capacity

if TYPE_CHECKING:
    from kvopt.workload.base import Trace

REPORT_EVERY = 1000  # requests


def explain(
    trace: Trace,
    policy: str,
    capacity: int,
    *,
    at: float | None = None,
    p_star: float = DEFAULT_P_STAR,
    state: bytes | None = None,
    progress: Progress | None = None,
) -> Explanation:
    """Serve the requests of `trace` up to time `at` (seconds; all of them unless given), and explain the cache then.

    The pool has `capacity` blocks, skips requests that do not fit, and decides as in :func:`replay`; the policy goes on
    from `state`. Raises UnknownPolicyError, PolicyStateError, or ConfigError: also when the policy explains
    nothing, and when `at` is before the first request.
    """
    size = check_capacity(capacity)
    check_policy(policy)
    check_needs(trace, [policy])
    end = float(trace.time[-1]) if at is None and trace.requests else at
    if end is None or not math.isfinite(end) or trace.requests == 0 or end < trace.time[0]:
        raise ConfigError(f"at: {at} is before the first request, or no time in seconds")
    pool = BlockPool(size, policy, block_tokens=trace.block_tokens, p_star=check_p_star(p_star))
    pool.explain(now=float(trace.time[0]))  # refuses before the work
    if state is not None:
        pool.load_state(state)
    last = int(np.searchsorted(trace.time, end, side="right"))
    fits = trace.chain_blocks() < size
    for request in range(last):
        if progress is not None and request % REPORT_EVERY == 0:
            progress(request, last, "requests")
        if fits[request]:
            _serve(pool, trace, request)
    return Explanation.of(pool, end)


def _serve(pool: BlockPool, trace: Trace, request: int) -> None:
    keys = trace.prefix.chain(request).astype(np.uint64)
    if not len(keys):
        return
    info = RequestInfo(
        float(trace.time[request]),
        request=request,
        session=int(trace.session[request]),
        turn=int(trace.turn[request]),
        tool=int(trace.tool[request]),
        output_tokens=int(trace.output_tokens[request]),
        gap=_known(trace.gap[request]),
        stop=StopReason(int(trace.stop[request])),
        subagent=bool(trace.subagent[request]),
        steps=int(trace.steps[request]),
        return_probability=_known(trace.return_probability[request]),
    )
    allocation = pool.acquire(keys, now=info)
    pool.commit(allocation, keys[allocation.hit :], now=info)
    pool.release(allocation, now=info)


def _known(value: float) -> float:
    return -1.0 if math.isnan(value) else float(value)
