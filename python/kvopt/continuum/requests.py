"""The requests that wait or run, by id."""

from __future__ import annotations

from collections.abc import Hashable

from kvopt.continuum.record import ClientRecord
from kvopt.continuum.sessions import Session
from kvopt.errors import RequestIdError


class Request:
    """One request. `lost` says that its session had lost its blocks when it came back."""

    __slots__ = ("arrival", "blocks", "lost", "record", "running", "session")

    def __init__(self, session: Session | None, record: ClientRecord, arrival: float, blocks: int, lost: bool) -> None:
        self.session = session
        self.record = record
        self.arrival = arrival
        self.blocks = blocks
        self.running = False
        self.lost = lost

    @property
    def program_arrival(self) -> float:
        """When its session arrived, or itself where it has none."""
        return self.arrival if self.session is None else self.session.arrival

    @property
    def head(self) -> int:
        """Blocks that its session's first request found cached."""
        return 0 if self.session is None else self.session.head


class RequestTable(dict[Hashable, Request]):
    """Requests by id."""

    def check_new(self, request: Hashable) -> None:
        """Raise RequestIdError when the id is in use."""
        if request in self:
            raise RequestIdError(f"request id {request!r} is in use; finish or abort it first")

    def known(self, request: Hashable) -> Request:
        """The request of this id. Raises RequestIdError."""
        entry = self.get(request)
        if entry is None:
            raise RequestIdError(f"request id {request!r} is unknown; it arrives first")
        return entry

    def waiting(self, request: Hashable) -> Request:
        """The request of this id, which waits. Raises RequestIdError."""
        entry = self.known(request)
        if entry.running:
            raise RequestIdError(f"request id {request!r} runs; this event is for one that waits")
        return entry

    def running(self, request: Hashable) -> Request:
        """The request of this id, which runs. Raises RequestIdError."""
        entry = self.known(request)
        if not entry.running:
            raise RequestIdError(f"request id {request!r} waits; this event is for one that runs")
        return entry
