"""What a waiting request needs, as far as is known, and the place in the order that follows."""

from __future__ import annotations

from collections.abc import Hashable

from kvopt.continuum.appraisal import Appraisal
from kvopt.continuum.requests import Request, RequestTable
from kvopt.continuum.retention import RetentionManager
from kvopt.continuum.selection import ProgramSelection
from kvopt.continuum.sessions import Session


class Places:
    """Keeps the places of who waits in a selection, from what protects their sessions and what is found cached."""

    def __init__(
        self, selection: ProgramSelection, appraisal: Appraisal, retention: RetentionManager, requests: RequestTable
    ) -> None:
        self._selection = selection
        self._appraisal = appraisal
        self._retention = retention
        self._requests = requests

    def take(self, request: Hashable, entry: Request, now: float, *, retained: bool = False) -> None:
        """It has arrived, and waits."""
        self._selection.add(
            request,
            now,
            program_arrival=entry.program_arrival,
            blocks=entry.blocks,
            seconds=self._seconds(entry),
            retained=retained,
        )

    def take_back(self, request: Hashable, entry: Request, now: float) -> None:
        """It was preempted, and waits again."""
        self._selection.add(
            request,
            now,
            program_arrival=entry.program_arrival,
            arrival=entry.arrival,
            blocks=entry.blocks,
            preempted=True,
        )

    def lose(self, session: Session) -> None:
        """The blocks of a session are no longer protected."""
        for request in session.waiting:
            self._selection.set_retained(request, False)
            self._selection.reckon(request, self._seconds(self._requests[request]))

    def found(self, request: Hashable, entry: Request, blocks: int) -> bool:
        """Its first `blocks` blocks are cached just now; whether that may change its place."""
        cached = min(blocks, entry.blocks)
        moved = False
        if entry.session is not None and entry.session.turns > 0:
            moved = self._selection.set_retained(request, 2 * cached >= entry.session.footprint.blocks)
        return self._selection.reckon(request, self._appraisal.loss(entry.blocks - cached, cached)) or moved

    def _seconds(self, entry: Request) -> float:
        """Of prefill; only leased blocks are certain to be there."""
        session, kept = entry.session, entry.head
        if session is not None:
            protection = self._retention.of(session.id)
            if protection is not None and protection.lease is not None:
                kept = session.footprint.blocks
        kept = min(kept, entry.blocks)
        return self._appraisal.loss(entry.blocks - kept, kept)
