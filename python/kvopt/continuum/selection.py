"""In which order waiting requests are tried: who was interrupted, who comes back to retained blocks, who came first.

The standings, in order:

    preempted   was running and lost its blocks: finishing it frees memory soonest
    starved     has to be served now, or somebody's first token comes after the bound; by arrival
    returning   its session's blocks are retained: it needs little memory, and its hold ends when it starts
    first come  the session that arrived first (program-level FCFS; Continuum v6, §4.3)

The bound is some seconds, or what first come, first served would make requests wait, whichever is more. Whose prefill
would take so long that others, who came before, could not be served in time is tried after those who fit.

What differs from the paper: the starved, who fits, and ageing, which mixes a request's own arrival into its program's,
so that an old session does not always pass a new one. Structure: one sorted list of keys, and the backlog's tree.
O(log n) comparisons an event.
"""

from __future__ import annotations

import enum
import math
from bisect import bisect_left, insort
from collections.abc import Callable, Hashable, Iterator
from itertools import islice
from typing import NamedTuple

from kvopt.continuum.backlog import Backlog, Waits
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
    Standing.STARVED: "has to be served for the starvation bound to hold",
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


Look = Callable[[Hashable], bool]
"""Told whom to look at before it is put first; true when that changed its place or its seconds."""

_MOST_LOOKED_AT = 16  # for one who fits, before those in whose way they are have their turn

_Key = tuple[int, float, int]  # standing, time, and the request's number, which is its own


class _Waiting:
    __slots__ = ("arrival", "blocks", "key", "order", "place", "request", "seconds", "since", "slot")

    def __init__(
        self,
        request: Hashable,
        arrival: float,
        since: float,
        order: float,
        blocks: int,
        seconds: float,
        key: _Key,
        place: int | None,
    ) -> None:
        self.place = place
        self.request = request
        self.arrival = arrival
        self.since = since
        self.order = order
        self.blocks = blocks
        self.seconds = seconds
        self.key = key
        self.slot = 0


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
        self._backlog = Backlog()
        self._ahead: _Waiting | None = None  # the one who fits, while it is put before those who do not
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
        seconds: float = 0.0,
        preempted: bool = False,
        retained: bool = False,
    ) -> None:
        """A request waits from now on; `arrival` is its own, when it waited before. Raises RequestIdError.

        `seconds` are those of prefill that it needs, where they are known.
        """
        if request in self._by_request:
            raise RequestIdError(f"request id {request!r} waits already")
        arrival = now if arrival is None else arrival
        number = self._next_number
        self._next_number += 1
        standing = Standing.PREEMPTED if preempted else Standing.RETURNING if retained else Standing.FIRST_COME
        order = program_arrival + self._ageing * (arrival - program_arrival)
        place = None if preempted else self._patience.on_arrival(now)
        waiting = _Waiting(request, arrival, now, order, blocks, seconds, (standing, order, number), place)
        self._by_number[number] = self._by_request[request] = waiting
        insort(self._keys, waiting.key)
        if place is not None:
            self._backlog.add(waiting, now)
        self.blocks += blocks

    def admit(self, request: Hashable, now: float) -> None:
        """A request no longer waits, for it runs. Raises RequestIdError."""
        waiting = self._take(request)
        if waiting.place is not None:
            self._patience.on_admitted(now)
            self._backlog.start(waiting, now)

    def remove(self, request: Hashable) -> None:
        """A request no longer waits, for it was aborted. Raises RequestIdError."""
        waiting = self._take(request)
        if waiting.place is not None:
            self._patience.on_aborted(waiting.place)
            self._backlog.remove(waiting)

    def _take(self, request: Hashable) -> _Waiting:
        waiting = self._of(request)
        del self._keys[bisect_left(self._keys, waiting.key)]
        del self._by_request[request]
        del self._by_number[waiting.key[2]]
        self.blocks -= waiting.blocks
        if waiting is self._ahead:
            self._ahead = None
        return waiting

    def set_retained(self, request: Hashable, retained: bool) -> bool:
        """Whether its session's blocks are retained; whether that moved it. Raises RequestIdError."""
        waiting = self._of(request)
        standing = Standing.RETURNING if retained else Standing.FIRST_COME
        if waiting.key[0] <= Standing.STARVED or waiting.key[0] == standing:
            return False
        self._move(waiting, standing, waiting.order)
        return True

    def reckon(self, request: Hashable, seconds: float) -> bool:
        """It needs so many seconds of prefill, as is known now; whether that is news. Raises RequestIdError."""
        waiting = self._of(request)
        if waiting.place is None or math.isclose(waiting.seconds, seconds, rel_tol=1e-6, abs_tol=1e-6):
            return False
        self._backlog.reckon(waiting, seconds)
        return True

    def candidates(self, now: float, look: Look | None = None) -> Iterator[Candidate]:
        """All who wait, the first to try first. Not to be changed while it is iterated over."""
        self._settle(now, look)
        ahead = self._ahead
        if ahead is not None:
            yield self._candidate(ahead, now)
        for _, _, number in self._keys:
            waiting = self._by_number[number]
            if waiting is not ahead:
                yield self._candidate(waiting, now)

    def first(self, now: float, n: int = 1) -> list[Candidate]:
        """The first `n` candidates."""
        return list(islice(self.candidates(now), n))

    def standing(self, request: Hashable, now: float) -> Standing:
        """Where a waiting request stands. Raises RequestIdError."""
        self._promote(now)
        return Standing(self._of(request).key[0])

    def stable_until(self) -> float:
        """When the order may next change by the passing of time alone, in seconds; infinite when nobody waits."""
        until = self._backlog.latest()
        first = self._ahead or (self._by_number[self._keys[0][2]] if self._keys else None)
        if first is not None and first.key[0] > Standing.STARVED:
            until = min(until, self._backlog.latest(first) - first.seconds)
        return until + self._longest

    def ahead(self, program_arrival: float) -> float:
        """Blocks wanted in front of a request of this session that comes without retained blocks, about."""
        if not self._keys:
            return 0.0
        return self.blocks * bisect_left(self._keys, (Standing.FIRST_COME, program_arrival, 0)) / len(self._keys)

    @property
    def _longest(self) -> float:
        return max(self._bound, self._patience.seconds, self._backlog.bound)

    def _settle(self, now: float, look: Look | None) -> None:
        """Find who is due, and who of the others goes first."""
        while True:
            self._ahead = None
            self._promote(now)
            tight, tightest, changed = None, math.inf, False
            for _, _, number in self._keys[:_MOST_LOOKED_AT]:
                waiting = self._by_number[number]
                if waiting.key[0] <= Standing.STARVED:
                    return
                if look is not None and look(waiting.request):
                    changed = True
                    break
                latest = self._backlog.latest(waiting) + self._longest
                if now + waiting.seconds <= latest:
                    self._ahead = None if waiting.key is self._keys[0] else waiting
                    return
                if latest < tightest:
                    tight, tightest = waiting, latest
            if not changed:
                if tight is None:
                    return
                self._starve(self._backlog.take_due(tight))

    def _promote(self, now: float) -> None:
        while self._backlog.latest() + self._longest <= now:
            self._starve(self._backlog.take_due())

    def _starve(self, due: list[Waits]) -> None:
        for waiting in due:
            assert isinstance(waiting, _Waiting)
            self._move(waiting, Standing.STARVED, waiting.since)

    def _candidate(self, waiting: _Waiting, now: float) -> Candidate:
        return Candidate(waiting.request, Standing(waiting.key[0]), max(now - waiting.arrival, 0.0))

    def _move(self, waiting: _Waiting, standing: Standing, order: float) -> None:
        del self._keys[bisect_left(self._keys, waiting.key)]
        waiting.key = (standing, order, waiting.key[2])
        insort(self._keys, waiting.key)

    def _of(self, request: Hashable) -> _Waiting:
        waiting = self._by_request.get(request)
        if waiting is None:
            raise RequestIdError(f"request id {request!r} does not wait")
        return waiting
