"""The longest cached prefix in one native call, for groups with full attention; other groups look up as vLLM does."""

from __future__ import annotations

from typing import Any

from vllm.v1.core.single_type_kv_cache_manager import FullAttentionManager

GROUP_0 = bytes(4)


def looks_up_whole_prefixes(manager_cls: type[Any]) -> bool:
    """Whether a hit of this manager is an unbroken chain from the first block on, looked up as full attention does."""
    lookup = getattr(manager_cls.find_longest_cache_hit, "__func__", None)
    return lookup is FullAttentionManager.find_longest_cache_hit.__func__


def native_lookup(manager_cls: type[Any]) -> type[Any]:
    """Return the manager class with a native find_longest_cache_hit; what that does not cover is vLLM's still."""

    def find_longest_cache_hit(
        _cls: type[Any],
        /,
        block_hashes: Any,
        max_length: int,
        kv_cache_group_ids: list[int],
        block_pool: Any,
        kv_cache_spec: Any,
        drop_eagle_block: bool,
        alignment_tokens: int,
        dcp_world_size: int = 1,
        **rest: Any,
    ) -> tuple[tuple[list[Any], ...], int]:
        block_size = kv_cache_spec.block_size * max(dcp_world_size, 1)
        scale, odd = divmod(block_size, block_pool.hash_block_size)
        if type(block_hashes) is not list or alignment_tokens % block_size or odd:  # hits may end inside a block
            found: tuple[tuple[list[Any], ...], int] = manager_cls.find_longest_cache_hit(
                block_hashes=block_hashes,
                max_length=max_length,
                kv_cache_group_ids=kv_cache_group_ids,
                block_pool=block_pool,
                kv_cache_spec=kv_cache_spec,
                drop_eagle_block=drop_eagle_block,
                alignment_tokens=alignment_tokens,
                dcp_world_size=dcp_world_size,
                **rest,
            )
            return found
        blocks = block_pool.native.longest_hit(block_hashes, kv_cache_group_ids, max_length // block_size, scale)
        hit = len(blocks[0])
        length = hit * block_size
        if drop_eagle_block and hit:
            length -= block_size
        length -= length % alignment_tokens
        for of_group in blocks:
            del of_group[-(-length // block_size) :]
        return blocks, length

    return type(
        "Native" + manager_cls.__name__, (manager_cls,), {"find_longest_cache_hit": classmethod(find_longest_cache_hit)}
    )


def use_native_lookup(coordinator: Any) -> None:
    """Let a coordinator that was built on a native pool look prefixes up natively, and tell the pool of its groups."""
    pool = coordinator.block_pool
    lookups: dict[type[Any], type[Any]] = {}
    for group_id, manager in enumerate(coordinator.single_type_managers):
        if manager.block_pool is not pool:
            continue
        manager._get_num_evictable_blocks = pool.native.count_free
        manager_cls = type(manager)
        if not looks_up_whole_prefixes(manager_cls):
            pool.native.set_flat_group(group_id)
            continue
        lookups.setdefault(manager_cls, native_lookup(manager_cls))
        manager.find_longest_cache_hit = lookups[manager_cls].find_longest_cache_hit
    groups = getattr(coordinator, "attention_groups", None)
    if groups is not None:
        coordinator.attention_groups = [
            group._replace(manager_cls=lookups.get(group.manager_cls, group.manager_cls)) for group in groups
        ]


def tell_misses(coordinator: Any) -> None:
    """Let the pool know what a request looked up and did not find: some policies remember what they evicted."""
    pool = coordinator.block_pool
    look_up = coordinator.find_longest_cache_hit

    def find_longest_cache_hit(block_hashes: Any, *args: Any, **kwargs: Any) -> Any:
        answer = look_up(block_hashes, *args, **kwargs)
        missed = answer[1] // pool.hash_block_size
        pool.expect_miss(block_hashes[missed] + GROUP_0 if missed < len(block_hashes) else None)
        return answer

    coordinator.find_longest_cache_hit = find_longest_cache_hit
