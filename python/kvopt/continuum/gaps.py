"""What the coordinator learns from gaps, and which law it asks about an idle session."""

from __future__ import annotations

from kvopt.continuum.curve import ReturnCurve
from kvopt.continuum.history import GapHistory, Path, log_uniform
from kvopt.continuum.sessions import Session
from kvopt.policies import StopReason

_CLASS = {reason.value: name.lower() for name, reason in StopReason.__members__.items()}
_LEAST_EXPECTED = 0.05  # seconds; a shorter one is no better known
_EXPECTED_PRIOR = log_uniform(0.3, 3.0)  # of the true gap over the expected one


class SessionGaps:
    """Histories by stop reason, tool and pace; and how true the gaps are that clients expect.

    A gap that a client expects is not taken at its word: the ratio of the true gap to it is learned like any other
    quantity, by class and tool, and stretches the law of the ratio to seconds.
    """

    def __init__(self, *, shrinkage: float, memory: float, pace: bool) -> None:
        self.history = GapHistory(shrinkage=shrinkage, memory=memory)
        self.expectation = GapHistory(shrinkage=shrinkage, memory=memory, prior=_EXPECTED_PRIOR)
        self._pace = pace

    def begin(self, session: Session, stop: StopReason, tools: tuple[str, ...], now: float) -> None:
        """The session becomes idle now, because its request stopped for this reason and called these tools."""
        stopped = _CLASS[stop.value]
        path: Path = (stopped,)
        session.tool = None
        if tools:
            session.tool = "+".join(tools)
            path = (stopped, session.tool)
            if len(tools) > 1:
                self.history.join(path, [(stopped, tool) for tool in tools])
        if self._pace:
            path = (*path, session.pace) if tools else (stopped, "", session.pace)
        session.path = path
        self.history.begin(path, now)

    def end(self, session: Session, now: float, *, returned: bool) -> float:
        """The session is back, or lost from sight; returns its gap in seconds."""
        gap = max(now - session.idle_since, 0.0)
        self.history.end(session.path, session.idle_since, now, returned=returned)
        if session.expected is not None:
            ratio = gap / max(session.expected, _LEAST_EXPECTED)
            self.expectation.record(session.path[:2], ratio, returned=returned)
        if returned:
            session.note_gap(gap)
        session.expected = None
        return gap

    def curve(self, session: Session, now: float) -> ReturnCurve:
        """The law of the gap that this idle session is in."""
        if session.expected is None:
            return self.history.curve(session.path, now)
        law = self.expectation.curve(session.path[:2], now)
        return law.scaled(max(session.expected, _LEAST_EXPECTED))

    def report(self, session: Session, progress: float, now: float) -> None:
        """The running tools of an idle session are done to this share (above 0, at most 1)."""
        session.expected = max(now - session.idle_since, _LEAST_EXPECTED) / max(progress, 1e-6)
