"""Gaps that are still running, by when they began: bounded memory, ages to a tenth.

A running tool is an observation too: it has lasted so long and is not back. How many have lasted how long changes with
every second, so starts are kept, not ages; neighbouring starts are merged as they grow old, while the time between
them is small beside their age. O(log buckets) a start or an end; some two hundred buckets at most.
"""

from __future__ import annotations

from bisect import bisect_right

import numpy as np
from numpy.typing import NDArray

_FINEST = 0.125  # seconds
_WIDTH = 0.1  # of a bucket, as a share of its age
_COMPACT_ABOVE = 128


class OpenGaps:
    """Counts of running gaps by start. Times are those of one clock that does not go back."""

    __slots__ = ("_compact_above", "_counts", "_starts", "running")

    def __init__(self) -> None:
        self._starts: list[float] = []
        self._counts: list[int] = []
        self._compact_above = _COMPACT_ABOVE
        self.running = 0
        """How many are running."""

    def begin(self, now: float) -> None:
        """Note a gap that begins now, in seconds; not before the last one."""
        if self._starts and now < self._starts[-1] + _FINEST:
            self._counts[-1] += 1
        else:
            self._starts.append(now)
            self._counts.append(1)
            if len(self._starts) > self._compact_above:
                self._compact(now)
        self.running += 1

    def end(self, began: float) -> None:
        """Forget a gap that began then; nothing happens when none is known."""
        i = bisect_right(self._starts, began) - 1
        if i >= 0 and self._counts[i] > 0:
            self._counts[i] -= 1
            self.running -= 1

    def ages(self, now: float) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Ages in seconds of all that run, and how many run at each (two arrays of one length)."""
        counts = np.array(self._counts, dtype=np.float64)
        return np.maximum(now - np.array(self._starts), 0.0), counts

    def _compact(self, now: float) -> None:
        starts, counts = [self._starts[-1]], [self._counts[-1]]
        end = now  # where the newest bucket of the merged ones ends
        for start, count in zip(reversed(self._starts[:-1]), reversed(self._counts[:-1]), strict=True):
            # A merged bucket keeps its oldest start, so that an end finds it wherever its own start was.
            if end - start <= _WIDTH * (now - end) or counts[-1] == 0:
                starts[-1], counts[-1] = start, counts[-1] + count
            else:
                end = starts[-1]
                starts.append(start)
                counts.append(count)
        self._starts, self._counts = starts[::-1], counts[::-1]
        self._compact_above = max(_COMPACT_ABOVE, 2 * len(starts))
