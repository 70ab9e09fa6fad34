"""What falls due when, the soonest first: a heap whose entries go stale by their stamp, at no cost until they surface.

The native pool keeps the deadlines of blocks (leases, priorities); these are the coordinator's own, of sessions. Stale
entries are dropped when they outnumber the live ones, so the heap is at most twice what is known.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from heapq import heapify, heappop, heappush

_COMPACT_ABOVE = 1024


class Deadlines:
    """Sessions by deadline in seconds; `live` says of a session and a stamp whether its deadline still stands."""

    __slots__ = ("_compact_above", "_heap", "_live", "next")

    def __init__(self, live: Callable[[str, int], bool]) -> None:
        self._heap: list[tuple[float, str, int]] = []
        self._live = live
        self._compact_above = _COMPACT_ABOVE
        self.next = math.inf
        """The soonest deadline; nothing is due before."""

    def __len__(self) -> int:
        return len(self._heap)

    def add(self, deadline: float, session_id: str, stamp: int) -> None:
        """Something of this session falls due then. O(log n), a compaction apart."""
        heappush(self._heap, (deadline, session_id, stamp))
        if len(self._heap) > self._compact_above:
            self._heap = [entry for entry in self._heap if self._live(entry[1], entry[2])]
            heapify(self._heap)
            self._compact_above = max(_COMPACT_ABOVE, 2 * len(self._heap))
        self.next = self._heap[0][0] if self._heap else math.inf

    def due(self, now: float, most: int) -> list[str]:
        """Take out what is due and live, the soonest first, `most` at once; the rest stays due."""
        taken: list[str] = []
        while self._heap and self._heap[0][0] <= now and len(taken) < most:
            _, session_id, stamp = heappop(self._heap)
            if self._live(session_id, stamp):
                taken.append(session_id)
        self.next = self._heap[0][0] if self._heap else math.inf
        return taken
