"""What Continuum's own rule learns from: exact durations by tool, queueing delay and the shape of programs.

Source: Continuum (v6, §4.1–4.2): the empirical law P(τ, f) of tool f with its cold start at K = 100, inclusive;
T, the mean queueing delay of requests that had been evicted; η = −Corr(k, N − k) over served and remaining requests of
a program. What differs: the last `window` samples of a tool, of all tools and of delays count, where the paper has no
bound; η takes every k from 1 to N of every finished program, since the paper does not say how it is sampled.
"""

from __future__ import annotations

import math
from collections import OrderedDict, deque

import numpy as np

from kvopt.continuum.curve import Floats

K = 100
"""More samples than this are trusted."""

WINDOW = 1000
_MOST_TOOLS = 1024


class DurationSample:
    """The last `window` durations in seconds, in order."""

    __slots__ = ("_order", "_ranks", "_sorted", "_window")

    def __init__(self, window: int = WINDOW) -> None:
        self._window = window
        self._order: deque[float] = deque()
        self._sorted: Floats = np.empty(16)
        self._ranks: Floats = np.empty(0)

    def __len__(self) -> int:
        return len(self._order)

    def add(self, seconds: float) -> None:
        """Take one duration in; the oldest goes when there are too many. O(window), without a sort."""
        n = len(self._order)
        if n == self._window:
            out = int(self._sorted[:n].searchsorted(self._order.popleft()))
            self._sorted[out : n - 1] = self._sorted[out + 1 : n]
            n -= 1
        elif n == len(self._sorted):
            self._sorted = np.concatenate([self._sorted, np.empty(n)])
        at = int(self._sorted[:n].searchsorted(seconds))
        self._sorted[at + 1 : n + 1] = self._sorted[at:n]
        self._sorted[at] = seconds
        self._order.append(seconds)

    def best_ttl(self, benefit: float) -> tuple[float, float]:
        """The argmax over {0} and all durations of P(τ)·benefit − τ, and its value; the shortest of equals."""
        n = len(self._order)
        if n == 0:
            return 0.0, 0.0
        durations = self._sorted[:n]
        if len(self._ranks) < n:
            self._ranks = np.arange(1.0, 2.0 * n + 1.0)
        value = self._ranks[:n] * (benefit / n)
        value -= durations
        best = int(value.argmax())
        most = float(value[best])
        return (float(durations[best]), most) if most > 0.0 else (0.0, 0.0)


class PaperSamples:
    """S[f], S, T and η of one server."""

    def __init__(self, window: int = WINDOW) -> None:
        self._window = window
        self._tools: OrderedDict[str, DurationSample] = OrderedDict()
        self._all = DurationSample(window)
        self._waits: deque[float] = deque()
        self._waited = 0.0
        self._sums = [0.0] * 6  # pairs, Σk, Σ(N−k), Σk², Σ(N−k)², Σk(N−k)
        self._lengths: set[int] = set()
        self.eta = 1.0
        """η; 1 until programs of two lengths have finished."""

    def on_gap(self, tool: str, seconds: float) -> None:
        """Take the duration of a tool in."""
        sample = self._tools.get(tool)
        if sample is None:
            sample = self._tools[tool] = DurationSample(self._window)
            if len(self._tools) > _MOST_TOOLS:
                self._tools.popitem(last=False)
        self._tools.move_to_end(tool)
        sample.add(seconds)
        self._all.add(seconds)

    def on_wait(self, seconds: float) -> None:
        """Take in how long a request waited that had been evicted."""
        self._waits.append(seconds)
        self._waited += seconds
        if len(self._waits) > self._window:
            self._waited -= self._waits.popleft()

    def on_program(self, requests: int) -> None:
        """Take in a finished program of so many requests."""
        n = float(requests)
        served = n * (n + 1.0) / 2.0
        squares = n * (n + 1.0) * (2.0 * n + 1.0) / 6.0
        left, left_squares = n * n - served, (n - 1.0) * n * (2.0 * n - 1.0) / 6.0
        added = (n, served, left, squares, left_squares, n * served - squares)
        self._sums = [old + new for old, new in zip(self._sums, added, strict=True)]
        if len(self._lengths) < 2:
            self._lengths.add(requests)
        self.eta = self._correlation()

    @property
    def wait(self) -> float:
        """T, in seconds; 0 before the first."""
        return max(self._waited, 0.0) / len(self._waits) if self._waits else 0.0

    def _correlation(self) -> float:
        n, x, y, xx, yy, xy = self._sums
        spread = (n * xx - x * x) * (n * yy - y * y)
        if len(self._lengths) < 2 or spread <= 0.0:
            return 1.0
        return -(n * xy - x * y) / math.sqrt(spread)

    def sample(self, tool: str) -> DurationSample | None:
        """The durations that the cold-start rule takes for this tool; None while there are K or fewer of all."""
        if len(self._all) <= K:
            return None
        own = self._tools.get(tool)
        return own if own is not None and len(own) > K else self._all
