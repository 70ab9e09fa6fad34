"""vLLM's block pool, native: which blocks are handed out, hit, cached and freed, with any policy choosing the victims.

With the policy "lru" every decision equals vLLM's own, block for block. Python code is left only where vLLM asks for an
object a block: KV events, residency metrics, reuse watchers. `kvopt.vllm.install` puts it in place.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from vllm.distributed.kv_events import MEDIUM_GPU, AllBlocksCleared
from vllm.v1.core import block_pool
from vllm.v1.core.kv_cache_utils import (
    generate_block_hash_extra_keys,
    maybe_convert_block_hash,
    resolve_block_hashes,
)

from kvopt._core import EngineBlock, EnginePool
from kvopt.vllm.pool_views import BlockMapView, FreeQueueView, MoreHashesView
from kvopt.vllm.settings import PoolSettings
from kvopt.vllm.told_policy import ToldPolicy

logger = logging.getLogger("vllm.kvopt")


class NativeBlockPool(ToldPolicy, block_pool.BlockPool):  # type: ignore[misc]
    """vLLM's BlockPool on an EnginePool. Methods that are not overridden (partial blocks, events) are vLLM's own."""

    def __init__(
        self,
        num_gpu_blocks: int,
        enable_caching: bool,
        hash_block_size: int,
        enable_kv_cache_events: bool = False,
        metrics_collector: Any = None,
        num_hash_lookahead_tokens: int = 0,
        medium: str = MEDIUM_GPU,
        *,
        settings: PoolSettings | None = None,
    ) -> None:
        settings = settings or PoolSettings()
        native = EnginePool(
            num_gpu_blocks,
            settings.policy,
            caching=enable_caching,
            block_tokens=hash_block_size,
            p_star=settings.p_star,
            clock=settings.clock,
        )
        native.set_owner(self)
        native.note_removed(enable_kv_cache_events)
        self.native = native
        self._tell(native)
        self.settings = settings
        self.num_gpu_blocks = num_gpu_blocks
        self.medium = medium
        self.enable_caching = enable_caching
        self.hash_block_size = hash_block_size
        self.num_hash_lookahead_tokens = num_hash_lookahead_tokens
        self.blocks = native.blocks
        self.null_block = native.blocks[0]
        self.free_block_queue = FreeQueueView(native)
        self.cached_block_hash_to_block = BlockMapView(native)
        self.cached_block_hashes_by_block = MoreHashesView(native)
        self.enable_kv_cache_events = enable_kv_cache_events
        self.kv_event_queue: list[Any] = []
        self.metrics_collector = metrics_collector
        self._reuse_watchers: dict[int, Callable[[Any], None]] = {}
        # Where nothing has to be done in Python, vLLM calls the native method at once.
        self.get_cached_block = native.get_cached_block
        self.get_num_free_blocks = native.get_num_free_blocks
        self.get_usage = native.get_usage
        self.move_block_hashes = native.move_block_hashes
        if metrics_collector is None:
            self.touch = native.touch  # type: ignore[method-assign]
            if not self._decides and not enable_kv_cache_events:
                self.get_new_blocks = native.get_new_blocks  # type: ignore[method-assign]

    def get_new_blocks(self, num_blocks: int) -> list[EngineBlock]:
        """Hand out free blocks with one reference each. Raises NotEnoughBlocksError."""
        if self._missed is not None:
            self._tell_miss()
        blocks = self.native.get_new_blocks(num_blocks)
        if self._reuse_watchers:
            self._notify_reuse(blocks)
        if self.metrics_collector is not None:
            for block in blocks:
                if self.enable_caching:
                    self.metrics_collector.on_block_evicted(block)
                self.metrics_collector.on_block_allocated(block)
        if self.enable_kv_cache_events:
            self._emit_block_removed_events(self.native.take_removed())
        if self._decides and self.native.failure:
            self._say_failure()
        return blocks

    def touch(self, blocks: Sequence[EngineBlock]) -> None:
        """Add a reference to each block, root first: a request found them cached."""
        self.native.touch(blocks)
        if self.metrics_collector is not None:
            for block in blocks:
                if not block.is_null:
                    self.metrics_collector.on_block_accessed(block)

    def free_blocks(self, ordered_blocks: Iterable[Any]) -> None:
        """Take a reference off each block; the first is evicted first. Blocks of other pools go to those."""
        others = self.native.free_blocks(ordered_blocks)
        if others is None:
            return
        by_pool: dict[int, tuple[Any, list[Any]]] = {}
        for block in others:
            by_pool.setdefault(id(block.pool), (block.pool, []))[1].append(block)
        for pool, blocks in by_pool.values():
            pool.free_blocks(blocks)

    def unpin_blocks(self, blocks: Iterable[EngineBlock], on_reuse: Callable[[Any], None]) -> None:
        """Free blocks that stay readable until they are handed out again, of which `on_reuse` tells."""
        self.__dict__.pop("get_new_blocks", None)  # from now on there is something to do in Python
        held = list(blocks)
        self.native.free_last(held)
        for block in held:
            self._reuse_watchers[block.block_id] = on_reuse

    def cache_full_blocks(
        self,
        request: Any,
        blocks: list[EngineBlock],
        num_cached_blocks: int,
        num_full_blocks: int,
        block_size: int,
        kv_cache_group_id: int,
        block_mask: list[bool] | None = None,
    ) -> None:
        """Give keys to the blocks of a request that became full."""
        if num_cached_blocks >= num_full_blocks:
            return
        self.works_for(request)
        self.native.cache_full_blocks(
            request.block_hashes,
            blocks,
            num_cached_blocks,
            num_full_blocks,
            block_size,
            kv_cache_group_id,
            block_size // self.hash_block_size,
            block_mask,
        )
        if self.enable_kv_cache_events:
            self._emit_block_removed_events(self.native.take_removed())
            positions = [
                i
                for i in range(num_cached_blocks, num_full_blocks)
                if not blocks[i].is_null and (block_mask is None or block_mask[i - num_cached_blocks])
            ]
            self._tell_stored(request, positions, num_cached_blocks, num_full_blocks, block_size, kv_cache_group_id)

    def _tell_stored(
        self, request: Any, positions: list[int], first: int, end: int, block_size: int, kv_cache_group_id: int
    ) -> None:
        hashes = resolve_block_hashes(request.block_hashes, self.hash_block_size, block_size)
        extra_keys_of = getattr(self, "_generate_event_extra_keys", None)
        extra_keys: list[Any] = []
        mm_index = 0
        for i in positions:
            span = (i * block_size, (i + 1) * block_size)
            make = extra_keys_of or generate_block_hash_extra_keys
            keys, mm_index = make(request, *span, mm_index)
            extra_keys.append(keys)
        more: dict[str, Any] = {}
        if hasattr(self, "_lookahead_token_ids"):  # since 0.33
            more["lookahead_token_ids"] = (
                [self._lookahead_token_ids(request, (i + 1) * block_size) for i in positions]
                if self.num_hash_lookahead_tokens
                else None
            )
        event = self._build_block_stored_event(
            request,
            block_hashes=[maybe_convert_block_hash(hashes[i]) for i in positions],
            parent_block_hash=maybe_convert_block_hash(hashes[first - 1]) if first else None,
            start_token_idx=first * block_size,
            end_token_idx=end * block_size,
            block_size=block_size,
            kv_cache_group_id=kv_cache_group_id,
            extra_keys_list=extra_keys,
            **more,
        )
        self.kv_event_queue.append(event)

    def evict_blocks(self, block_ids: set[int]) -> None:
        """Take the content of blocks away; who holds them keeps them."""
        for block_id in block_ids:
            if not 0 <= block_id < self.num_gpu_blocks:
                raise AssertionError(f"block id {block_id}; the pool has {self.num_gpu_blocks}")
            self._maybe_evict_cached_block(self.blocks[block_id])

    def reset_prefix_cache(self) -> bool:
        """Drop all content. False while blocks are held."""
        if not self.native.reset_prefix_cache():
            used = self.num_gpu_blocks - 1 - self.get_num_free_blocks()
            logger.warning("Failed to reset prefix cache because some blocks (%d) are not freed yet", used)
            return False
        if self._reuse_watchers:
            self._notify_reuse([self.blocks[block_id] for block_id in list(self._reuse_watchers)])
        if self.metrics_collector is not None:
            self.metrics_collector.reset()
        if self.enable_kv_cache_events:
            self.kv_event_queue.append(AllBlocksCleared())
        return True

    def _maybe_evict_cached_block(self, block: EngineBlock) -> bool:
        if self.metrics_collector is not None:
            self.metrics_collector.on_block_evicted(block)
        removed = self._remove_cached_block_hashes(block)
        self._emit_block_removed_events(removed)
        return bool(removed)

    def _remove_cached_block_hashes(self, block: EngineBlock) -> list[bytes]:
        removed = self.native.remove_block_hashes(block)
        self.native.take_removed()  # whoever calls this tells of them itself
        return removed

    def _insert_block_hash(
        self, block_hash_with_group_id: bytes, block: EngineBlock, num_tokens: int | None = None
    ) -> None:
        self.native.insert_block_hash(block_hash_with_group_id, block, num_tokens)
