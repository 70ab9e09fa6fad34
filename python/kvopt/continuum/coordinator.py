"""One object between an engine's life cycle and its memory: events in, retention decisions and an order out.

The engine (a simulator or vLLM's scheduler) calls, on one monotonic clock of its own, in seconds:

    arrival        a request waits; its client's record was parsed beforehand
    found          so many of its blocks are cached while it waits: where the engine looks before it tries it
    hit            so many of its blocks were found cached: call it before `scheduled`, where it is known
    scheduled      it runs: call it after its blocks are held, before others are evicted
    preempted      it lost its blocks and waits again
    finished       it ends: call it while it still holds its blocks, then let go of them
    aborted        it ends without an answer, from waiting or running
    evicted        an idle session's blocks were evicted
    demand         now and then: how many blocks could be had, after each step or so
    tick           before each step: ends what is due

and asks `candidates(now)` for the order in which to try who waits, and `make_room(blocks, now)` before it preempts a
running request or lets the first waiting one wait on. Nothing is parsed, hashed or scanned here: O(log n) an event.

A clock that goes back stands still (`stats()["clock_went_back"]`). A bad argument changes nothing. For one thread.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterator
from typing import Any

from kvopt.continuum.appraisal import Appraisal
from kvopt.continuum.clock import Clock
from kvopt.continuum.footprint import Footprint, whole_blocks
from kvopt.continuum.idle import IdleSessions
from kvopt.continuum.loss import LossSeconds
from kvopt.continuum.options import ContinuumOptions
from kvopt.continuum.places import Places
from kvopt.continuum.pool import ProtectedPool
from kvopt.continuum.record import ClientRecord, parse_record
from kvopt.continuum.requests import Request, RequestTable
from kvopt.continuum.retention import RetentionManager
from kvopt.continuum.selection import Candidate, ProgramSelection, Standing
from kvopt.continuum.sessions import Session, SessionTable
from kvopt.continuum.ttl import Decision
from kvopt.policies import StopReason

_NO_RECORD = ClientRecord()


class Coordinator:
    """Retention and order for sessions that come back; see the module for who calls what.

    `loss` gives the seconds that losing tokens costs, such as LossOfTokens. Raises ConfigError for bad options.
    """

    def __init__(self, pool: ProtectedPool, loss: LossSeconds, options: ContinuumOptions | None = None) -> None:
        self.options = options = options or ContinuumOptions()
        self.selection = ProgramSelection(starvation_bound=options.starvation_bound, ageing=options.ageing)
        self.retention = RetentionManager(pool, points=options.points, longest_hold=options.longest_hold)
        self.appraisal = Appraisal(loss, options, self.selection, pool.capacity)
        self._sessions = SessionTable(options.most_sessions)
        self._requests = RequestTable()
        self._places = Places(self.selection, self.appraisal, self.retention, self._requests)
        self._idle = IdleSessions(options, self.appraisal, self.retention, self._sessions, self._places.lose)
        self._clock = Clock()

    def arrival(
        self,
        request: Hashable,
        now: float,
        record: ClientRecord = _NO_RECORD,
        *,
        blocks: int = 1,
        program_arrival: float = math.inf,
    ) -> None:
        """A request waits from now on, and wants `blocks` blocks in all. Raises RequestIdError, ConfigError.

        `program_arrival` is for a session that is part of a program which came earlier, as a sub-agent's is.
        """
        self._requests.check_new(request)
        blocks = whole_blocks("blocks", blocks)
        now = self._clock.at(now)
        session, retained, lost = None, False, False
        if record.session_id is not None:
            session = self._sessions.open(record.session_id, now)
            session.arrival = min(session.arrival, program_arrival)
            if session.idle:
                self._idle.come_back(session, now)
            retained = session.id in self.retention
            lost = session.turns > 0 and not retained
            session.waiting.append(request)
        entry = self._requests[request] = Request(session, record, now, blocks, lost)
        self._places.take(request, entry, now, retained=retained)

    def found(self, request: Hashable, now: float, blocks: int) -> bool:
        """A waiting request would find its first `blocks` blocks cached just now; whether that may change its place.

        Evictions end soft protection without notice. Raises RequestIdError, ConfigError.
        """
        entry = self._requests.waiting(request)
        blocks = whole_blocks("blocks", blocks)
        self._clock.at(now)
        return self._places.found(request, entry, blocks)

    def hit(self, request: Hashable, now: float, blocks: int) -> None:
        """A waiting request that is about to run found its first `blocks` blocks cached. Raises RequestIdError.

        What a session's first request finds is the head that it shares with others, unless `finished` is told better.
        """
        entry = self._requests.waiting(request)
        blocks = whole_blocks("blocks", blocks)
        self._clock.at(now)
        session = entry.session
        if session is None:
            return
        if session.turns == 0:
            session.head = blocks
        else:
            entry.lost = 2 * blocks < session.footprint.blocks

    def scheduled(self, request: Hashable, now: float) -> None:
        """A waiting request runs, and holds its blocks. Raises RequestIdError."""
        entry = self._requests.waiting(request)
        now = self._clock.at(now)
        self.selection.admit(request, now)
        entry.running = True
        self.appraisal.started(entry.blocks)
        waited = now - entry.arrival
        self.appraisal.forecast.on_wait(waited)
        if entry.lost:
            self.appraisal.rule.on_wait(waited)
            entry.lost = False
        session = entry.session
        if session is not None:
            session.waiting.remove(request)
            session.running += 1
            self._idle.release(session, now, "returned")

    def preempted(self, request: Hashable, now: float) -> None:
        """A running request lost its blocks and waits again, in front. Raises RequestIdError."""
        entry = self._requests.running(request)
        now = self._clock.at(now)
        entry.running = False
        self.appraisal.stopped(entry.blocks)
        session = entry.session
        if session is not None:
            session.running -= 1
            session.waiting.append(request)
        self._places.take_back(request, entry, now)

    def finished(
        self,
        request: Hashable,
        now: float,
        *,
        stop: StopReason = StopReason.UNKNOWN,
        tools: tuple[str, ...] = (),
        blocks: int | None = None,
        footprint: Footprint | None = None,
        handle: Any = None,
    ) -> Decision | None:
        """A running request ends and still holds its blocks; `handle` is what the pool knows them by.

        `tools` are those that its answer calls, when the client's record does not name them. `blocks` are how many it
        leaves in the cache, by default those that it wanted when it arrived; `footprint` says so too, and which of them
        are shared. Returns the decision, which was carried out; None for a request without a session, for a
        session's last turn and while the session has other requests. Raises RequestIdError, ConfigError.
        """
        entry = self._requests.running(request)
        if footprint is None:
            left = entry.blocks if blocks is None else blocks
            footprint = Footprint(left, min(entry.head, left))
        footprint.check()
        now = self._clock.at(now)
        self.appraisal.stopped(entry.blocks)
        del self._requests[request]
        self.appraisal.forecast.on_release(now, footprint.blocks)
        session = entry.session
        if session is None:
            return None
        session.turns += 1
        session.running -= 1
        session.footprint = footprint
        if session.running > 0 or session.waiting:
            return None
        if entry.record.last_turn:
            self._idle.end(session, now)
            self.retention.bury(handle, footprint, now)
            return None
        return self._idle.leave(session, stop, entry.record.tools or tools, entry.record, handle, now)

    def aborted(self, request: Hashable, now: float) -> None:
        """A request ends without an answer; what protects its session ends too. Raises RequestIdError."""
        entry = self._requests.known(request)
        now = self._clock.at(now)
        del self._requests[request]
        session = entry.session
        if entry.running:
            self.appraisal.stopped(entry.blocks)
            self.appraisal.forecast.on_release(now, entry.blocks)
        else:
            self.selection.remove(request)
        if session is None:
            return
        if entry.running:
            session.running -= 1
        else:
            session.waiting.remove(request)
        if session.running > 0 or session.waiting:
            return
        self._idle.give_up(session, now)

    def evicted(self, session_id: str, now: float) -> None:
        """Blocks of this session were evicted: it no longer counts as retained, and was worth what it was."""
        session = self._sessions.get(session_id)
        now = self._clock.at(now)
        protection = self.retention.of(session_id)
        if session is not None and protection is not None:
            self.appraisal.price.observe_eviction(now, protection.value)
            self._idle.release(session, now, "evicted")

    def expect(self, session_id: str, now: float, *, gap: float | None = None, progress: float | None = None) -> None:
        """News of an idle session: its whole gap in seconds, or how far its tools are (above 0, at most 1).

        Nothing happens when it is unknown or not idle. Raises ClientFieldError for a bad value.
        """
        news = parse_record({"expected_gap": gap, "progress": progress})
        now = self._clock.at(now)
        session = self._sessions.get(session_id)
        if session is None or not session.idle:
            return
        if news.expected_gap is not None:
            session.expected = news.expected_gap
        if news.progress is not None:
            self.appraisal.gaps.report(session, news.progress, now)
        self._idle.revise(session, now)

    def demand(self, now: float, available: int) -> None:
        """How many blocks could be had just now: empty and evictable ones. The price of memory follows."""
        available = whole_blocks("available", available)
        self.appraisal.demand(self._clock.at(now), available)

    def tick(self, now: float) -> int:
        """End or decide again what is due, a limited number at once; returns how many sessions that were."""
        clock = self._clock
        if clock.now <= now < self._idle.next_deadline:
            clock.now = now
            return 0
        return self._idle.tick(clock.at(now))

    def candidates(self, now: float) -> Iterator[Candidate]:
        """Who waits, in the order to try them. Take what is needed, then call the events."""
        return self.selection.candidates(self._clock.at(now))

    def make_room(self, blocks: int, now: float, *, waiting: Hashable = None) -> list[str]:
        """Give up leases until `blocks` blocks can be had, or none is left; returns the sessions that lost theirs.

        `waiting` is for whom, where it waits and engine and `candidates` agree on the order. While others run, leases
        that are worth their price are not given up for one who stands by arrival alone: it may be passed.
        """
        blocks = whole_blocks("blocks", blocks)
        now = self._clock.at(now)
        passable = waiting is not None and self.selection.standing(waiting, now) is Standing.FIRST_COME
        if passable and self.appraisal.running_blocks:
            return []
        lost = [str(session) for session in self.retention.make_room(blocks, now)]
        for session_id in lost:
            session = self._sessions.get(session_id)
            if session is not None:
                self._places.lose(session)
        return lost

    def clear(self, now: float) -> None:
        """End all protection, as before the cache is cleared; histories and sessions stay."""
        now = self._clock.at(now)
        self.retention.clear(now)
        for entry in self._requests.values():
            if entry.session is not None:
                self._places.lose(entry.session)

    @property
    def next_deadline(self) -> float:
        """Seconds before which :meth:`tick` does nothing."""
        return self._idle.next_deadline

    def session(self, session_id: str) -> Session | None:
        """What is known of a session; not to be changed. None when it is unknown, has ended or was forgotten."""
        return self._sessions.get(session_id)

    def stats(self) -> dict[str, float]:
        """Totals since the start, and what there is now."""
        return {
            **self._idle.counts,
            "clock_went_back": self._clock.went_back,
            **{f"released: {reason}": n for reason, n in self.retention.released.items()},
            "sessions": len(self._sessions),
            "idle": self._sessions.idle,
            "protected": len(self.retention),
            "leases": self.retention.leases,
            "charged_blocks": self.retention.charged,
            "waiting": len(self.selection),
            "price": self.appraisal.price.price(self._clock.now),
        }
