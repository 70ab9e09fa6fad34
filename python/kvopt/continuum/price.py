"""What a block-second costs others, from the demand for blocks as it is: 0 while memory is slack.

Two prices, the higher one counts:

* of waiting: while requests wait for blocks that are not to be had, a block held for a second takes 1/M of what the
  M blocks of the pool serve in a second, and all w who wait start so much later. So it costs w/M seconds of job time,
  times the share of the demand that is unmet.
* of eviction: where content is evicted, a block that is held costs what the block evicted in its stead was worth.

Both are means over time with one time constant: a price for seconds to come must not follow every step.
"""

from __future__ import annotations

import math

from kvopt.errors import ConfigError


class BlockPrice:
    """The price of memory λ(t), in seconds of job time a block-second."""

    __slots__ = ("_capacity", "_evicted_at", "_eviction", "_now", "_time_constant", "_unmet", "_waiting_price")

    def __init__(self, capacity: int, time_constant: float = 20.0) -> None:
        """`capacity` in blocks, `time_constant` in seconds; raises ConfigError unless both are above 0."""
        if capacity < 1:
            raise ConfigError(f"capacity: {capacity!r}; it must be a number of blocks above 0")
        if not 0.0 < time_constant < math.inf:
            raise ConfigError(f"time_constant: {time_constant!r}; it must be a number of seconds above 0")
        self._capacity = capacity
        self._time_constant = time_constant
        self._now = -math.inf
        self._unmet = 0.0  # requests that wait for want of blocks, since the last observation
        self._waiting_price = 0.0
        self._eviction = 0.0
        self._evicted_at = -math.inf

    def observe(self, now: float, *, available: int, wanted: int, waiting: int) -> None:
        """The demand from now on: `waiting` requests want `wanted` blocks in all, `available` could be had."""
        self._waiting_price = self._waiting(now)
        self._now = max(now, self._now)
        self._unmet = waiting * min(max(wanted - available, 0) / wanted, 1.0) if wanted > 0 else 0.0

    def observe_eviction(self, now: float, value: float) -> None:
        """A block was evicted that was worth `value` seconds a block-second."""
        decayed = self._evicted(now)
        self._eviction = decayed + (value - decayed) * 0.1
        self._evicted_at = max(now, self._evicted_at)

    def price(self, now: float) -> float:
        """λ(now)."""
        return max(self._waiting(now), self._evicted(now))

    def _waiting(self, now: float) -> float:
        elapsed = now - self._now
        if elapsed <= 0.0:
            return self._waiting_price
        kept = math.exp(-elapsed / self._time_constant)
        price = self._waiting_price * kept + (self._unmet / self._capacity) * (1.0 - kept)
        return price if price > 1e-12 else 0.0

    def _evicted(self, now: float) -> float:
        elapsed = max(now - self._evicted_at, 0.0)
        price = self._eviction * math.exp(-elapsed / self._time_constant) if self._eviction > 0.0 else 0.0
        return price if price > 1e-12 else 0.0


class QueueForecast:
    """How much longer a session would wait had it lost its blocks: per request, instead of one mean for all.

    A request with its blocks goes in front and needs only what it adds; without them it stands behind all programs that
    arrived before its own, and needs them all. Blocks come at the rate at which running requests let go of them.
    """

    __slots__ = ("_longest", "_now", "_rate", "_time_constant")

    def __init__(self, time_constant: float = 20.0) -> None:
        self._time_constant = time_constant
        self._now: float | None = None
        self._rate = 0.0  # blocks a second
        self._longest = 0.0

    def on_release(self, now: float, blocks: int) -> None:
        """A running request let go of so many blocks."""
        if self._now is not None:
            self._rate *= math.exp(-max(now - self._now, 0.0) / self._time_constant)
        self._rate += blocks / self._time_constant
        self._now = now

    def on_wait(self, seconds: float) -> None:
        """A request was scheduled after waiting so long: no forecast exceeds the longest of late."""
        self._longest = max(seconds, self._longest * 0.99)

    def gain(self, *, ahead: float, blocks: int, available: int) -> float:
        """Seconds of waiting saved by `blocks` retained blocks, with `ahead` blocks wanted in front of it."""
        short = ahead + blocks - available
        if short <= 0.0 or self._rate <= 0.0:
            return 0.0
        return min(short / self._rate, self._longest)
