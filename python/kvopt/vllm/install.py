"""Where vLLM builds its block pool, let it build ours.

:func:`installed` covers what is built inside it (a Scheduler, a KVCacheManager); the names of vLLM that it swaps are
restored at its end, so pools of other parts (offload, connectors) stay vLLM's. :func:`unsupported` says what the pool
does not cover: there vLLM's own is built.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from vllm.v1.core import kv_cache_coordinator, kv_cache_manager

from kvopt.vllm.adapter import OrderedBlockPool
from kvopt.vllm.bridge import NativeBlockPool
from kvopt.vllm.lookup import tell_misses, use_native_lookup
from kvopt.vllm.settings import PoolSettings

logger = logging.getLogger("vllm.kvopt")

POLICIES_BY_ACCESS_ORDER = ("lru",)
"""Policies whose order of free blocks is fixed in advance, as walking the free queue requires."""


def unsupported(kv_cache_config: Any, *, policy: Any = "lru", offload_walks_queue: bool = False) -> list[str]:
    """Return why vLLM's own pool must stay, one sentence a reason; empty when the native pool covers everything.

    Args:
        kv_cache_config: vLLM's KVCacheConfig.
        policy: as in PoolSettings.
        offload_walks_queue: whether a connector walks the free queue ahead of its use (lazy CPU offload).
    """
    reasons = []
    names = {type(group.kv_cache_spec).__name__ for group in kv_cache_config.kv_cache_groups}
    for name in sorted(names):
        if "HiSparse" in name:
            reasons.append(f"{name}: blocks are shared with a host pool of its own")
    if policy not in POLICIES_BY_ACCESS_ORDER:
        if "MambaSpec" in names:
            reasons.append("MambaSpec: states move between blocks, which a policy's tree of prefixes does not follow")
        if offload_walks_queue:
            reasons.append("lazy CPU offload walks the free queue ahead; only 'lru' has its order in advance")
    return reasons


@contextmanager
def installed(settings: PoolSettings | None = None) -> Iterator[None]:
    """Make every KVCacheManager that vLLM builds inside use the pool and order of these settings.

    Where :func:`unsupported` finds a reason, vLLM's pool is built, and one warning names it.
    """
    settings = settings or PoolSettings()
    own_coordinator = kv_cache_manager.get_kv_cache_coordinator
    own_pool = kv_cache_coordinator.BlockPool

    pool_class = NativeBlockPool if settings.pool == "native" else OrderedBlockPool

    def make_pool(*args: Any, **kwargs: Any) -> Any:
        return pool_class(*args, settings=settings, **kwargs)

    def make_coordinator(kv_cache_config: Any, *args: Any, **kwargs: Any) -> Any:
        reasons = unsupported(kv_cache_config, policy=settings.policy)
        if reasons:
            logger.warning("KVopt: vLLM's own block pool is kept: %s", "; ".join(reasons))
            return own_coordinator(kv_cache_config, *args, **kwargs)
        kv_cache_coordinator.BlockPool = make_pool
        try:
            coordinator = own_coordinator(kv_cache_config, *args, **kwargs)
        finally:
            kv_cache_coordinator.BlockPool = own_pool
        if settings.pool == "native":
            use_native_lookup(coordinator)
        if settings.policy != "lru":
            tell_misses(coordinator)
        return coordinator

    kv_cache_manager.get_kv_cache_coordinator = make_coordinator
    try:
        yield
    finally:
        kv_cache_manager.get_kv_cache_coordinator = own_coordinator
