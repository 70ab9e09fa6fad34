"""vLLM's blocks as Continuum's ProtectedPool: leases are references of our own, priorities go to the native order.

A handle is the list of a request's cached blocks, one list a KV-cache group, each root first. A leased block counts as
in use for vLLM, so that admission and preemption reckon with it; the budget keeps that below a share of the pool.
Cost: O(blocks) of the request that is leased or let go, in native calls over lists.
"""

from __future__ import annotations

import heapq
import itertools
import math
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Literal

from kvopt.continuum.pool import weighs_returns
from kvopt.errors import LeaseError
from kvopt.policies.retention import DEFAULT_PRIORITY

Handle = list[list[Any]]


@dataclass(slots=True)
class _Priority:
    """One that was set on some blocks, until it ends; `refresh`: a hit begins its `duration` anew."""

    blocks: list[Any]
    until: float
    duration: float
    refresh: bool


class VllmProtectedPool:
    """The pool of one scheduler; `lease_share` of its blocks may be pinned at once.

    Attributes:
        capacity: blocks in all, but for vLLM's null block.
        lease_budget: blocks that leases may pin at once.
        soft: whether the victim order looks at priorities.
        weighs: whether it weighs returns by itself.
        leased: blocks that are pinned now.
    """

    def __init__(self, manager: Any, lease_share: float, policy: object = None) -> None:
        self.weighs = weighs_returns(policy)
        self._pool = manager.block_pool
        self._native: Any = getattr(self._pool, "native", None)
        self.capacity = self._pool.num_gpu_blocks - 1
        self.lease_budget = int(lease_share * self.capacity)
        self.soft = bool(self._native is not None and self._native.honours_priority)
        self._leases: dict[int, tuple[list[Any], Any]] = {}
        self._pinned: Counter[int] = Counter()
        self._numbers = itertools.count(1)
        self._priorities: dict[int, _Priority] = {}
        self._refreshing = 0  # how many of them a hit begins anew
        self._ends: list[tuple[float, int]] = []  # when which of them may end
        self._newest: dict[int, int] = {}  # block to the number of its last priority

    @property
    def leased(self) -> int:
        """Blocks that leases pin, each counted once."""
        return len(self._pinned)

    def handle_of(self, manager: Any, request_id: str) -> Handle:
        """The cached blocks that a request holds now."""
        return [
            [block for block in blocks if not block.is_null and block.block_hash is not None]
            for blocks in manager.get_blocks(request_id).blocks
        ]

    def available(self) -> int:
        """Blocks that a request could get now."""
        return int(self._pool.get_num_free_blocks())

    def lease(self, handle: Handle, blocks: int, *, deadline: float, now: float) -> int:
        """Pin the first `blocks` blocks of each group. Raises LeaseError beyond the budget."""
        pinned = [block for group in handle for block in group[:blocks]]
        more = sum(1 for block in pinned if block.block_id not in self._pinned)
        if len(self._pinned) + more > self.lease_budget:
            raise LeaseError(
                f"{more} blocks more than the {len(self._pinned)} leased ones exceed the budget of {self.lease_budget}"
            )
        self._hold(pinned)
        self._pinned.update(block.block_id for block in pinned)
        number = next(self._numbers)
        self._leases[number] = (pinned, getattr(self._pool, "request_info", None))
        return number

    def end_lease(self, lease: int, *, now: float) -> bool:
        """Let go of a lease's blocks, the deepest first; false when it is over already."""
        blocks, info = self._leases.pop(lease, (None, None))
        if blocks is None:
            return False
        self._pinned.subtract(block.block_id for block in blocks)
        self._pinned = +self._pinned
        if info is not None:
            self._pool.request_info = info
        self._pool.free_blocks(blocks[::-1])
        return True

    def retain(
        self,
        handle: Handle,
        first: int,
        blocks: int,
        *,
        priority: int,
        duration: float,
        lifetime: Literal["fixed", "refresh"],
        now: float,
    ) -> None:
        """See :class:`kvopt.continuum.pool.ProtectedPool`. Blocks without content are left out."""
        chosen = [block for group in handle for block in group[first : first + blocks]]
        if not chosen or self._native is None:
            return
        self._native.set_priority(chosen, priority)
        if duration < math.inf:
            number = next(self._numbers)
            self._newest.update((block.block_id, number) for block in chosen)
            self._priorities[number] = _Priority(chosen, now + duration, duration, lifetime == "refresh")
            self._refreshing += lifetime == "refresh"
            heapq.heappush(self._ends, (now + duration, number))
        else:
            for block in chosen:
                self._newest.pop(block.block_id, None)

    def hit(self, blocks: Iterable[Any], now: float) -> None:
        """A request found these blocks cached: priorities with the lifetime "refresh" on them begin anew."""
        if not self._refreshing:
            return
        for number in {self._newest.get(block.block_id, -1) for block in blocks}:
            priority = self._priorities.get(number)
            if priority is not None and priority.refresh:
                priority.until = max(priority.until, now + priority.duration)

    def expire(self, now: float) -> None:
        """Give blocks whose priority has ended the default one, where they hold their content still."""
        while self._ends and self._ends[0][0] <= now:
            number = heapq.heappop(self._ends)[1]
            priority = self._priorities[number]
            if priority.until > now:
                heapq.heappush(self._ends, (priority.until, number))
                continue
            del self._priorities[number]
            self._refreshing -= priority.refresh
            ended = [block for block in priority.blocks if self._newest.get(block.block_id) == number]
            for block in ended:
                del self._newest[block.block_id]
            cached = [block for block in ended if block.block_hash is not None]
            if cached:
                self._native.set_priority(cached, DEFAULT_PRIORITY)

    def forget(self) -> None:
        """Drop all deadlines, after the pool was cleared."""
        self._priorities.clear()
        self._refreshing = 0
        self._ends.clear()
        self._newest.clear()

    def _hold(self, blocks: list[Any]) -> None:
        if self._native is not None:
            self._native.touch(blocks, hit=False)
        else:
            self._pool.touch(blocks)
