"""Which idle sessions' blocks are protected, how hard, and who gives way first.

Protection is soft by default: a retention priority with a duration in the pool's victim order, which costs nobody
running work. Only where memory is short a session may get a lease, which the pool never evicts: within the pool's lease
budget, on a deadline, and given up, worst value first, before a running request is preempted or a waiting one refused.
Blocks at the head that several sessions share (a system prompt) are charged once, and keep the best protection that any
of their sessions has.
"""

from __future__ import annotations

import math
from bisect import bisect_left, insort
from collections import Counter
from collections.abc import Hashable, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from kvopt.continuum.footprint import Footprint
from kvopt.continuum.pool import ProtectedPool
from kvopt.continuum.ttl import Decision
from kvopt.errors import ConfigError, LeaseError
from kvopt.policies.retention import DEFAULT_PRIORITY, MAX_PRIORITY, RetentionRange

_KEPT_BY_DEFAULT = 60
_LEAST_KEPT = DEFAULT_PRIORITY + 1
_BURIED_FOR = 600.0  # seconds after which even the blocks of an ended session count as any others


@dataclass(slots=True)
class Protection:
    """What protects one session now."""

    footprint: Footprint
    value: float
    until: float
    """Seconds on the clock; infinite without a deadline."""
    priority: int
    lease: int | None = None


@dataclass(slots=True)
class _Head:
    owners: Counter[int] = field(default_factory=Counter)  # sessions by how many blocks they share
    priority: int = 0
    until: float = -math.inf

    @property
    def blocks(self) -> int:
        return max(self.owners, default=0)


class RetentionManager:
    """Protects sessions, by any key, on one pool.

    `points` is how many points of priority a doubling of the value is worth; 8 is what ``cost-aware`` counts as one.
    `longest_hold` seconds end any lease, whatever was decided since.
    """

    def __init__(self, pool: ProtectedPool, *, points: float = 8.0, longest_hold: float = 600.0) -> None:
        if not (math.isfinite(points) and points >= 0.0):
            raise ConfigError(f"points: {points!r}; it must be a number from 0")
        if not 0.0 < longest_hold < math.inf:
            raise ConfigError(f"longest_hold: {longest_hold!r}; it must be a number of seconds above 0")
        self._pool = pool
        self._points = points
        self._longest_hold = longest_hold
        self._protected: dict[Hashable, Protection] = {}
        self._leases: list[tuple[float, int, Hashable]] = []  # by value; the lease's number tells equals apart
        self._heads: dict[Hashable, _Head] = {}
        self._typical_blocks = 0.0
        self.charged = 0
        """Blocks that are protected, each counted once."""
        self.released: Counter[str] = Counter()
        """Protections that ended, by reason."""

    def __len__(self) -> int:
        return len(self._protected)

    def __contains__(self, session: Hashable) -> bool:
        return session in self._protected

    @property
    def leases(self) -> int:
        """How many sessions hold a lease."""
        return len(self._leases)

    def of(self, session: Hashable) -> Protection | None:
        """What protects this session, if anything."""
        return self._protected.get(session)

    def protect(
        self,
        session: Hashable,
        handle: Any,
        footprint: Footprint,
        decision: Decision,
        now: float,
        *,
        lease: bool = False,
        priority: int | None = None,
        priority_ttl: float | None = None,
        lifetime: Literal["fixed", "refresh"] = "fixed",
        ranges: Sequence[RetentionRange] = (),
        block_tokens: int = 16,
    ) -> Protection | None:
        """Do as decided for a session whose request still holds its blocks; `lease` allows one. None: not kept.

        `priority` replaces the one that follows from the value, for `priority_ttl` seconds or as long as decided;
        `ranges` of tokens replace it where they apply.
        """
        if session in self._protected:
            self.release(session, now, "replaced")
        if footprint.blocks < 1:
            return None
        if not decision.keep:
            self._retain(handle, footprint.shared, footprint.blocks, DEFAULT_PRIORITY, 0.0, now)
            self._retain_ranges(handle, footprint, ranges, block_tokens, lifetime, now)
            return None
        level = self._priority(decision.value, footprint) if priority is None else priority
        if priority is None and self._pool.weighs:
            level = DEFAULT_PRIORITY
        lasting = decision.ttl if priority is None or priority_ttl is None else priority_ttl
        protection = Protection(footprint, decision.value, now + decision.ttl, level)
        self._charge(protection)
        self._retain(handle, footprint.shared, footprint.blocks, level, lasting, now, lifetime)
        if footprint.shared > 0 and level != DEFAULT_PRIORITY:  # which would end what another session set there
            head = self._heads.get(footprint.group) if footprint.group is not None else None
            best = (level, lasting) if head is None else (head.priority, head.until - now)
            self._retain(handle, 0, footprint.shared, *best, now, lifetime)
        if ranges:
            self._retain_ranges(handle, footprint, ranges, block_tokens, lifetime, now)
        self._protected[session] = protection
        if lease:
            self._lease(session, handle, protection, now)
        return protection

    def bury(self, handle: Any, footprint: Footprint, now: float) -> None:
        """A session has ended: what is its own in the cache goes first, before all others'."""
        self._retain(handle, footprint.shared, footprint.blocks, 0, _BURIED_FOR, now)

    def revise(self, session: Hashable, decision: Decision, now: float) -> bool:
        """A later decision on a session that is idle still. What is not kept any longer is released: false then."""
        protection = self._protected.get(session)
        if protection is None:
            return False
        if not decision.keep:
            self.release(session, now, decision.reasons[0])
            return False
        if protection.lease is None:
            # The pool takes priorities only from who holds the blocks, so their first deadline stands.
            if protection.until <= now:
                self.release(session, now, "deadline")
                return False
            protection.until = min(protection.until, now + decision.ttl)
        else:
            protection.until = now + decision.ttl
            self._drop_lease(protection, session)
            insort(self._leases, (decision.value, protection.lease, session))
        protection.value = decision.value
        return True

    def release(self, session: Hashable, now: float, reason: str) -> bool:
        """End what protects a session; false when nothing does."""
        protection = self._protected.pop(session, None)
        if protection is None:
            return False
        self.released[reason] += 1
        self._uncharge(protection)
        if protection.lease is not None:
            self._drop_lease(protection, session)
            self._pool.end_lease(protection.lease, now=now)
        return True

    def make_room(self, blocks: int, now: float) -> list[Hashable]:
        """End leases, the least valuable first, until `blocks` blocks can be had or none is left.

        Returns the sessions that lost theirs. To be called before a running request is preempted, or the first waiting
        one refused.
        """
        gave_way = []
        while self._leases and self._pool.available() < blocks:
            session = self._leases[0][2]
            self.release(session, now, "pressure")
            gave_way.append(session)
        return gave_way

    def clear(self, now: float) -> None:
        """End all protection, as before the pool is cleared or reset."""
        for session in list(self._protected):
            self.release(session, now, "cleared")

    def _priority(self, value: float, footprint: Footprint) -> int:
        # Relative to 1 / blocks of a usual session: the price at which holding one delays another, second for second.
        self._typical_blocks += (footprint.blocks - self._typical_blocks) * (0.02 if self._typical_blocks else 1.0)
        relative = value * max(self._typical_blocks, 1.0)
        if not relative > 0.0:
            return _LEAST_KEPT
        level = _KEPT_BY_DEFAULT + self._points * math.log2(relative)
        return int(min(max(level, _LEAST_KEPT), MAX_PRIORITY))

    def _retain(
        self,
        handle: Any,
        first: int,
        end: int,
        priority: int,
        duration: float,
        now: float,
        lifetime: Literal["fixed", "refresh"] = "fixed",
    ) -> None:
        if self._pool.soft and end > first and handle is not None:
            self._pool.retain(
                handle, first, end - first, priority=priority, duration=duration, lifetime=lifetime, now=now
            )

    def _retain_ranges(
        self,
        handle: Any,
        footprint: Footprint,
        ranges: Sequence[RetentionRange],
        block_tokens: int,
        lifetime: Literal["fixed", "refresh"],
        now: float,
    ) -> None:
        for piece in ranges:
            first = -(-piece.start // block_tokens)
            end = footprint.blocks if piece.end is None else min(-(-piece.end // block_tokens), footprint.blocks)
            self._retain(handle, first, end, piece.priority, piece.duration, now, lifetime)

    def _lease(self, session: Hashable, handle: Any, protection: Protection, now: float) -> None:
        own = protection.footprint.blocks - protection.footprint.shared
        if handle is None or self._pool.lease_budget < max(own, 1) or protection.until <= now:
            return
        deadline = now + self._longest_hold  # ends it even if nobody asks again; decisions end it sooner
        while True:
            try:
                protection.lease = self._pool.lease(handle, protection.footprint.blocks, deadline=deadline, now=now)
            except LeaseError:
                if not self._leases or self._leases[0][0] >= protection.value or not self._room_below(own, protection):
                    return
                self.release(self._leases[0][2], now, "displaced")
                continue
            insort(self._leases, (protection.value, protection.lease, session))
            return

    def _room_below(self, own: int, protection: Protection) -> bool:
        """Whether leases that are worth less hold enough; else none of them is ended for nothing."""
        total = below = 0
        for value, _, session in self._leases:
            footprint = self._protected[session].footprint
            total += footprint.blocks - footprint.shared
            if value < protection.value:
                below += footprint.blocks - footprint.shared
        return total - below + own <= self._pool.lease_budget

    def _drop_lease(self, protection: Protection, session: Hashable) -> None:
        if protection.lease is not None:
            at = bisect_left(self._leases, (protection.value, protection.lease))
            assert self._leases[at][2] == session
            del self._leases[at]

    def _charge(self, protection: Protection) -> None:
        footprint = protection.footprint
        self.charged += footprint.blocks - footprint.shared
        if footprint.shared == 0:
            return
        if footprint.group is None:
            self.charged += footprint.shared
            return
        head = self._heads.get(footprint.group)
        if head is None:
            head = self._heads[footprint.group] = _Head()
        self.charged += max(footprint.shared - head.blocks, 0)
        head.owners[footprint.shared] += 1
        head.priority = max(head.priority, protection.priority)
        head.until = max(head.until, protection.until)

    def _uncharge(self, protection: Protection) -> None:
        footprint = protection.footprint
        self.charged -= footprint.blocks - footprint.shared
        if footprint.shared == 0:
            return
        if footprint.group is None:
            self.charged -= footprint.shared
            return
        head = self._heads[footprint.group]
        before = head.blocks
        head.owners[footprint.shared] -= 1
        if head.owners[footprint.shared] == 0:
            del head.owners[footprint.shared]
        self.charged -= before - head.blocks
        if not head.owners:
            del self._heads[footprint.group]
