"""The sessions that are known: who runs, who is idle and since when, with a bound on how many are remembered."""

from __future__ import annotations

import math
from collections import OrderedDict

from kvopt.continuum.footprint import Footprint
from kvopt.continuum.history import Path

NO_DEADLINE = 0
"""The stamp of a session without a deadline; those of deadlines are above it."""

_PACE_OCTAVES = 2.0  # a class of pace spans a factor of four


class Session:
    """One program: its requests so far, and its gap while it is idle. Times in seconds on the coordinator's clock."""

    __slots__ = (
        "arrival",
        "asked_until",
        "expected",
        "footprint",
        "head",
        "id",
        "idle_since",
        "log_gaps",
        "path",
        "returns",
        "running",
        "stamp",
        "tool",
        "turns",
        "waiting",
    )

    def __init__(self, session_id: str, arrival: float) -> None:
        self.id = session_id
        self.arrival = arrival
        self.turns = 0
        self.running = 0
        self.waiting: list[object] = []  # requests
        self.idle_since = math.nan  # not idle
        self.path: Path = ()
        self.tool: str | None = None
        self.expected: float | None = None  # seconds of the whole gap, from the client
        self.asked_until = -math.inf  # the client wants its blocks kept until then
        self.footprint = Footprint(0)
        self.head = 0  # blocks that its first request found cached
        self.stamp = NO_DEADLINE
        self.log_gaps = 0.0
        self.returns = 0

    @property
    def idle(self) -> bool:
        """Whether it has no request, and may come back."""
        return self.idle_since == self.idle_since  # not NaN

    def note_gap(self, gap: float) -> None:
        """It came back after so long."""
        self.returns += 1
        self.log_gaps += math.log(max(gap, 1e-3))

    @property
    def pace(self) -> str:
        """The class of its usual gap, in factors of four; unknown before its first return."""
        if self.returns == 0:
            return "pace ?"
        return f"pace {round(self.log_gaps / self.returns / (_PACE_OCTAVES * math.log(2.0)))}"


class SessionTable:
    """All sessions by id, the idle ones by when they became idle. O(1) an operation."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._all: dict[str, Session] = {}
        self._idle: OrderedDict[str, Session] = OrderedDict()

    def __len__(self) -> int:
        return len(self._all)

    @property
    def idle(self) -> int:
        """How many are idle."""
        return len(self._idle)

    def get(self, session_id: str) -> Session | None:
        """The session of this id, if it is known."""
        return self._all.get(session_id)

    def open(self, session_id: str, now: float) -> Session:
        """The session of this id; a new one that arrives now when it is unknown."""
        session = self._all.get(session_id)
        if session is None:
            session = self._all[session_id] = Session(session_id, now)
        return session

    def set_idle(self, session: Session, now: float) -> None:
        """It has no request from now on."""
        session.idle_since = now
        self._idle[session.id] = session

    def set_busy(self, session: Session) -> None:
        """It has a request again."""
        session.idle_since = math.nan
        self._idle.pop(session.id, None)

    def drop(self, session: Session) -> None:
        """Forget it; a request with its id begins a new session."""
        self._all.pop(session.id, None)
        self._idle.pop(session.id, None)

    def overdue(self, before: float) -> Session | None:
        """The session that has been idle for longest, if it became idle before then, or there are too many."""
        if not self._idle:
            return None
        session = next(iter(self._idle.values()))
        return session if session.idle_since < before or len(self._all) > self._most else None
