"""Who sends the requests of a trace, and when.

Open loop: each comes at its time in the trace, whatever the server does. Closed loop: a session's first request comes
at its time, the others when their clients have the answers that they wait for (see kvopt.simulator.threads), so a slow
server also slows its clients. A seed draws the starts of sessions anew; `rate` divides the times between them, and
never what passes at the client.
"""

from __future__ import annotations

import heapq
import itertools
import math
from collections import deque
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


class Clients:
    """The clients of one run: what they will do next, in the order of time."""

    ARRIVE, GIVE_UP = 0, 1

    def __init__(self, threads: Threads, times: NDArray[np.float64], options: ClientOptions) -> None:
        self._threads = threads
        self._options = options
        self._events: list[tuple[float, int, int, int]] = []
        self._entries = itertools.count()
        self._session: list[int] = threads.session.tolist()
        self._closed = options.mode == "closed"
        self._given_up: set[int] = set()
        self.session_start: dict[int, float] = {}
        self._left: dict[int, int] = {}
        for number in self._session:
            self._left[number] = self._left.get(number, 0) + 1
        self._queue: deque[int] = deque()  # first requests that wait for the limit on sessions
        self._under_way: set[int] = set()
        self._waits = list(threads.waits)
        self._ready = [0.0] * len(self._session)
        self.requests = len(self._session)
        self.sent = 0
        for request in np.argsort(times, kind="stable").tolist():
            if not self._closed or self._waits[request] == 0:
                self._push(float(times[request]), self.ARRIVE, request)

    def next_time(self) -> float:
        """When the next client does something; infinite when none does."""
        return self._events[0][0] if self._events else math.inf

    def take(self, now: float) -> tuple[int, int, float] | None:
        """The next thing that a client does until `now`: what, for which request, and when; None when nothing."""
        while self._events and self._events[0][0] <= now:
            time, _, what, request = heapq.heappop(self._events)
            if what == self.ARRIVE and not self._may_come(request, time):
                continue
            return what, request, time
        return None

    def came(self, request: int, time: float) -> None:
        """Note that a request came to the server."""
        self.sent += 1
        if self._closed:
            self._release(self._threads.after_arrival[request], time)
        if self._options.patience is not None:
            self._push(time + self._options.patience, self.GIVE_UP, request)

    def answered(self, request: int, time: float) -> int | None:
        """Note that a request has its answer (or was refused); the number of its session when that was its last."""
        number = self._session[request]
        if self._closed:
            self._release(self._threads.after_answer[request], time)
        return self._one_less(number, time)

    def gave_up(self, request: int, time: float) -> None:
        """Note that a request was aborted for want of patience: its session sends nothing more."""
        number = self._session[request]
        self._given_up.add(number)
        self._one_less(number, time)
        self._leave(number, time)

    def has_given_up(self, session: int) -> bool:
        """Whether a session sends nothing more."""
        return session in self._given_up

    def session_of(self, request: int) -> int:
        """The number of a request's session."""
        return self._session[request]

    @property
    def waiting_sessions(self) -> int:
        """Sessions that wait for the limit."""
        return len(self._queue)

    def _may_come(self, request: int, time: float) -> bool:
        number = self._session[request]
        if number in self._given_up:
            return False
        if number not in self.session_start:
            self.session_start[number] = time
        limit = self._options.session_limit
        if limit is None or number in self._under_way:
            return True
        if len(self._under_way) >= limit:
            self._queue.append(request)
            return False
        self._under_way.add(number)
        return True

    def _one_less(self, number: int, time: float) -> int | None:
        self._left[number] -= 1
        if self._left[number] > 0:
            return None
        self._leave(number, time)
        return None if number in self._given_up else number

    def _leave(self, number: int, time: float) -> None:
        if number not in self._under_way:
            return
        self._under_way.discard(number)
        if self._queue:
            # Several first requests of one session (its sub-agents may come first) may wait.
            request = self._queue.popleft()
            self._under_way.add(self._session[request])
            self._push(time, self.ARRIVE, request)
            for other in [r for r in self._queue if self._session[r] == self._session[request]]:
                self._queue.remove(other)
                self._push(time, self.ARRIVE, other)

    def _release(self, followers: list[tuple[int, float]], time: float) -> None:
        for request, seconds in followers:
            self._ready[request] = max(self._ready[request], time + seconds)
            self._waits[request] -= 1
            if self._waits[request] == 0:
                self._push(self._ready[request], self.ARRIVE, request)

    def _push(self, time: float, what: int, request: int) -> None:
        heapq.heappush(self._events, (time, next(self._entries), what, request))


def _is_number(value: object) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)
