"""First come, first served: vLLM's default."""

from __future__ import annotations

from kvopt.scheduler.base import Scheduler, SchedulerView
from kvopt.scheduler.request import Request, RequestQueue


class FifoScheduler(Scheduler):
    """By arrival; a preempted request comes back to the front."""

    def __init__(self) -> None:
        self.queue = RequestQueue()
        """Where they wait; the engine serves it without asking."""

    def add(self, request: Request) -> None:
        """Put it at the end."""
        self.queue.add(request)

    def prepend(self, request: Request) -> None:
        """Put it at the front."""
        self.queue.prepend(request)

    def peek(self, view: SchedulerView) -> Request:
        """Name the front."""
        return self.queue.peek()

    def pop(self) -> Request:
        """Give out the front."""
        return self.queue.pop()

    def remove(self, request: Request) -> None:
        """Drop a request, wherever it stands."""
        self.queue.remove(request)

    def __len__(self) -> int:
        return len(self.queue)
