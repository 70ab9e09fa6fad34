"""What vLLM asks of the parts of its block pool (free queue, hash maps), answered by the native pool."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from kvopt._core import EngineBlock, EnginePool


class FreeQueueView:
    """What others may ask vLLM's free queue."""

    def __init__(self, native: EnginePool) -> None:
        self._native = native

    @property
    def num_free_blocks(self) -> int:
        """Blocks that nobody holds."""
        return self._native.get_num_free_blocks()

    def get_all_free_blocks(self) -> list[EngineBlock]:
        """Return them in the order in which they go."""
        return self._native.free_order()

    def iter_blocks_after(self, cursor: EngineBlock | None) -> Iterator[EngineBlock]:
        """Walk them in that order, from behind the cursor."""
        blocks = self._native.free_order()
        return iter(blocks if cursor is None else blocks[blocks.index(cursor) + 1 :])


class BlockMapView:
    """vLLM's map from keys to blocks, over the native index."""

    def __init__(self, native: EnginePool) -> None:
        self._native = native
        self.get_one_block = native.find
        self.contain = native.carries

    def insert(self, key: bytes, block: EngineBlock) -> None:
        """Give the block one more key."""
        self._native.insert_block_hash(key, block)

    def __len__(self) -> int:
        return self._native.num_keys


class MoreHashesView:
    """vLLM's map from block ids to the keys of a block but its first."""

    def __init__(self, native: EnginePool) -> None:
        self._native = native

    def get(self, block_id: int, default: Any = None) -> Any:
        """Return the set of keys, or the default when there are none."""
        return self._native.more_block_hashes(block_id) or default

    def __contains__(self, block_id: int) -> bool:
        return bool(self._native.more_block_hashes(block_id))
