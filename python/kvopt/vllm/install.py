"""Where vLLM builds its block pool, let it build ours.

:func:`installed` covers what is built inside it (a Scheduler, a KVCacheManager). A patched vLLM asks the makers here;
in any other the names that it looks them up by are swapped, and restored at the end. Pools of other parts (offload,
connectors) stay vLLM's. :func:`unsupported` says what the pool does not cover: there vLLM's own is built.
"""

from __future__ import annotations

import functools
import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

from vllm.v1.core import kv_cache_coordinator, kv_cache_manager

from kvopt.vllm.adapter import OrderedBlockPool
from kvopt.vllm.bridge import NativeBlockPool
from kvopt.vllm.lookup import tell_misses, use_native_lookup
from kvopt.vllm.settings import PoolSettings
from kvopt.vllm.versions import HOOKS

logger = logging.getLogger("vllm.kvopt")

POLICIES_BY_ACCESS_ORDER = ("lru",)
"""Policies whose order of free blocks is fixed in advance, as walking the free queue requires."""

_asked: ContextVar[PoolSettings | None] = ContextVar(
    "settings for the pool of a manager that is built now", default=None
)
_settings: ContextVar[PoolSettings | None] = ContextVar("settings of the pool that is built now", default=None)


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
    with (
        _set(_asked, settings or PoolSettings()),
        _asking(kv_cache_manager, "get_kv_cache_coordinator", coordinator_maker),
    ):
        yield


def coordinator_maker(own: Callable[..., Any]) -> Callable[..., Any]:
    """Who makes a KVCacheManager's coordinator: `own` (vLLM's), or inside :func:`installed` one with our pool."""
    settings = _asked.get()
    if settings is None:
        return own

    def make_coordinator(kv_cache_config: Any, *args: Any, **kwargs: Any) -> Any:
        reasons = unsupported(kv_cache_config, policy=settings.policy)
        if reasons:
            logger.warning("KVopt: vLLM's own block pool is kept: %s", "; ".join(reasons))
            return own(kv_cache_config, *args, **kwargs)
        with _set(_settings, settings), _asking(kv_cache_coordinator, "BlockPool", pool_maker):
            coordinator = own(kv_cache_config, *args, **kwargs)
        if settings.pool == "native":
            use_native_lookup(coordinator)
        if settings.policy != "lru":
            tell_misses(coordinator)
        return coordinator

    return make_coordinator


def pool_maker(own: Callable[..., Any]) -> Callable[..., Any]:
    """Who makes a coordinator's block pool: `own` (vLLM's class), or ours for one of :func:`coordinator_maker`."""
    settings = _settings.get()
    if settings is None:
        return own
    return functools.partial(NativeBlockPool if settings.pool == "native" else OrderedBlockPool, settings=settings)


@contextmanager
def _set(variable: ContextVar[PoolSettings | None], value: PoolSettings) -> Iterator[None]:
    before = variable.set(value)
    try:
        yield
    finally:
        variable.reset(before)


@contextmanager
def _asking(module: Any, name: str, maker: Callable[..., Any]) -> Iterator[None]:
    """Let `module` find what `maker` makes of its `name` there; nothing to do where it asks by itself."""
    if hasattr(module, HOOKS):
        yield
        return
    own = getattr(module, name)
    setattr(module, name, maker(own))
    try:
        yield
    finally:
        setattr(module, name, own)
