"""Who sends the requests of a trace, and when.

Open loop: each comes at its time in the trace, whatever the server does. Closed loop: a session's first request comes
at its time, the others when their clients have the answers that they wait for (see kvopt.simulator.threads), so a slow
server also slows its clients. A seed draws the starts of sessions anew; `rate` divides the times between them, and
never what passes at the client.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from kvopt.errors import ConfigError
from kvopt.simulator.threads import Threads

if TYPE_CHECKING:
    from kvopt.workload.base import Trace

MODES = ("open", "closed")


@dataclass(frozen=True, slots=True)
class ClientOptions:
    """How the clients behave. Raises ConfigError."""

    mode: str = "closed"
    """"open" or "closed"."""
    rate: float = 1.0
    """Arrivals come so many times as fast."""
    session_limit: int | None = None
    """Sessions that may be under way at once; others wait in the order of their arrival. Closed loop only."""
    patience: float | None = None
    """Seconds after which a client that has no token yet gives up its request and the rest of its session."""

    def __post_init__(self) -> None:
        if self.mode not in MODES:
            raise ConfigError(f"clients: {self.mode!r} is neither 'open' nor 'closed'")
        if not _is_number(self.rate) or not 0 < self.rate < math.inf:
            raise ConfigError(f"rate: {self.rate!r} is not a finite number above 0")
        limit = self.session_limit
        if limit is not None and (isinstance(limit, bool) or not isinstance(limit, int) or limit < 1):
            raise ConfigError(f"session_limit: {limit!r} is not a whole number from 1 up")
        if limit is not None and self.mode == "open":
            raise ConfigError("session_limit: clients in an open loop do not wait; use closed")
        patience = self.patience
        if patience is not None and (not _is_number(patience) or not 0 < patience < math.inf):
            raise ConfigError(f"patience: {patience!r} is not a finite number of seconds above 0")


def arrival_times(trace: Trace, threads: Threads, rate: float, seed: int | None) -> NDArray[np.float64]:
    """When each of R requests would come in an open loop, in seconds from 0 (float64[R]).

    A session starts when its first request comes. Without a seed sessions start as in the trace; with one, as a Poisson
    process of the trace's mean rate, in a random order (requests without sessions keep theirs). Starts are divided by
    `rate`; what passes within a session is as in the trace.
    """
    sessions, first, place = np.unique(threads.session, return_index=True, return_inverse=True)
    start: NDArray[np.float64] = trace.time[first] - trace.time[0]
    within: NDArray[np.float64] = trace.time - trace.time[first][place]
    if seed is not None:
        random = np.random.default_rng(seed)
        gaps = random.exponential(1.0, len(sessions))
        mean = float(start.max()) / max(len(sessions) - 1, 1)
        order = random.permutation(len(sessions)) if trace.has_sessions else np.arange(len(sessions))
        start[order] = (np.cumsum(gaps) - gaps[0]) * mean
    times: NDArray[np.float64] = start[place] / rate + within
    return times


def _is_number(value: object) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)
