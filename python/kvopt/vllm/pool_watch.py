"""Stored, hit and evicted blocks as events, whatever pool holds them.

vLLM's block pool calls its own methods by name on the instance, so a wrapper put there sees every block; the cost is a
call a request, and a call a block for evictions of vLLM's own pool. A pool that counts by itself is only asked.
"""

from __future__ import annotations

from typing import Any

from kvopt.vllm.hooks import Hooks
from kvopt.vllm.observation import BlocksEvicted, BlocksHit, BlocksStored


def watch_pool(manager: Any, hooks: Hooks) -> None:
    """Tell `hooks` of the blocks and look-ups of this KV-cache manager, from now on."""
    _watch_lookups(manager, hooks)
    pool = manager.block_pool
    _watch_stored(pool, hooks)
    _watch_hits(pool, hooks)
    _watch_evictions(pool, hooks)


def _watch_lookups(manager: Any, hooks: Hooks) -> None:
    original = manager.get_computed_blocks

    pool = manager.block_pool
    informed = hasattr(pool, "request_info")  # a pool of ours, whose policy is told whom it works for

    def get_computed_blocks(request: Any, *args: Any, **kwargs: Any) -> Any:
        if informed:
            with hooks.guard("request info"):
                pool.request_info = hooks.info(request)
        found = original(request, *args, **kwargs)
        with hooks.guard("prefix lookup"):
            hooks.looked_up(request, found[1])
        return found

    manager.get_computed_blocks = get_computed_blocks


def _watch_stored(pool: Any, hooks: Hooks) -> None:
    original = pool.cache_full_blocks
    informed = hasattr(pool, "request_info")

    def cache_full_blocks(*args: Any, **kwargs: Any) -> Any:
        if informed:
            with hooks.guard("request info"):
                pool.request_info = hooks.info(kwargs["request"] if "request" in kwargs else args[0])
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
    native: Any = getattr(pool, "native", None)  # a pool of ours, which counts by itself
    counted = native is not None and hasattr(native, "evictions")
    evicted = 0

    def count_evicted(block: Any, *args: Any, **kwargs: Any) -> bool:
        nonlocal evicted
        gone = bool(evict(block, *args, **kwargs))  # type: ignore[misc]
        evicted += gone
        return gone

    def watched(*args: Any, **kwargs: Any) -> Any:
        nonlocal evicted
        before = native.evictions if counted else 0
        evicted = 0
        blocks = get_new_blocks(*args, **kwargs)
        gone = native.evictions - before if counted else evicted
        if gone:
            hooks.emit(BlocksEvicted(hooks.clock(), gone))
        return blocks

    if evict is not None and not counted:
        pool._maybe_evict_cached_block = count_evicted
    if counted or evict is not None:
        pool.get_new_blocks = watched
