"""The blocks that requests hold, by request id: a thin handle on the native pool.

A request's life is lookup (no effect), allocate, commit and append as it computes and decodes, free. Each is one native
call, and each succeeds whole or raises with nothing changed. What the server says of a request is remembered until the
request is freed, so it need not be said twice.
"""

from __future__ import annotations

import os
from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, TypeAlias, TypedDict, Unpack

from numpy.typing import NDArray

from kvopt._core import Allocation, BlockPool, RequestInfo, StopReason
from kvopt.cache.explanation import Explanation
from kvopt.cache.state import DEFAULT_TOP, CacheState
from kvopt.cost import ModelGeometry, blocks_in_memory, model_geometry, parse_bytes
from kvopt.errors import ConfigError, PolicyStateError, RequestIdError
from kvopt.output_file import write_output
from kvopt.policies import Policy

Keys: TypeAlias = NDArray[Any] | Sequence[int] | Sequence[bytes]
"""Keys of n consecutive blocks, root first: unsigned 64-bit integers (n), or with `key_bytes` byte strings of that
length (a sequence of n, or uint8 of shape (n, key_bytes)). A key stands for its block and all blocks in front of it."""


class RequestFacts(TypedDict, total=False):
    """What a server may know of a request; see :class:`kvopt.policies.RequestInfo`."""

    request: int
    session: int
    turn: int
    tool: int
    output_tokens: int
    gap: float
    expected_gap: float
    stop: StopReason
    subagent: bool
    last_turn: bool


@dataclass(slots=True)
class _Held:
    allocation: Allocation
    facts: RequestFacts


class CacheManager:
    """Requests by id on a pool of KV-cache blocks. Not for use by several threads at once.

    The size is `capacity` blocks, or `memory` (bytes, or a text such as "40GiB") of the KV cache of `model`, in blocks
    of `block_tokens` tokens. A model is a name, the path of a config.json, or a geometry; one with windows or states
    needs a geometry at a context (`model_geometry(name).at_context(tokens)`). `policy` is a spec such as "lru" or a new
    Policy object. `rule`, `key_bytes`, `lease_budget` and `retention` are those of BlockPool. `now` is in seconds on a
    monotonic clock of the caller's.

    Raises ConfigError, UnknownPolicyError.
    """

    def __init__(
        self,
        capacity: int | None = None,
        policy: str | Policy = "lru",
        *,
        memory: int | str | None = None,
        model: str | ModelGeometry | None = None,
        block_tokens: int = 16,
        rule: Literal["prefix", "flat"] = "prefix",
        key_bytes: int = 0,
        lease_budget: int = 0,
        retention: bool = False,
    ) -> None:
        self._pool = BlockPool(
            _blocks(capacity, memory, model, block_tokens),
            policy,
            rule=rule,
            key_bytes=key_bytes,
            lease_budget=lease_budget,
            retention=retention,
        )
        self._held: dict[Hashable, _Held] = {}
        self._queried_blocks = 0

    def lookup(self, keys: Keys) -> int:
        """How many leading blocks are cached. No effect."""
        return self._pool.match(keys)

    def allocate(
        self,
        request_id: Hashable,
        keys: Keys,
        total: int | None = None,
        *,
        now: float,
        max_hit: int | None = None,
        reclaim_leases: bool = False,
        **facts: Unpack[RequestFacts],
    ) -> Allocation:
        """Hold the longest cached prefix of `keys` (at most `max_hit` blocks) and empty blocks up to `total` in all.

        `total` defaults to the number of keys. Evicts as needed; with `reclaim_leases` also ends leases rather than
        fail. The answer says how many blocks were hit and which blocks are held.
        Raises RequestIdError when the id is in use, NotEnoughBlocksError, PolicyError; PoolError when time goes back.
        """
        if request_id in self._held:
            raise RequestIdError(f"request id {request_id!r} is in use; free it first")
        allocation = self._pool.acquire(
            keys, total, now=RequestInfo(now, **facts), max_hit=max_hit, reclaim_leases=reclaim_leases
        )
        self._held[request_id] = _Held(allocation, facts)
        self._queried_blocks += len(keys)
        return allocation

    def append(self, request_id: Hashable, blocks: int = 1, *, now: float, reclaim_leases: bool = False) -> None:
        """Add empty blocks at the end, as decoding needs them. Raises RequestIdError, NotEnoughBlocksError."""
        held = self._of(request_id)
        self._pool.extend(held.allocation, blocks, now=RequestInfo(now, **held.facts), reclaim_leases=reclaim_leases)

    def commit(self, request_id: Hashable, keys: Keys, *, now: float) -> None:
        """Give keys to the next blocks of the request, which have become full: others can hit them from now on.

        Raises RequestIdError, or PoolError when there are more keys than blocks without one.
        """
        held = self._of(request_id)
        self._pool.commit(held.allocation, keys, now=RequestInfo(now, **held.facts))

    def free(self, request_id: Hashable, *, now: float, **facts: Unpack[RequestFacts]) -> None:
        """Let go of all blocks of a request; its id may be used again.

        `facts`, such as `stop` and `output_tokens`, add to those given to `allocate`. Raises RequestIdError.
        """
        held = self._of(request_id)
        known: RequestFacts = {**held.facts, **facts}
        self._pool.release(held.allocation, now=RequestInfo(now, **known))
        del self._held[request_id]

    def allocation(self, request_id: Hashable) -> Allocation:
        """What a request holds, as `pool.lease` and `pool.retain` take it. Raises RequestIdError."""
        return self._of(request_id).allocation

    @property
    def pool(self) -> BlockPool:
        """The pool, for leases, retention, eviction and statistics."""
        return self._pool

    @property
    def capacity(self) -> int:
        """Blocks."""
        return self._pool.capacity

    @property
    def requests(self) -> int:
        """How many requests hold blocks."""
        return len(self._held)

    @property
    def usage(self) -> float:
        """Share of the blocks that requests or leases hold, 0 to 1; blocks that are only cached do not count."""
        counts = self._pool.counts()
        return (counts["referenced"] + counts["leased"]) / counts["capacity"]

    def explain(self, now: float) -> Explanation:
        """What the policy thinks of all that it could evict, and why the next victim is the next victim.

        Raises ConfigError when the policy explains nothing, PoolError when time goes back.
        """
        return Explanation.of(self._pool, now)

    def save_learned(self, path: str | os.PathLike[str]) -> None:
        """Write what the policy has learned into a file, whole or not at all.

        Raises PolicyStateError when it learns nothing, ConfigError when no file can be written there, OSError.
        """
        write_output(path, self._pool.save_state())

    def load_learned(self, path: str | os.PathLike[str]) -> None:
        """Go on from what a policy with the same settings has learned; before the first request.

        Raises PolicyStateError, which names the file, when it is foreign, damaged, of another version, policy or
        settings, or this policy has learned already or learns nothing; OSError when it cannot be read.
        """
        try:
            self._pool.load_state(Path(path).read_bytes())
        except PolicyStateError as error:
            raise PolicyStateError(f"{path}: {error}") from None

    def state(self, now: float, *, top: int = DEFAULT_TOP) -> CacheState:
        """A snapshot with the `top` most useful prefixes. Raises ConfigError when `now` is before a release."""
        return CacheState.of(self._pool, now, requests=len(self._held), queried_blocks=self._queried_blocks, top=top)

    def __contains__(self, request_id: Hashable) -> bool:
        return request_id in self._held

    def _of(self, request_id: Hashable) -> _Held:
        held = self._held.get(request_id)
        if held is None:
            raise RequestIdError(f"request id {request_id!r} is unknown; allocate it first")
        return held


def _blocks(
    capacity: int | None, memory: int | str | None, model: str | ModelGeometry | None, block_tokens: int
) -> int:
    if capacity is not None:
        if memory is not None or model is not None:
            raise ConfigError("the size is a capacity, or a memory and a model, not both")
        return capacity
    if memory is None or model is None:
        raise ConfigError("no size: give a capacity in blocks, or a memory and the model whose KV cache it is")
    geometry = model if isinstance(model, ModelGeometry) else model_geometry(model)
    return blocks_in_memory(parse_bytes(str(memory)), geometry, block_tokens)
