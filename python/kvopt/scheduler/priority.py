"""By priority, as vLLM's ``--scheduling-policy priority``."""

from __future__ import annotations

from kvopt.scheduler.base import OrderedScheduler
from kvopt.scheduler.request import Request


class PriorityScheduler(OrderedScheduler):
    """The lowest `priority` first, then the earliest arrival; preempts the highest, then the latest arrival.

    Preempted requests are ranked as any other.
    """

    rank_preempted = True
    preemption = "priority"

    def rank(self, request: Request) -> tuple[int, float, int]:
        """Return priority, arrival and id, the order of vLLM's Request.__lt__."""
        return request.priority, request.arrival, request.id
