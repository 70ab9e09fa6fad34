"""A policy given by one number a run: the lowest-ranked leaf goes first."""

from __future__ import annotations

import heapq
from abc import abstractmethod

import numpy as np

from kvopt._core import RequestInfo, RunTable
from kvopt.policies.base import Policy, RunIds


class RankingPolicy(Policy):
    """Override :meth:`rank`; the order is kept for you: leaf first, ties by depth (deepest first), then by run id.

    A run is ranked when it becomes an evictable leaf, and keeps that rank until it is used again.
    """

    @abstractmethod
    def rank(self, run: int, now: float) -> float:
        """Return a number for a leaf (not NaN), from the columns of ``self.runs``; the lowest is evicted first."""

    def attach(self, runs: RunTable) -> None:
        """Take the table and set up an empty order."""
        super().attach(runs)
        self._heap: list[tuple[float, int, int, int]] = []
        self._entered = np.zeros(runs.capacity, np.int64)  # number of its entry in the heap; 0: not in the order
        self._entries = 0

    def on_referenced(self, runs: RunIds) -> None:
        """Take runs out of the order; their entries are skipped later."""
        self._entered[runs] = 0

    def on_evictable(self, runs: RunIds, info: RequestInfo) -> None:
        """Rank the leaves among them: under the prefix rule only the deepest run of a request can be one."""
        for run in runs[self.runs.children[runs] == 0].tolist():
            self._enter(run, info.now)

    def on_uncovered(self, run: int) -> None:
        """Rank a run that has become a leaf."""
        self._enter(run, float(self.runs.last_use[run]))

    def choose(self, wanted: int, now: float) -> int:
        """Name the lowest-ranked leaf."""
        while True:
            _, _, run, entry = self._heap[0]
            if self._entered[run] == entry:
                return run
            heapq.heappop(self._heap)

    def _enter(self, run: int, now: float) -> None:
        rank = float(self.rank(run, now))
        if rank != rank:
            raise ValueError(f"rank({run}) is NaN")
        self._entries += 1
        self._entered[run] = self._entries
        heapq.heappush(self._heap, (rank, -int(self.runs.depth[run]), run, self._entries))
        if len(self._heap) > 4 * self.runs.capacity + 64:
            self._heap = [entry for entry in self._heap if self._entered[entry[2]] == entry[3]]
            heapq.heapify(self._heap)
