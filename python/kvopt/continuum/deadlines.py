"""What falls due when, the soonest first: a heap whose entries go stale by their stamp, at no cost until they surface.

The native pool keeps the deadlines of blocks (leases, priorities); these are the coordinator's own, of sessions.
"""

from __future__ import annotations

import math
from heapq import heappop, heappush


class Deadlines:
    """Sessions by deadline in seconds. The owner compares stamps, and so ignores what it has set anew since."""

    __slots__ = ("_heap", "next")

    def __init__(self) -> None:
        self._heap: list[tuple[float, str, int]] = []
        self.next = math.inf
        """The soonest deadline; nothing is due before."""

    def __len__(self) -> int:
        return len(self._heap)

    def add(self, deadline: float, session_id: str, stamp: int) -> None:
        """Something of this session falls due then."""
        heappush(self._heap, (deadline, session_id, stamp))
        self.next = self._heap[0][0]

    def due(self, now: float, most: int) -> list[tuple[str, int]]:
        """Take out what is due, the soonest first, `most` at once; the rest stays due."""
        taken: list[tuple[str, int]] = []
        while self._heap and self._heap[0][0] <= now and len(taken) < most:
            _, session_id, stamp = heappop(self._heap)
            taken.append((session_id, stamp))
        self.next = self._heap[0][0] if self._heap else math.inf
        return taken
