"""The part of a block pool that retention needs, and the native pool behind it.

An engine with its own pool (a simulator's memory, vLLM's) implements :class:`ProtectedPool` in a few lines; a handle
is whatever it knows a running request's blocks by.
"""

from __future__ import annotations

from typing import Any, Literal, Protocol, TypeAlias

from kvopt._core import Allocation, BlockPool, Request
from kvopt.errors import LeaseError

Holder: TypeAlias = Allocation | Request
"""What holds blocks of a native pool: an allocation, or a request of the simulator."""


class ProtectedPool(Protocol):
    """Blocks of requests, root first, that can be leased (pinned) and given a retention priority.

    The pool guarantees: a leased block is never a victim; blocks under several leases are charged to the budget once;
    each call succeeds whole, or raises with nothing changed.
    The caller guarantees: handles are those of requests that hold their blocks; `now` never goes back.
    """

    @property
    def capacity(self) -> int:
        """Blocks in all."""
        ...

    @property
    def lease_budget(self) -> int:
        """Blocks that leases may pin at once; 0 for no leases."""
        ...

    @property
    def soft(self) -> bool:
        """Whether the victim order looks at priorities, so that :meth:`retain` has an effect."""
        ...

    @property
    def weighs(self) -> bool:
        """Whether that order weighs chance and cost of a return by itself.

        Then priorities are for what clients say and for ended sessions; estimates would count twice.
        """
        ...

    def available(self) -> int:
        """Blocks that a request could get now: empty, and evictable ones."""
        ...

    def lease(self, handle: Any, blocks: int, *, deadline: float, now: float) -> int:
        """Pin the first `blocks` blocks. Returns the lease's id; raises LeaseError beyond the budget."""
        ...

    def end_lease(self, lease: int, *, now: float) -> bool:
        """End a lease; false when it is over already."""
        ...

    def retain(
        self,
        handle: Any,
        first: int,
        blocks: int,
        *,
        priority: int,
        duration: float,
        lifetime: Literal["fixed", "refresh"],
        now: float,
    ) -> None:
        """Set the priority (0 to 100) of `blocks` blocks from `first` on, for `duration` seconds."""
        ...


def weighs_returns(policy: object) -> bool:
    """Whether a policy (its spec, or an object) orders victims by chance and cost of a return by itself."""
    return isinstance(policy, str) and policy.partition(":")[0].strip() == "cost-aware"


class NativePool:
    """:class:`ProtectedPool` over a :class:`kvopt.cache.BlockPool`; handles are what holds its blocks.

    `soft` says whether the pool was built with ``retention=True`` and a policy that looks at priorities, `weighs`
    whether that policy is one for which :func:`weighs_returns` holds.
    """

    def __init__(self, pool: BlockPool, *, lease_budget: int = 0, soft: bool = False, weighs: bool = False) -> None:
        self._pool = pool
        self.capacity = pool.capacity
        self.lease_budget = lease_budget
        self.soft = soft
        self.weighs = weighs

    def available(self) -> int:
        """See :class:`ProtectedPool`."""
        counts = self._pool.counts()
        return counts["empty"] + counts["evictable"]

    def lease(self, handle: Holder, blocks: int, *, deadline: float, now: float) -> int:
        """See :class:`ProtectedPool`. Blocks without a key are not leased: nothing could hit them."""
        return self._pool.lease(handle, min(blocks, handle.committed), deadline=deadline, now=now)

    def end_lease(self, lease: int, *, now: float) -> bool:
        """See :class:`ProtectedPool`."""
        try:
            self._pool.end_lease(lease, now=now)
        except LeaseError:
            return False
        return True

    def retain(
        self,
        handle: Holder,
        first: int,
        blocks: int,
        *,
        priority: int,
        duration: float,
        lifetime: Literal["fixed", "refresh"],
        now: float,
    ) -> None:
        """See :class:`ProtectedPool`."""
        first = min(first, handle.committed)
        blocks = min(blocks, handle.committed - first)
        self._pool.retain(handle, first, blocks, priority=priority, duration=duration, lifetime=lifetime, now=now)
