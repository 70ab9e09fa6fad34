"""Waiting queues in an order of our own, fixed while vLLM looks at them.

vLLM peeks at the head, allocates, and pops without looking again, so the order changes only in :meth:`reorder`, before
a step. What vLLM prepends in between (preempted requests, skipped ones) stays in front, as in its own queue.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterator
from typing import Any

from vllm.v1.core.sched.request_queue import FCFSRequestQueue, PriorityRequestQueue

Rank = Callable[[Any], Any]
"""Gives a waiting request of vLLM its place, any comparable value; the lowest goes first."""


def ordered_queue(queue: Any) -> FirstComeOrder | PriorityOrder | None:
    """A queue with :meth:`reorder` in place of one of vLLM's, with the same requests; None for a kind it is not for."""
    made: FirstComeOrder | PriorityOrder
    if type(queue) is FCFSRequestQueue:
        made = FirstComeOrder()
    elif type(queue) is PriorityRequestQueue:
        made = PriorityOrder()
    else:
        return None
    for request in queue:
        made.add_request(request)
    return made


def may_move(request: Any) -> bool:
    """Whether a waiting request may change its place: it holds no blocks and waits for nothing but its turn."""
    return request.num_computed_tokens == 0 and request.status.name in {"WAITING", "PREEMPTED"}


class FirstComeOrder(FCFSRequestQueue):  # type: ignore[misc]
    """First come, first served, but for those that :meth:`reorder` moves."""

    def reorder(self, rank: Rank) -> None:
        """Sort who may move by `rank`, first come first among equals; the others keep their places."""
        if len(self) < 2:
            return
        requests = list(self)
        places = [place for place, request in enumerate(requests) if may_move(request)]
        movers = sorted((requests[place] for place in places), key=rank)
        for place, request in zip(places, movers, strict=True):
            requests[place] = request
        self.clear()
        self.extend(requests)


class PriorityOrder(PriorityRequestQueue):  # type: ignore[misc]
    """vLLM's priorities first; within one, the rank that the last :meth:`reorder` gave, then vLLM's order."""

    def __init__(self) -> None:
        self._entries: list[_Entry] = []
        self._rank: Rank | None = None

    def reorder(self, rank: Rank) -> None:
        """Rank all requests anew; those that may not move go before others of their priority."""
        self._rank = rank
        self._entries = [_Entry(entry.request, self._key(entry.request)) for entry in self._entries]
        heapq.heapify(self._entries)

    def add_request(self, request: Any) -> None:  # noqa: D102
        heapq.heappush(self._entries, _Entry(request, self._key(request)))

    def pop_request(self) -> Any:  # noqa: D102
        if not self._entries:
            raise IndexError("pop from an empty queue")
        return heapq.heappop(self._entries).request

    def peek_request(self) -> Any:  # noqa: D102
        if not self._entries:
            raise IndexError("peek from an empty queue")
        return self._entries[0].request

    def remove_request(self, request: Any) -> None:  # noqa: D102
        self._keep(lambda other: other is not request)

    def remove_requests(self, requests: Any) -> None:  # noqa: D102
        gone = set(requests)
        self._keep(lambda other: other not in gone)

    def __bool__(self) -> bool:
        return bool(self._entries)

    def __len__(self) -> int:
        return len(self._entries)

    def __iter__(self) -> Iterator[Any]:
        return (entry.request for entry in sorted(self._entries))

    def _key(self, request: Any) -> Any:
        if self._rank is None:
            return None
        return (0, None) if not may_move(request) else (1, self._rank(request))

    def _keep(self, wanted: Callable[[Any], bool]) -> None:
        self._entries = [entry for entry in self._entries if wanted(entry.request)]
        heapq.heapify(self._entries)


class _Entry:
    """A request and the key that it was ranked with."""

    __slots__ = ("key", "request")

    def __init__(self, request: Any, key: Any) -> None:
        self.request = request
        self.key = key

    def __lt__(self, other: _Entry) -> bool:
        mine, theirs = self.request, other.request
        if mine.priority != theirs.priority:
            return bool(mine.priority < theirs.priority)
        if self.key != other.key and self.key is not None and other.key is not None:
            return bool(self.key < other.key)
        return bool(mine < theirs)
