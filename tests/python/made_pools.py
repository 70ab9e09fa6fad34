"""Small pools whose victims can be followed by hand."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from kvopt._core import Allocation, BlockPool, RequestInfo


class NamedBlocks:
    """A pool of blocks that are named by their keys."""

    def __init__(self, policy: str, capacity: int = 64, **options: Any) -> None:
        # A block at depth d costs 1000 * (1.5 + d).
        self.pool = BlockPool(capacity, policy, **({"block_tokens": 1000, "p_star": 1000.0} | options))
        self._keys: dict[int, int] = {}

    def hold(self, keys: Sequence[int], now: float, **info: Any) -> Allocation:
        """Acquire and commit blocks with these keys."""
        wanted = np.array(keys, np.uint64)
        request = RequestInfo(now, **info)
        allocation = self.pool.acquire(wanted, now=request)
        self.pool.commit(allocation, wanted[allocation.hit :], now=request)
        self._keys |= dict(zip(allocation.blocks.tolist(), keys, strict=True))
        assert self.pool.verify() == []
        return allocation

    def use(self, keys: Sequence[int], now: float, **info: Any) -> None:
        """Let one request hold these keys and go."""
        self.pool.release(self.hold(keys, now, **info), now=RequestInfo(now, **info))
        assert self.pool.verify() == []

    def victims(self, n: int, now: float) -> list[int]:
        """The keys of the next n victims, evicted one by one."""
        keys = []
        for _ in range(n):
            keys += [self._keys[block] for block in self.pool.evict(1, now=now).tolist()]
            assert self.pool.verify() == []
        return keys

    def victims_at_once(self, n: int, now: float) -> set[int]:
        """The keys of the next n victims, evicted in one call."""
        keys = {self._keys[block] for block in self.pool.evict(n, now=now).tolist()}
        assert self.pool.verify() == []
        return keys
