"""The blocks of the simulated server: the native pool, used as vLLM uses its own.

One block is vLLM's null block and holds nothing. A request is admitted when all blocks of its prompt (and of the answer
that it had before a preemption) could be had, but gets them chunk by chunk. Full blocks can be hit as soon as the step
that computes them is planned; partial ones never. Empty blocks go first, then the policy chooses.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from kvopt._core import BlockPool, RequestInfo
from kvopt.errors import ConfigError, NotEnoughBlocksError, SimulationError
from kvopt.metrics import Collector

if TYPE_CHECKING:
    from kvopt.policies import Policy
    from kvopt.scheduler import Request


class Memory:
    """A pool of `capacity` blocks of which one is the null block; counts are kept current after each call."""

    def __init__(
        self,
        capacity: int,
        policy: str | Policy,
        *,
        block_tokens: int,
        p_star: float,
        named_blocks: int,
        whole_hits: bool,
        collector: Collector,
        lease_share: float = 0.0,
        retention: bool = False,
    ) -> None:
        if capacity < 2:
            raise ConfigError(f"capacity: {capacity} blocks; at least 2 are needed, for one is the null block")
        self.usable = capacity - 1
        self.lease_budget = int(lease_share * self.usable)
        self.pool = BlockPool(
            self.usable,
            policy,
            lease_budget=self.lease_budget,
            retention=retention,
            block_tokens=block_tokens,
            p_star=p_star,
        )
        self.version = 0
        self.block_tokens = block_tokens
        self._whole_hits = whole_hits
        self._collector = collector
        self._computed_before = np.zeros(named_blocks, np.bool_)
        self._holders: dict[int, Request] = {}
        self._leases: dict[int, tuple[NDArray[np.uint64], float]] = {}  # their keys, and when they end
        self.lease_deadline = math.inf
        """No lease ends by itself before, in seconds."""
        runs = self.pool.runs
        self._runs = runs
        self._length, self._last_use, self._hits = runs.length, runs.last_use, runs.hits
        self._weights = np.empty(self.usable)
        self._sums: tuple[float, float] | None = None
        self.empty = self.usable
        self.evictable = 0
        self.leased = 0
        """Blocks that leases hold, and no request."""

    @property
    def free(self) -> int:
        """Blocks that can be had: empty or evictable."""
        return self.empty + self.evictable

    @property
    def held(self) -> int:
        """Blocks that requests hold."""
        return self.usable - self.empty - self.cached

    @property
    def cached(self) -> int:
        """Blocks with content that no request holds."""
        return self.evictable + self.leased

    def reach(self, request: Request) -> int:
        """How many leading blocks a request may hit: all but the one with its last token, which must be computed."""
        tokens = request.tokens
        return min((tokens if self._whole_hits else tokens - 1) // self.block_tokens, len(request.keys))

    def match(self, request: Request) -> int:
        """How many leading blocks of a request are cached and may be hit."""
        return self.pool.match(request.keys[: self.reach(request)])

    def blocks(self, tokens: int) -> int:
        """Blocks that hold so many tokens."""
        return -(-tokens // self.block_tokens)

    def fits(self, request: Request, hit: int) -> bool:
        """Whether all blocks that a request needs now could be had, were `hit` leading ones taken from the cache."""
        need = self.blocks(request.tokens) - hit
        if need > self.free:
            return False
        return need + hit <= self.free or need + self._evictable_on_path(request, hit) <= self.free

    def admit(self, request: Request, hit: int, tokens: int, info: RequestInfo) -> bool:
        """Hold the `hit` cached blocks and room for all tokens up to `tokens`; False when there is too little."""
        total = self.blocks(tokens)
        keys = request.keys[: min(total, len(request.keys))]
        evictions = self._before(total - hit)
        try:
            request.allocation = self.pool.acquire(keys, total, now=info, max_hit=min(hit, len(keys)))
        except NotEnoughBlocksError:
            return False
        if request.allocation.hit != hit:
            raise SimulationError(f"request {request.id}: {hit} blocks matched, but {request.allocation.hit} were hit")
        request.held_blocks = total
        self._holders[request.id] = request
        self._after(evictions, request, info.now, hit)
        return True

    def extend(self, request: Request, blocks: int, now: float) -> None:
        """Give a request more empty blocks, which must be free."""
        evictions = self._before(blocks)
        assert request.allocation is not None
        self.pool.extend(request.allocation, blocks, now=now)
        request.held_blocks += blocks
        self._after(evictions, request, now, 0)

    def commit(self, request: Request, tokens: int, info: RequestInfo) -> None:
        """Let others hit the blocks that `tokens` tokens of a request fill."""
        assert request.allocation is not None
        have = request.allocation.committed
        keys = request.keys[have : tokens // self.block_tokens]
        if not len(keys):
            return
        self.pool.commit(request.allocation, keys, now=info)
        named = keys[: max(request.prompt_keys - have, 0)]
        self._computed_before[named.view(np.int64)] = True
        self.version += 1

    def release(self, request: Request, info: RequestInfo) -> None:
        """Let go of all blocks of a request, the deepest to be evicted first."""
        assert request.allocation is not None
        self.pool.release(request.allocation, now=info)
        request.allocation = None
        request.held_blocks = 0
        del self._holders[request.id]
        self._sums = None
        self.version += 1
        self._count()

    def note_lease(self, lease: int, request: Request, blocks: int, deadline: float) -> None:
        """The first blocks of a request that holds them are leased."""
        self._leases[lease] = request.keys[:blocks], deadline
        self.lease_deadline = min(self.lease_deadline, deadline)

    def note_lease_end(self, lease: int) -> None:
        """A lease is over."""
        self._leases.pop(lease, None)
        self._sums = None
        self.version += 1
        self._count()

    def expire_leases(self, now: float) -> bool:
        """End leases that are due; whether there were any."""
        if now < self.lease_deadline:
            return False
        self.pool.expire(now)
        over = [lease for lease, (_, deadline) in self._leases.items() if deadline <= now]
        for lease in over:
            self.note_lease_end(lease)
        self.lease_deadline = min((deadline for _, deadline in self._leases.values()), default=math.inf)
        return bool(over)

    def computed_before(self, request: Request, hit: int) -> int:
        """Tokens from the first on whose blocks anybody has computed before, as far as the request may hit them."""
        end = min(self.reach(request), request.prompt_keys)
        known = self._computed_before[request.keys[hit:end].view(np.int64)]
        return (hit + int(np.count_nonzero(known))) * self.block_tokens

    def idle_block_seconds(self, now: float) -> float:
        """How long all blocks that nobody holds have been idle, added up."""
        used = self._runs.used
        idle = self._runs.live[:used] & (self._runs.references[:used] == 0)
        return float(np.dot(self._length[:used] * idle, now - self._last_use[:used]))

    def check(self) -> list[str]:
        """What is wrong with the books once no request is left; empty when all is right."""
        counts, stats = self.pool.counts(), self.pool.stats()
        wrong = list(self.pool.verify())
        if counts["referenced"] or self._holders:
            wrong.append(f"{counts['referenced']} blocks are held by nobody's request")
        if counts["empty"] + counts["evictable"] != self.usable:
            wrong.append(f"{counts['empty']} empty and {counts['evictable']} cached blocks are not {self.usable}")
        dropped = sum(dropped_blocks(self.pool).values())
        if stats["stored_blocks"] - dropped != counts["evictable"]:
            wrong.append(f"{stats['stored_blocks']} blocks stored, {dropped} dropped, {counts['evictable']} left")
        if stats["dropped_blocks"]["capacity"] != self._collector.totals.evictions:
            wrong.append(f"{stats['dropped_blocks']['capacity']} evictions, {self._collector.totals.evictions} noted")
        return wrong

    def _count(self) -> None:
        counts = self.pool.counts()
        self.empty, self.evictable, self.leased = counts["empty"], counts["evictable"], counts["leased"]

    # The pool does not tell what it evicts. But nothing else takes blocks away, so the length-weighted sums of the
    # runs' last uses and hits fall by just those of the blocks evicted (a hit adds one for each block on its path).

    def _before(self, blocks: int) -> int:
        # How many blocks will be evicted for so many more.
        evictions = blocks - self.empty
        if evictions > 0 and self._sums is None:
            self._sums = self._weighted_sums()
        return evictions

    def _after(self, evictions: int, request: Request, now: float, hit: int) -> None:
        self._count()
        if evictions <= 0:
            if hit:
                self._sums = None
            return
        assert self._sums is not None
        last_use, hits = self._sums
        self._sums = self._weighted_sums()
        age = now - (last_use - self._sums[0]) / evictions
        self._collector.evicted(now, request.id, evictions, age, round(hits + hit - self._sums[1]))
        self.version += 1

    def _weighted_sums(self) -> tuple[float, float]:
        used = self._runs.used
        length = np.multiply(self._length[:used], self._runs.live, out=self._weights[:used], casting="unsafe")
        return float(np.dot(length, self._last_use[:used])), float(np.dot(length, self._hits[:used]))

    def _evictable_on_path(self, request: Request, hit: int) -> int:
        held = 0
        for other in self._holders.values():
            assert other.allocation is not None
            held = max(held, shared_blocks(request.keys, other.keys, min(hit, other.allocation.committed)))
            if held == hit:
                return 0
        for keys, _ in self._leases.values():
            held = max(held, shared_blocks(request.keys, keys, min(hit, len(keys))))
        return hit - held


def dropped_blocks(pool: BlockPool) -> dict[str, int]:
    """Cached blocks that lost their content, by reason."""
    dropped = pool.stats()["dropped_blocks"]
    return {
        "capacity": dropped["capacity"],
        "explicit": dropped["explicit"],
        "cleared": dropped["cleared"],
        "forgotten": dropped["forgotten"],
    }


def shared_blocks(keys: NDArray[np.uint64], other: NDArray[np.uint64], limit: int) -> int:
    """How many of the first `limit` blocks two chains share; a key stands for all before it, so halving finds it."""
    low, high = 0, limit
    while low < high:
        middle = (low + high + 1) // 2
        if keys[middle - 1] == other[middle - 1]:
            low = middle
        else:
            high = middle - 1
    return low
