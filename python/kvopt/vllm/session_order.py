"""The waiting order of a server that knows sessions: preempted, starved, returning, then who came first.

:class:`kvopt.continuum.selection.ProgramSelection` keeps the order from the life cycle's events; before a step it is
laid over vLLM's waiting queue, and not touched until the next one.
"""

from __future__ import annotations

import logging
from typing import Any

from kvopt.continuum.selection import ProgramSelection
from kvopt.vllm import observation as seen
from kvopt.vllm.waiting import ordered_queue

logger = logging.getLogger("vllm.kvopt")

_REFRESH = 0.25
"""Seconds after which waiting alone may have changed the order."""


class SessionOrder:
    """Orders the waiting queue of one scheduler, which it replaces; a queue of another kind is left alone.

    `selection` is one that a coordinator keeps; without it, this keeps its own. Its `ageing` says who came first: 0 the
    session, 1 the request.
    """

    def __init__(self, scheduler: Any, selection: ProgramSelection | None = None, *, ageing: float = 0.0) -> None:
        self._selection = ProgramSelection(ageing=ageing) if selection is None else selection
        self._own = selection is None
        self._programs: dict[int, float] = {}
        self._scheduler = scheduler
        self._dirty = False
        self._last = float("-inf")
        queue = ordered_queue(scheduler.waiting)
        self.active = queue is not None
        if queue is None:
            logger.warning("KVopt: a waiting queue of class %s keeps its order", type(scheduler.waiting).__name__)
        else:
            scheduler.waiting = queue

    def observe(self, event: seen.Event) -> None:
        """Follow the life cycle; a selection that another observer keeps is only looked at."""
        if not self._own:
            self._dirty |= isinstance(event, seen.Arrived | seen.Preempted)
            return
        if isinstance(event, seen.Arrived):
            self._add(event.request, event.now, retained=event.request.turn > 0)
        elif isinstance(event, seen.Preempted):
            self._add(event.request, event.now, preempted=True)
        elif isinstance(event, seen.Scheduled):
            if event.request.request_id in self._selection:
                self._selection.admit(event.request.request_id, event.now)
        elif isinstance(event, seen.Finished):
            self._remove(event.request.request_id)
        elif isinstance(event, seen.Released) and len(self._programs) > 100_000:
            self._programs.pop(next(iter(self._programs)))

    def before_step(self, now: float) -> None:
        """Lay the order over the waiting queue, where anything may have changed it."""
        if not self.active or len(self._selection) < 2 or not (self._dirty or now - self._last >= _REFRESH):
            return
        places = {candidate.request: place for place, candidate in enumerate(self._selection.candidates(now))}
        self._scheduler.waiting.reorder(lambda request: places.get(request.request_id, -1))
        self._dirty = False
        self._last = now

    def _add(self, view: seen.RequestView, now: float, *, preempted: bool = False, retained: bool = False) -> None:
        if view.request_id in self._selection:
            return
        program = self._programs.setdefault(view.session, view.arrival)
        self._selection.add(
            view.request_id,
            now,
            program_arrival=program,
            arrival=view.arrival,
            preempted=preempted,
            retained=retained,
        )
        self._dirty = True

    def _remove(self, request_id: str) -> None:
        if request_id in self._selection:
            self._selection.remove(request_id)
