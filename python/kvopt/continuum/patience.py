"""How long a waiting request may be passed by others: what first come, first served would have made it wait, in part.

Whoever is let in, first come, first served would have let in the one that came first. So its waits are known without
running it: the time of the n-th admission less that of the n-th arrival. Where those waits are long anyway, a fixed
bound on starvation of some seconds would turn every order into first come, first served, and gain nothing for anybody.
"""

from __future__ import annotations

from collections import deque

_FADING = 0.999  # of the longest wait, at each admission
_SHARE = 0.55  # of it: whoever may be passed no longer still waits for those in front


class Patience:
    """The waits of first come, first served, at the worst of late. O(1) an event, amortised."""

    __slots__ = ("_aborted", "_arrivals", "_first", "_worst")

    def __init__(self) -> None:
        self._arrivals: deque[float] = deque()
        self._first = 0  # number of the arrival in front
        self._aborted: set[int] = set()
        self._worst = 0.0

    @property
    def seconds(self) -> float:
        """How long a request that comes now may be passed by others."""
        return _SHARE * self._worst

    def on_arrival(self, now: float) -> int:
        """A request waits; returns its number."""
        self._arrivals.append(now)
        return self._first + len(self._arrivals) - 1

    def on_admitted(self, now: float) -> None:
        """A request that waits is let in, for the first time."""
        self._worst = max(self._worst * _FADING, now - self._next())

    def on_aborted(self, number: int) -> None:
        """This request gave up waiting."""
        if number < self._first:  # first come, first served would have let it in; then another waits in its place
            self._next()
        else:
            self._aborted.add(number)

    def _next(self) -> float:
        while True:
            arrival = self._arrivals.popleft()
            self._first += 1
            if self._first - 1 not in self._aborted:
                return arrival
            self._aborted.remove(self._first - 1)
