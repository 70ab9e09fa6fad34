"""Longest cached prefix first, within a bound on starvation."""

from __future__ import annotations

import math

from kvopt.scheduler.base import RescoredScheduler, SchedulerView
from kvopt.scheduler.request import Request


class CacheAwareScheduler(RescoredScheduler):
    """By the tokens that are cached now, the most first; who has waited for `bound` seconds goes before, by arrival.

    Longest prefix match as in SGLang (arXiv 2312.07104, section 3), whose order starves requests without a hit.
    """

    def __init__(self, bound: float = 30.0) -> None:
        super().__init__()
        self._bound = bound
        self._next_overdue = math.inf

    def rank(self, request: Request, view: SchedulerView) -> tuple[int, float, float]:
        """Return overdue or not, tokens cached (negative) unless overdue, and the arrival."""
        if view.now >= request.arrival + self._bound:
            return 0, request.arrival, 0.0
        self._next_overdue = min(self._next_overdue, request.arrival + self._bound)
        return 1, -float(view.cached_tokens(request)), request.arrival

    def peek(self, view: SchedulerView) -> Request:
        """Name the head, after ranking anew whoever has become overdue."""
        if view.now >= self._next_overdue:
            self._ranks.clear()
            self._next_overdue = math.inf
        return super().peek(view)

    def stable_until(self) -> float:
        """When the next request becomes overdue; perhaps one that has gone since."""
        return self._next_overdue
