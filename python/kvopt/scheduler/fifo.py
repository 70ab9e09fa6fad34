"""First come, first served: vLLM's default."""

from __future__ import annotations

from kvopt.scheduler.base import Scheduler, SchedulerView
from kvopt.scheduler.request import Request, RequestQueue


class FifoScheduler(Scheduler):
    """By arrival; a preempted request comes back to the front."""

    def __init__(self) -> None:
        self._queue = RequestQueue()

    def add(self, request: Request) -> None:
        """Put it at the end."""
        self._queue.add(request)

    def prepend(self, request: Request) -> None:
        """Put it at the front."""
        self._queue.prepend(request)

    def peek(self, view: SchedulerView) -> Request:
        """Name the front."""
        return self._queue.peek()

    def pop(self) -> Request:
        """Give out the front."""
        return self._queue.pop()

    def remove(self, request: Request) -> None:
        """Drop a request, wherever it stands."""
        self._queue.remove(request)

    def __len__(self) -> int:
        return len(self._queue)
