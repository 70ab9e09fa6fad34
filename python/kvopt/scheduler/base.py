"""What a scheduler is: the order of the requests that wait, and who gives way when memory runs out.

The engine guarantees:
    * a request is added once when it arrives, prepended when it was preempted, and then popped or removed;
    * :meth:`Scheduler.pop` follows a :meth:`Scheduler.peek` in the same step and means the request that was named;
    * when the request that :meth:`Scheduler.peek` names does not fit, none behind it is asked for in that step (the
      head of the line blocks, as in vLLM).

The scheduler must:
    * hold every request until it is popped or removed;
    * name one that it holds, and the same one until something is added, taken or cached, or the time that
      :meth:`Scheduler.stable_until` gives has come.
"""

from __future__ import annotations

import heapq
import itertools
import math
from abc import ABC, abstractmethod
from typing import Any, ClassVar, Protocol

from kvopt.errors import SchedulerError
from kvopt.scheduler.request import Request


class SchedulerView(Protocol):
    """What a scheduler may ask the engine."""

    @property
    def now(self) -> float:
        """Seconds since the beginning of the trace."""

    @property
    def version(self) -> int:
        """Changes whenever what is cached may have changed."""

    def cached_tokens(self, request: Request) -> int:
        """Tokens of the longest cached prefix of a waiting request, at most all but its last one. No effect."""


class Scheduler(ABC):
    """Base of schedulers; see the module's text for both sides' duties."""

    preemption: ClassVar[str] = "last"
    """The way of preemption that goes with it: a name of kvopt.simulator.preemption."""

    @abstractmethod
    def add(self, request: Request) -> None:
        """Take in a request that has arrived."""

    @abstractmethod
    def prepend(self, request: Request) -> None:
        """Take back a request that was preempted."""

    @abstractmethod
    def peek(self, view: SchedulerView) -> Request:
        """Name the next request; there is one."""

    @abstractmethod
    def pop(self) -> Request:
        """Give out the request that :meth:`peek` named last."""

    @abstractmethod
    def remove(self, request: Request) -> None:
        """Drop a request that was aborted."""

    def stable_until(self) -> float:
        """When the order may next change by the passing of time alone, in seconds."""
        return math.inf

    @abstractmethod
    def __len__(self) -> int:
        """How many requests wait."""


class OrderedScheduler(Scheduler):
    """Override :meth:`rank`, which is asked once when a request comes; the lowest goes first, ties by coming.

    Preempted requests go before all others, the last preempted first; where `rank_preempted` is set they are ranked as
    any other.
    """

    rank_preempted: ClassVar[bool] = False

    def __init__(self) -> None:
        self._heap: list[tuple[Any, int, Request]] = []
        self._front: list[Request] = []
        self._entries = itertools.count()

    @abstractmethod
    def rank(self, request: Request) -> Any:
        """Return a number, or a tuple of numbers."""

    def add(self, request: Request) -> None:
        """Rank a request."""
        heapq.heappush(self._heap, (self.rank(request), next(self._entries), request))

    def prepend(self, request: Request) -> None:
        """Put it before all others, or rank it."""
        if self.rank_preempted:
            self.add(request)
        else:
            self._front.append(request)

    def peek(self, view: SchedulerView) -> Request:
        """Name the last preempted, or the lowest."""
        return self._front[-1] if self._front else self._heap[0][2]

    def pop(self) -> Request:
        """Give it out."""
        return self._front.pop() if self._front else heapq.heappop(self._heap)[2]

    def remove(self, request: Request) -> None:
        """Drop a request; looks at all."""
        if request in self._front:
            self._front.remove(request)
            return
        kept = [entry for entry in self._heap if entry[2] is not request]
        if len(kept) == len(self._heap):
            raise SchedulerError(f"request {request.id} does not wait")
        self._heap = kept
        heapq.heapify(self._heap)

    def __len__(self) -> int:
        return len(self._front) + len(self._heap)


class RescoredScheduler(Scheduler):
    """Override :meth:`rank`, which is asked for every waiting request whenever the cache may have changed.

    The lowest goes first, ties by coming; preempted requests go before all others. Costs a call for each waiting
    request and change.
    """

    def __init__(self) -> None:
        self._waiting: dict[int, Request] = {}
        self._front: list[Request] = []
        self._ranks: dict[int, Any] = {}
        self._version = -1

    @abstractmethod
    def rank(self, request: Request, view: SchedulerView) -> Any:
        """Return a number, or a tuple of numbers."""

    def add(self, request: Request) -> None:
        """Take in a request."""
        self._waiting[request.id] = request

    def prepend(self, request: Request) -> None:
        """Put it before all others."""
        self._front.append(request)

    def peek(self, view: SchedulerView) -> Request:
        """Name the last preempted, or the lowest."""
        if self._front:
            return self._front[-1]
        if self._version != view.version:
            self._ranks.clear()
            self._version = view.version
        ranks = self._ranks
        for request in self._waiting.values():
            if request.id not in ranks:
                ranks[request.id] = self.rank(request, view)
        self._named = min(self._waiting.values(), key=lambda request: ranks[request.id])
        return self._named

    def pop(self) -> Request:
        """Give it out."""
        if self._front:
            return self._front.pop()
        self._ranks.pop(self._named.id, None)
        return self._waiting.pop(self._named.id)

    def remove(self, request: Request) -> None:
        """Drop a request."""
        if request in self._front:
            self._front.remove(request)
        elif self._waiting.pop(request.id, None) is None:
            raise SchedulerError(f"request {request.id} does not wait")
        self._ranks.pop(request.id, None)

    def __len__(self) -> int:
        return len(self._front) + len(self._waiting)
