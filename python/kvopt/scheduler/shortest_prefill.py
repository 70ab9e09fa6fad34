"""Shortest remaining prefill first: least waiting on average, at the price of long prompts."""

from __future__ import annotations

from kvopt.scheduler.base import RescoredScheduler, SchedulerView
from kvopt.scheduler.request import Request


class ShortestPrefillScheduler(RescoredScheduler):
    """By the tokens of the prompt that are not cached now; `aging` tokens weigh as much as a second of waiting.

    `aging` 0 is pure shortest-first, under which a long prompt may wait for ever while short ones keep coming.
    """

    def __init__(self, aging: float = 0.0) -> None:
        super().__init__()
        self._aging = aging

    def rank(self, request: Request, view: SchedulerView) -> float:
        """Return tokens to prefill, and more the later the arrival: the order is the same at any time."""
        return request.tokens - view.cached_tokens(request) + self._aging * request.arrival
