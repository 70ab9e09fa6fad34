"""KVopt's policies in vLLM's CPU offload tier, as its ``CachePolicy`` (vLLM 0.27 and later).

In vLLM's own configuration, with the name of any policy of KVopt, and no plug-in needed::

    --kv-transfer-config '{"kv_connector": "OffloadingConnector", "kv_role": "kv_both", "kv_connector_extra_config":
      {"cpu_bytes_to_use": 8589934592, "eviction_policy": "cost-aware",
       "cache_policy_module_path": "kvopt.vllm.cache_policy"}}'

vLLM looks its own names up first, so ours for those are "kvopt:lru" and "kvopt:arc". Structure: the native pool of
engines, one block a chunk, each chunk by itself (the tier is not told which chunk stands before which). Cost: O(1) a
chunk, and what the policy takes; `evict` also passes over what is protected and what is empty.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from vllm.v1.kv_offload.cpu.policies.base import CachePolicy

from kvopt import _core
from kvopt.errors import ConfigError

_OWN = "kvopt:"


class NativeCachePolicy(CachePolicy):  # type: ignore[misc]
    """Chunks of the tier in the order of a KVopt policy; `policy` is set by the subclass that vLLM is given.

    The manager guarantees: a chunk is inserted where one is free, marked evictable once it is ready, and pinned while
    it is read.
    """

    policy = "lru"

    def __init__(self, cache_capacity: int) -> None:
        super().__init__(cache_capacity)
        self._chunks: dict[bytes, Any] = {}
        self._blocks: dict[bytes, Any] = {}
        self._keys: dict[int, bytes] = {}  # by block
        self._evictable: set[bytes] = set()
        self._pool = self._new_pool()

    def get(self, key: bytes) -> Any:
        """The chunk with this key, or None."""
        return self._chunks.get(key)

    def insert(self, key: bytes, chunk: Any, req_context: Any = None) -> None:
        """Take a chunk in that is being written; `req_context` since 0.33."""
        (block,) = self._pool.get_new_blocks(1)
        self._pool.insert_block_hash(bytes(key), block)
        self._chunks[key] = chunk
        self._blocks[key] = block
        self._keys[block.block_id] = key
        if chunk.ref_cnt == 0:
            self.mark_evictable(key)

    def remove(self, key: bytes) -> None:
        """Forget a chunk whose writing failed."""
        block = self._blocks.pop(key)
        del self._chunks[key], self._keys[block.block_id]
        self._pool.remove_block_hashes(block)
        if key in self._evictable:
            self._evictable.remove(key)
        else:
            self._pool.free_blocks([block])

    def touch(self, keys: Iterable[bytes], req_context: Any = None) -> None:
        """Count a use of these chunks, head first; those behind go first later."""
        blocks = [self._blocks[key] for key in keys if key in self._evictable]
        if blocks:
            self._pool.touch(blocks)
            self._pool.free_blocks(blocks[::-1])

    def on_store_miss(self, keys: Iterable[bytes], req_context: Any = None) -> None:
        """Tell the policy of content that a request had to make anew."""
        for key in keys:
            self._pool.note_miss(bytes(key))

    def on_request_access(self, keys: Iterable[bytes], req_context: Any = None) -> None:
        """Nothing: a request's uses are counted once, at its end."""

    def on_request_finished(
        self,
        key_groups: Sequence[Sequence[bytes]],
        insertion_only_keys: set[bytes],
        reused_keys: set[bytes],
        req_context: Any = None,
    ) -> None:
        """Count one use of what the request read; what it only wrote has its place already."""
        for keys in key_groups:
            self.touch((key for key in keys if key in reused_keys), req_context)

    def evict(self, n: int, protected: set[bytes]) -> list[tuple[bytes, Any]] | None:
        """The policy's choice of exactly `n` unprotected chunks; None, with nothing changed, where there are fewer."""
        if n == 0:
            return []
        guarded = [key for key in protected if key in self._evictable]
        if len(self._evictable) - len(guarded) < n:
            return None
        held = [self._blocks[key] for key in guarded]
        self._pool.touch(held, hit=False)
        empty = self.cache_capacity - len(self._blocks)
        taken = self._pool.get_new_blocks(empty + n)
        keys = [self._keys.pop(block.block_id) for block in taken if block.block_id in self._keys]
        self._pool.free_blocks(taken)
        self._pool.free_blocks(held[::-1])
        self._evictable.difference_update(keys)
        for key in keys:
            del self._blocks[key]
        return [(key, self._chunks.pop(key)) for key in keys]

    def clear(self) -> None:
        """Forget everything, learned or stored."""
        self._chunks.clear()
        self._blocks.clear()
        self._keys.clear()
        self._evictable.clear()
        self._pool = self._new_pool()

    def mark_evictable(self, key: bytes) -> None:
        """Nobody reads or writes the chunk any longer."""
        self._evictable.add(key)
        self._pool.free_blocks([self._blocks[key]])

    def mark_non_evictable(self, key: bytes) -> None:
        """Somebody reads the chunk."""
        self._evictable.remove(key)
        self._pool.touch([self._blocks[key]], hit=False)

    def _new_pool(self) -> Any:
        pool = _core.EnginePool(self.cache_capacity + 1, self.policy, block_tokens=1)
        for group in range(_MOST_GROUPS):
            pool.set_flat_group(group)
        return pool


_MOST_GROUPS = 16  # KV cache groups; more would only be ordered leaf first, which asks for nothing here
_classes: dict[str, type[NativeCachePolicy]] = {}


def __getattr__(name: str) -> Any:
    """The class for a policy's name, as vLLM asks the module for it. Raises AttributeError that lists the names."""
    spec = name.removeprefix(_OWN)
    try:
        policy, _ = _core.parse_policy(spec)
    except ConfigError as error:
        raise AttributeError(f"kvopt.vllm.cache_policy: {error}") from None
    if any(info.offline and info.name == policy for info in _core.policies()):
        raise AttributeError(f"kvopt.vllm.cache_policy: {name!r} needs to know the future; a server cannot run it")
    if spec not in _classes:
        _classes[spec] = type("NativeCachePolicy", (NativeCachePolicy,), {"policy": spec, "__module__": __name__})
    return _classes[spec]
