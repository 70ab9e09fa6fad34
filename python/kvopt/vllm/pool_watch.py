"""Stored, hit and evicted blocks as events, whatever pool holds them.

The native pool counts by itself and is asked once a step, which makes at most one event of a kind. vLLM's block pool
calls its own methods by name on the instance, so a wrapper put there sees every block; the cost is a call a request,
and a call a block for evictions.
"""

from __future__ import annotations

from typing import Any

from kvopt._core import EnginePool
from kvopt.vllm.hooks import Hooks
from kvopt.vllm.observation import BlocksEvicted, BlocksHit, BlocksStored
from kvopt.vllm.told_policy import ToldPolicy


def watch_pool(manager: Any, hooks: Hooks) -> None:
    """Tell `hooks` of the blocks and look-ups of this KV-cache manager from now on, and a policy of the requests."""
    pool = manager.block_pool
    if isinstance(pool, ToldPolicy):
        pool.info_of = hooks.info
    _watch_lookups(manager, hooks)
    native = getattr(pool, "native", None)
    if isinstance(native, EnginePool):
        hooks.count_blocks = _Counts(native, hooks).tell
        return
    _watch_stored(pool, hooks)
    _watch_hits(pool, hooks)
    _watch_evictions(pool, hooks)


class _Counts:
    """What a native pool counted that was not told of yet."""

    def __init__(self, native: EnginePool, hooks: Hooks) -> None:
        self._native = native
        self._hooks = hooks
        self._hits = self._evictions = self._stored = 0

    def tell(self) -> None:
        """One event of each kind that there is anything to tell of."""
        native = self._native
        hits, evictions, stored = native.hits, native.evictions, native.stored
        if hits != self._hits:
            self._hooks.emit(BlocksHit(self._hooks.clock(), hits - self._hits))
            self._hits = hits
        if evictions != self._evictions:
            self._hooks.emit(BlocksEvicted(self._hooks.clock(), evictions - self._evictions))
            self._evictions = evictions
        if stored != self._stored:
            self._hooks.emit(BlocksStored(self._hooks.clock(), stored - self._stored))
            self._stored = stored


def _watch_lookups(manager: Any, hooks: Hooks) -> None:
    original = manager.get_computed_blocks
    pool = manager.block_pool
    told = isinstance(pool, ToldPolicy)

    def get_computed_blocks(request: Any, *args: Any, **kwargs: Any) -> Any:
        if told:
            pool.works_for(request)
        found = original(request, *args, **kwargs)
        with hooks.guard("prefix lookup"):
            hooks.looked_up(request, found[1])
        return found

    manager.get_computed_blocks = get_computed_blocks


def _watch_stored(pool: Any, hooks: Hooks) -> None:
    original = pool.cache_full_blocks

    def cache_full_blocks(*args: Any, **kwargs: Any) -> Any:
        done = original(*args, **kwargs)
        with hooks.guard("blocks stored"):
            first = kwargs["num_cached_blocks"] if "num_cached_blocks" in kwargs else args[2]
            end = kwargs["num_full_blocks"] if "num_full_blocks" in kwargs else args[3]
            if end > first:
                hooks.emit(BlocksStored(hooks.clock(), end - first))
        return done

    pool.cache_full_blocks = cache_full_blocks


def _watch_hits(pool: Any, hooks: Hooks) -> None:
    original = pool.touch

    def touch(blocks: Any, *args: Any, **kwargs: Any) -> Any:
        done = original(blocks, *args, **kwargs)
        if blocks:
            hooks.emit(BlocksHit(hooks.clock(), len(blocks)))
        return done

    pool.touch = touch


def _watch_evictions(pool: Any, hooks: Hooks) -> None:
    get_new_blocks, evict = pool.get_new_blocks, getattr(pool, "_maybe_evict_cached_block", None)
    if evict is None:
        return
    evicted = 0

    def count_evicted(block: Any, *args: Any, **kwargs: Any) -> bool:
        nonlocal evicted
        gone = bool(evict(block, *args, **kwargs))
        evicted += gone
        return gone

    def watched(*args: Any, **kwargs: Any) -> Any:
        nonlocal evicted
        evicted = 0
        blocks = get_new_blocks(*args, **kwargs)
        if evicted:
            hooks.emit(BlocksEvicted(hooks.clock(), evicted))
        return blocks

    pool._maybe_evict_cached_block = count_evicted
    pool.get_new_blocks = watched
