"""Sessions between two requests: learned from when they return, held while it pays, forgotten when they stay away."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from kvopt.continuum.appraisal import Appraisal
from kvopt.continuum.deadlines import Deadlines
from kvopt.continuum.options import ContinuumOptions
from kvopt.continuum.record import ClientRecord
from kvopt.continuum.retention import RetentionManager
from kvopt.continuum.sessions import NO_DEADLINE, Session, SessionTable
from kvopt.continuum.ttl import Decision
from kvopt.policies import StopReason

_FIRST_LOOK = 1.0  # seconds after which a decision is looked at again
_LEASE_PATIENCE = 1.0  # times the age until the next look: at every doubling
_SOFT_PATIENCE = 7.0  # a later look at soft protection changes little, since its priority is set
_MOST_A_TICK = 64  # so that no step stalls after a pause


class IdleSessions:
    """The part of the coordinator that deals with sessions without a request.

    `on_released` is called with a session whose blocks are no longer protected.
    """

    def __init__(
        self,
        options: ContinuumOptions,
        appraisal: Appraisal,
        retention: RetentionManager,
        sessions: SessionTable,
        on_released: Callable[[Session], None],
    ) -> None:
        self._options = options
        self._appraisal = appraisal
        self._retention = retention
        self._sessions = sessions
        self._on_released = on_released
        self._deadlines = Deadlines(self._due_stands)
        self._last_stamp = NO_DEADLINE
        self.counts = dict.fromkeys(("decisions", "kept", "revised", "forgotten", "ended"), 0)

    @property
    def next_deadline(self) -> float:
        """Nothing is due before, in seconds."""
        return self._deadlines.next

    def leave(
        self, session: Session, stop: StopReason, tools: tuple[str, ...], record: ClientRecord, handle: Any, now: float
    ) -> Decision:
        """The session's last request ends, and still holds its blocks: decide, and do as decided."""
        gaps = self._appraisal.gaps
        gaps.begin(session, stop, tools, now)
        session.expected = record.expected_gap
        session.asked_until = -math.inf if record.ttl is None else now + record.ttl
        self._sessions.set_idle(session, now)
        if record.progress is not None:
            gaps.report(session, record.progress, now)
        decision = self._appraisal.decide(session, now)
        self.counts["decisions"] += 1
        when = self._options.leases
        self._retention.protect(
            session.id,
            handle,
            session.footprint,
            decision,
            now,
            lease=when == "always" or (when == "scarce" and decision.numbers["price"] > 0.0),
            priority=record.priority,
            priority_ttl=record.ttl,
            lifetime=record.lifetime,
            ranges=record.token_ranges,
            block_tokens=self._options.block_tokens,
        )
        if decision.keep:
            self.counts["kept"] += 1
            self._look_again(session, decision, now)
        self.forget(now)
        return decision

    def give_up(self, session: Session, now: float) -> None:
        """The session's last request was aborted: nothing protects it, but it may come back."""
        self.release(session, now, "aborted")
        self._appraisal.gaps.begin(session, StopReason.ABORT, (), now)
        self._sessions.set_idle(session, now)
        self.forget(now)

    def come_back(self, session: Session, now: float) -> None:
        """The session has a request again. While that waits its blocks are held, whatever the deadline."""
        gap = self._appraisal.gaps.end(session, now, returned=True)
        if session.tool is not None:
            self._appraisal.rule.on_gap(session.tool, gap)
        self._sessions.set_busy(session)
        session.stamp = NO_DEADLINE

    def revise(self, session: Session, now: float) -> None:
        """Decide on it again, if it is protected."""
        if session.id not in self._retention:
            return
        decision = self._appraisal.decide(session, now)
        self.counts["revised"] += 1
        if self._retention.revise(session.id, decision, now):
            self._look_again(session, decision, now)
        else:
            session.stamp = NO_DEADLINE
            self._on_released(session)

    def release(self, session: Session, now: float, reason: str) -> None:
        """End what protects it, if anything does."""
        if self._retention.release(session.id, now, reason):
            session.stamp = NO_DEADLINE
            self._on_released(session)

    def end(self, session: Session, now: float) -> None:
        """The session does not come back."""
        self.release(session, now, "ended")
        self._appraisal.rule.on_program(session.turns)
        self._sessions.drop(session)
        self.counts["ended"] += 1

    def tick(self, now: float) -> int:
        """End or decide again what is due, a limited number at once; returns how many sessions that were."""
        done = 0
        for session_id in self._deadlines.due(now, _MOST_A_TICK):
            session = self._sessions.get(session_id)
            if session is not None:
                self.revise(session, now)
                done += 1
        return done + self.forget(now)

    def forget(self, now: float) -> int:
        """Drop sessions that have stayed away for too long, or are too many; returns how many."""
        forgotten = 0
        while (session := self._sessions.overdue(now - self._options.forget_after)) is not None:
            self._appraisal.gaps.end(session, now, returned=False)
            self.end(session, now)
            forgotten += 1
        self.counts["forgotten"] += forgotten
        return forgotten

    def _due_stands(self, session_id: str, stamp: int) -> bool:
        session = self._sessions.get(session_id)
        return session is not None and session.stamp == stamp and session_id in self._retention

    def _look_again(self, session: Session, decision: Decision, now: float) -> None:
        self._last_stamp += 1  # one of all sessions: an id may be used again
        session.stamp = self._last_stamp
        protection = self._retention.of(session.id)
        leased = protection is not None and protection.lease is not None
        wait = max(now - session.idle_since, _FIRST_LOOK) * (_LEASE_PATIENCE if leased else _SOFT_PATIENCE)
        self._deadlines.add(now + min(decision.ttl, wait), session.id, session.stamp)
