"""Continuum's waiting order as a scheduler: preempted, starved, returning, then the session that came first."""

from __future__ import annotations

from collections.abc import Callable, Hashable

from kvopt.continuum.selection import ProgramSelection
from kvopt.scheduler import Request, Scheduler, SchedulerInfo, SchedulerView, register_scheduler

Found = Callable[[Hashable, float, int], bool]
"""A request's id, the time in seconds, and the tokens of its prompt that are cached."""


class ContinuumScheduler(Scheduler):
    """The order of :class:`kvopt.continuum.selection.ProgramSelection`.

    By itself it takes every later turn of a session as returning. A coordinator knows better whose blocks are held:
    with :meth:`follow` this only reads the order that it keeps. `bound` is the starvation bound in seconds; `ageing`
    from 0 to 1. Raises ConfigError.
    """

    def __init__(self, bound: float = 30.0, ageing: float = 0.0) -> None:
        self.bound, self.ageing = bound, ageing
        self._selection = ProgramSelection(starvation_bound=bound, ageing=ageing)
        self._own = True
        self._waiting: dict[Hashable, Request] = {}
        self._named: Request | None = None
        self._now = 0.0
        self._found: Found | None = None

    def follow(self, selection: ProgramSelection, found: Found) -> None:
        """Read the order of a selection that a coordinator keeps; it must hear of each request before this does.

        `found` is told, by id, how many tokens of a candidate are cached; true when that may change its place.
        """
        self._selection, self._own, self._found = selection, False, found

    def add(self, request: Request) -> None:
        """Take in a request."""
        self._waiting[request.id] = request
        if self._own:
            self._selection.add(
                request.id, request.arrival, program_arrival=request.session_arrival, retained=request.turn > 0
            )

    def prepend(self, request: Request) -> None:
        """Take it back, before all others."""
        self._waiting[request.id] = request
        if self._own:
            self._selection.add(
                request.id,
                request.arrival,
                program_arrival=request.session_arrival,
                arrival=request.arrival,
                preempted=True,
            )

    def peek(self, view: SchedulerView) -> Request:
        """Name the first candidate that waits here."""
        self._now = view.now
        for candidate in self._selection.candidates(view.now, None if self._found is None else self._look(view)):
            named = self._waiting.get(candidate.request)
            if named is not None:
                self._named = named
                return named
        raise IndexError("nobody waits")

    def _look(self, view: SchedulerView) -> Callable[[Hashable], bool]:
        def look(request: Hashable) -> bool:
            waiting = self._waiting.get(request)
            return (
                waiting is not None
                and self._found is not None
                and self._found(request, view.now, view.cached_tokens(waiting))
            )

        return look

    def pop(self) -> Request:
        """Give it out."""
        assert self._named is not None
        if self._own:
            self._selection.admit(self._named.id, self._now)
        return self._waiting.pop(self._named.id)

    def remove(self, request: Request) -> None:
        """Drop a request; nothing happens when it does not wait."""
        if self._waiting.pop(request.id, None) is not None and self._own:
            self._selection.remove(request.id)

    def stable_until(self) -> float:
        """See Scheduler."""
        return self._selection.stable_until()

    def __len__(self) -> int:
        return len(self._waiting)


register_scheduler(
    SchedulerInfo(
        "continuum",
        "preempted, starved, returning, then the session that came first",
        ContinuumScheduler,
        {"bound": 30.0, "ageing": 0.0},
    )
)
