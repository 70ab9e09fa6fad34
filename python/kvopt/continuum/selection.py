"""In which order waiting requests are tried: who was interrupted, who comes back to retained blocks, who came first.

The standings, in order:

    preempted   was running and lost its blocks: finishing it frees memory soonest
    starved     has waited for the bound or longer; by its end, so that no session waits for ever
    returning   its session's blocks are retained: it needs little memory, and its hold ends when it starts
    first come  the session that arrived first (program-level FCFS; Continuum v6, §4.3)

The bound is some seconds, or most of what first come, first served would make requests wait, whichever is more.

What differs from the paper: the starved, and ageing, which mixes a request's own arrival into its program's, so that an
old session does not always pass a new one. Structure: one sorted list of keys. O(log n) comparisons an event.
"""

from __future__ import annotations

import enum
import math
from bisect import bisect_left, insort
from collections.abc import Hashable, Iterator
from heapq import heapify, heappop, heappush
from itertools import islice
from typing import NamedTuple

from kvopt.continuum.patience import Patience
from kvopt.errors import ConfigError, RequestIdError


class Standing(enum.IntEnum):
    """Why a candidate stands where it does; the lowest first."""

    PREEMPTED = 0
    STARVED = 1
    RETURNING = 2
    FIRST_COME = 3

    @property
    def reason(self) -> str:
        """In words."""
        return _REASONS[self]


_REASONS = {
    Standing.PREEMPTED: "was preempted",
    Standing.STARVED: "has waited for the starvation bound",
    Standing.RETURNING: "its session's blocks are retained",
    Standing.FIRST_COME: "in the order of its session's arrival",
}


class Candidate(NamedTuple):
    """A waiting request, and why it stands where it does."""

    request: Hashable
    standing: Standing
    waited: float
    """Seconds since it arrived."""

    @property
    def reason(self) -> str:
        """In words."""
        return self.standing.reason


_Key = tuple[int, float, int]  # standing, time, and the request's number, which is its own


class _Waiting:
    __slots__ = ("arrival", "blocks", "key", "order", "place", "request")

    def __init__(
        self, request: Hashable, arrival: float, order: float, blocks: int, key: _Key, place: int | None
    ) -> None:
        self.place = place
        self.request = request
        self.arrival = arrival
        self.order = order
        self.blocks = blocks
        self.key = key


class ProgramSelection:
    """The waiting requests in order.

    `starvation_bound` is the least, in seconds; `ageing` from 0 (the session's arrival alone) to 1 (the request's own).
    Raises ConfigError for values out of range. Times are those of one clock that does not go back.
    """

    def __init__(self, *, starvation_bound: float = 30.0, ageing: float = 0.0) -> None:
        if not starvation_bound > 0.0:
            raise ConfigError(f"starvation_bound: {starvation_bound!r}; it must be a number of seconds above 0")
        if not 0.0 <= ageing <= 1.0:
            raise ConfigError(f"ageing: {ageing!r}; it must be from 0 to 1")
        self._bound = starvation_bound
        self._ageing = ageing
        self._keys: list[_Key] = []
        self._by_number: dict[int, _Waiting] = {}
        self._by_request: dict[Hashable, _Waiting] = {}
        self._patience = Patience()
        self._deadlines: list[tuple[float, int]] = []  # a heap: when whom starves
        self._next_number = 0
        self.blocks = 0
        """Blocks that all who wait want."""

    def __len__(self) -> int:
        return len(self._keys)

    def __contains__(self, request: Hashable) -> bool:
        return request in self._by_request

    def add(
        self,
        request: Hashable,
        now: float,
        *,
        program_arrival: float,
        arrival: float | None = None,
        blocks: int = 1,
        preempted: bool = False,
        retained: bool = False,
    ) -> None:
        """A request waits from now on; `arrival` is its own, when it waited before. Raises RequestIdError."""
        if request in self._by_request:
            raise RequestIdError(f"request id {request!r} waits already")
        arrival = now if arrival is None else arrival
        number = self._next_number
        self._next_number += 1
        standing = Standing.PREEMPTED if preempted else Standing.RETURNING if retained else Standing.FIRST_COME
        order = program_arrival + self._ageing * (arrival - program_arrival)
        place = None if preempted else self._patience.on_arrival(now)
        waiting = _Waiting(request, arrival, order, blocks, (standing, order, number), place)
        self._by_number[number] = self._by_request[request] = waiting
        insort(self._keys, waiting.key)
        heappush(self._deadlines, (now + max(self._bound, self._patience.seconds), number))
        self.blocks += blocks

    def admit(self, request: Hashable, now: float) -> None:
        """A request no longer waits, for it runs. Raises RequestIdError."""
        if self._take(request).place is not None:
            self._patience.on_admitted(now)

    def remove(self, request: Hashable) -> None:
        """A request no longer waits, for it was aborted. Raises RequestIdError."""
        place = self._take(request).place
        if place is not None:
            self._patience.on_aborted(place)

    def _take(self, request: Hashable) -> _Waiting:
        waiting = self._of(request)
        del self._keys[bisect_left(self._keys, waiting.key)]
        del self._by_request[request]
        del self._by_number[waiting.key[2]]
        self.blocks -= waiting.blocks
        if len(self._deadlines) > 2 * len(self._keys) + 64:
            self._deadlines = [entry for entry in self._deadlines if entry[1] in self._by_number]
            heapify(self._deadlines)
        return waiting

    def set_retained(self, request: Hashable, retained: bool) -> None:
        """Whether its session's blocks are retained has changed. Raises RequestIdError."""
        waiting = self._of(request)
        if waiting.key[0] in {Standing.RETURNING, Standing.FIRST_COME}:
            self._move(waiting, Standing.RETURNING if retained else Standing.FIRST_COME, waiting.order)

    def candidates(self, now: float) -> Iterator[Candidate]:
        """All who wait, the first to try first. Not to be changed while it is iterated over."""
        self._promote(now)
        for standing, _, number in self._keys:
            waiting = self._by_number[number]
            yield Candidate(waiting.request, Standing(standing), max(now - waiting.arrival, 0.0))

    def first(self, now: float, n: int = 1) -> list[Candidate]:
        """The first `n` candidates."""
        return list(islice(self.candidates(now), n))

    def standing(self, request: Hashable, now: float) -> Standing:
        """Where a waiting request stands. Raises RequestIdError."""
        self._promote(now)
        return Standing(self._of(request).key[0])

    def stable_until(self) -> float:
        """When the order may next change by the passing of time alone, in seconds; infinite when nobody waits."""
        while self._deadlines and self._deadlines[0][1] not in self._by_number:
            heappop(self._deadlines)
        return self._deadlines[0][0] if self._deadlines else math.inf

    def ahead(self, program_arrival: float) -> float:
        """Blocks wanted in front of a request of this session that comes without retained blocks, about."""
        if not self._keys:
            return 0.0
        return self.blocks * bisect_left(self._keys, (Standing.FIRST_COME, program_arrival, 0)) / len(self._keys)

    def _promote(self, now: float) -> None:
        while self._deadlines and self._deadlines[0][0] <= now:
            deadline, number = heappop(self._deadlines)
            waiting = self._by_number.get(number)
            if waiting is not None and waiting.key[0] > Standing.STARVED:
                self._move(waiting, Standing.STARVED, deadline)

    def _move(self, waiting: _Waiting, standing: Standing, order: float) -> None:
        del self._keys[bisect_left(self._keys, waiting.key)]
        waiting.key = (standing, order, waiting.key[2])
        insort(self._keys, waiting.key)

    def _of(self, request: Hashable) -> _Waiting:
        waiting = self._by_request.get(request)
        if waiting is None:
            raise RequestIdError(f"request id {request!r} does not wait")
        return waiting
