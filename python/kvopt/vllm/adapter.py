"""vLLM's own block pool with another order of victims: `"pool": "vllm"`.

:class:`OrderedBlockPool` keeps vLLM's blocks, reference counts and hash map. Only its free queue is replaced: an
EnginePool beside it holds the order, and is told what becomes free, held, cached and dropped. Slower than the native
pool; for what that does not cover, and to tell which of the two is at fault.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from vllm.v1.core import block_pool

from kvopt._core import EnginePool
from kvopt.vllm.settings import PoolSettings
from kvopt.vllm.told_policy import ToldPolicy


class PolicyFreeQueue:
    """vLLM's FreeKVCacheBlockQueue in the order of an EnginePool, whose blocks have one reference while they are out.

    Raises the pool's errors: NotEnoughBlocksError, and ReferenceCountError for a block that is in the queue already.
    """

    def __init__(self, blocks: list[Any], order: EnginePool) -> None:
        self._blocks = blocks
        self._order = order
        self._in_order = order.blocks

    @property
    def num_free_blocks(self) -> int:
        """Blocks in the queue."""
        return self._order.get_num_free_blocks()

    def popleft(self) -> Any:
        """Take the next block."""
        return self.popleft_n(1)[0]

    def popleft_n(self, n: int) -> list[Any]:
        """Take the next n blocks."""
        return [self._blocks[b.block_id] for b in self._order.get_new_blocks(n)]

    def remove(self, block: Any) -> None:
        """Take a block from wherever it is."""
        self._order.touch([self._in_order[block.block_id]], hit=False)

    def append(self, block: Any) -> None:
        """Put a block back."""
        self.append_n([block])

    def append_n(self, blocks: Sequence[Any]) -> None:
        """Put blocks back, the first to go first of them."""
        self._order.free_last([self._in_order[b.block_id] for b in blocks])

    def prepend_n(self, blocks: Sequence[Any]) -> None:
        """Put blocks that hold nothing back, to go before all others."""
        self._order.free_blocks([self._in_order[b.block_id] for b in blocks])

    def get_all_free_blocks(self) -> list[Any]:
        """Return the blocks in the order in which they go."""
        return [self._blocks[b.block_id] for b in self._order.free_order()]

    def iter_blocks_after(self, cursor: Any | None) -> Iterator[Any]:
        """Walk them in that order, from behind the cursor."""
        ids = [b.block_id for b in self._order.free_order()]
        start = 0 if cursor is None else ids.index(cursor.block_id) + 1
        return iter([self._blocks[i] for i in ids[start:]])


class OrderedBlockPool(ToldPolicy, block_pool.BlockPool):  # type: ignore[misc]
    """vLLM's BlockPool whose victims a KVopt policy chooses."""

    def __init__(self, *args: Any, settings: PoolSettings | None = None, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        settings = settings or PoolSettings()
        self.order = EnginePool(
            self.num_gpu_blocks,
            settings.policy,
            caching=self.enable_caching,
            block_tokens=self.hash_block_size,
            p_star=settings.p_star,
            clock=settings.clock,
        )
        self._tell(self.order)
        self.free_block_queue = PolicyFreeQueue(self.blocks, self.order)
        self._caching_full_blocks = False  # the order is told of all of them at once, not of each

    def get_new_blocks(self, num_blocks: int) -> list[Any]:
        """Hand out free blocks, those that the policy chooses."""
        self._tell_miss()
        blocks: list[Any] = super().get_new_blocks(num_blocks)
        self._say_failure()
        return blocks

    def touch(self, blocks: Sequence[Any]) -> None:
        """Add a reference to each block; the order hears of the request as a whole."""
        mirrored = [self.order.blocks[b.block_id] for b in blocks if not b.is_null]
        self.order.touch(mirrored)
        for block, mirror in zip([b for b in blocks if not b.is_null], mirrored, strict=True):
            mirror.ref_cnt = 1
            block.ref_cnt += 1
            if self.metrics_collector is not None:
                self.metrics_collector.on_block_accessed(block)

    def cache_full_blocks(
        self,
        request: Any,
        blocks: list[Any],
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
        masked = {} if block_mask is None else {"block_mask": block_mask}
        self._caching_full_blocks = True
        try:
            super().cache_full_blocks(
                request, blocks, num_cached_blocks, num_full_blocks, block_size, kv_cache_group_id, **masked
            )
        finally:
            self._caching_full_blocks = False
        self.order.cache_full_blocks(
            request.block_hashes,
            [self.order.blocks[b.block_id] for b in blocks[:num_full_blocks]],
            num_cached_blocks,
            num_full_blocks,
            block_size,
            kv_cache_group_id,
            block_size // self.hash_block_size,
            block_mask,
        )

    def reset_prefix_cache(self) -> bool:
        """Drop all content. False while blocks are held."""
        return bool(super().reset_prefix_cache()) and self.order.reset_prefix_cache()

    def _remove_cached_block_hashes(self, block: Any) -> list[bytes]:
        removed: list[bytes] = super()._remove_cached_block_hashes(block)
        self.order.remove_block_hashes(self.order.blocks[block.block_id])
        return removed

    def _insert_block_hash(self, block_hash_with_group_id: bytes, block: Any, num_tokens: int | None = None) -> None:
        super()._insert_block_hash(block_hash_with_group_id, block, num_tokens)
        if self._caching_full_blocks:
            return
        self.order.insert_block_hash(block_hash_with_group_id, self.order.blocks[block.block_id], num_tokens)
