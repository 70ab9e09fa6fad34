"""The work that waits, in seconds of prefill: how long first come, first served would make each wait, and who is due.

Served in the order of arrival, a request waits for the work in front of it, Sⱼ with its own. In whatever order else a
server works that is never idle while somebody waits, the work that waits is as much; so what arrives now would have its
first token after the work that there is, and the longest such time of late bounds, times a stretch, the wait of all
(D). A request that came at aⱼ can be passed until aⱼ + D - Sⱼ: then all who came before it have to be served, and it.

Structure: a segment tree over the requests by arrival, of sums and of the least aⱼ - Sⱼ. O(log n) an event.
"""

from __future__ import annotations

import math
from typing import Protocol

STRETCH = 1.1
"""Of the longest wait that first come, first served would cause of the same work: what a request waits at most."""

_FADING = 4.0 * 3600.0  # seconds after which a long wait counts for a third: a busy hour bounds the hours after it
_LEAST_SIZE = 16


class Waits(Protocol):
    """What waits; `slot` is for the backlog alone."""

    slot: int
    since: float
    """When it came, in seconds; not before those that were added earlier."""
    seconds: float
    """Of prefill that it needs, from 0."""


class Backlog:
    """Who waits, by arrival."""

    __slots__ = ("_busy_until", "_first", "_lows", "_next", "_noted", "_owners", "_size", "_sums", "_worst")

    def __init__(self) -> None:
        self._size = _LEAST_SIZE
        self._owners: list[Waits | None] = []
        self._sums: list[float] = []
        self._lows: list[float] = []
        self._next = 0  # slot
        self._first = 0  # slot of the first that is not due; all in front of it are, or are gone
        self._busy_until = -math.inf
        self._worst = 0.0
        self._noted = -math.inf
        self._build([])

    @property
    def bound(self) -> float:
        """Seconds until its first token that nobody should wait longer than, by the work of late."""
        return STRETCH * self._worst

    def add(self, owner: Waits, now: float) -> None:
        """It waits from now on."""
        if self._next == self._size:
            self._build([other for other in self._owners if other is not None])
        self._put(owner, self._next)
        self._next += 1
        fading = math.exp(-max(now - self._noted, 0.0) / _FADING)
        self._worst = max(self._worst * fading, max(self._busy_until - now, 0.0) + self._sums[1])
        self._noted = max(self._noted, now)

    def remove(self, owner: Waits) -> None:
        """It does not wait any longer."""
        slot = owner.slot
        self._owners[slot] = None
        self._set(slot, 0.0, math.inf)

    def start(self, owner: Waits, now: float) -> None:
        """It is let in, and served for its seconds after those before it."""
        self.remove(owner)
        self._busy_until = max(self._busy_until, now) + owner.seconds

    def reckon(self, owner: Waits, seconds: float) -> None:
        """It needs so many seconds, as is known now."""
        owner.seconds = seconds
        slot = owner.slot
        self._set(slot, seconds, owner.since - seconds if slot >= self._first else math.inf)

    def latest(self, before: Waits | None = None) -> float:
        """The least aⱼ - Sⱼ of those who are not due, or of those of them who came before another; else infinite."""
        return self._least(before)[0]

    def take_due(self, before: Waits | None = None) -> list[Waits]:
        """Those up to the one that :meth:`latest` is of, in the order of their arrival: they are due from now on."""
        low, node = self._least(before)
        if low == math.inf:
            return []
        while node < self._size:
            left = 2 * node
            node = left if self._lows[left] <= self._lows[left + 1] - self._sums[left] else left + 1
        last = node - self._size
        due = [owner for owner in self._owners[self._first : last + 1] if owner is not None]
        self._first = last + 1
        for owner in due:
            self._set(owner.slot, owner.seconds, math.inf)
        return due

    def _least(self, before: Waits | None) -> tuple[float, int]:
        """The least aⱼ - Sⱼ, and a node that it is under."""
        if before is None:
            return self._lows[1], 1
        low, under = math.inf, 0
        node = self._size + before.slot
        while node > 1:
            if node & 1:  # what is to the left came before what was looked at so far
                left = node - 1
                if self._lows[left] <= low - self._sums[left]:
                    low, under = self._lows[left], left
                else:
                    low -= self._sums[left]
            node >>= 1
        return low, under

    def _build(self, owners: list[Waits]) -> None:
        due = sum(owner.slot < self._first for owner in owners)
        while self._size < 2 * len(owners):
            self._size *= 2
        self._owners = [None] * self._size
        self._sums = [0.0] * (2 * self._size)
        self._lows = [math.inf] * (2 * self._size)
        self._first = due
        for slot, owner in enumerate(owners):
            self._put(owner, slot)
        self._next = len(owners)

    def _put(self, owner: Waits, slot: int) -> None:
        owner.slot = slot
        self._owners[slot] = owner
        self._set(slot, owner.seconds, owner.since - owner.seconds if slot >= self._first else math.inf)

    def _set(self, slot: int, seconds: float, low: float) -> None:
        sums, lows = self._sums, self._lows
        node = self._size + slot
        sums[node], lows[node] = seconds, low
        while node > 1:
            node >>= 1
            left = 2 * node
            sums[node] = sums[left] + sums[left + 1]
            lows[node] = min(lows[left], lows[left + 1] - sums[left])
