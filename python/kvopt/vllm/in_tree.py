"""What a patched vLLM (`kvopt vllm patch`) calls: each function takes what vLLM would use, and returns what it uses.

vLLM imports this while modules of its own are half imported, so all that needs vLLM is imported in the functions.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any


def engine_config(own: Any) -> Any:
    """The engine's configuration, looked at: a bad option of KVopt is an error now. Raises ConfigError."""
    from kvopt.vllm.plugin import configured

    configured(own)
    return own


def scheduler_class(own: Any) -> Any:
    """The scheduler's class with KVopt over it; without a configuration it makes an `own`."""
    from kvopt.vllm.scheduler import wrap

    return wrap(own)


def kv_cache_coordinator(own: Callable[..., Any]) -> Callable[..., Any]:
    """Who makes the coordinator of a KVCacheManager: `own`, or inside a scheduler of ours who gives it our pool."""
    from kvopt.vllm.install import coordinator_maker

    return coordinator_maker(own)


def block_pool(own: type[Any]) -> Callable[..., Any]:
    """Who makes the block pool of the coordinator that is being made."""
    from kvopt.vllm.install import pool_maker

    return pool_maker(own)


def block_hasher(own: Callable[..., Any], scheduler: Any) -> Callable[..., Any]:
    """Who makes the function that hashes the blocks of requests to this scheduler."""
    runtime = getattr(scheduler, "kvopt", None)
    if runtime is None or runtime.hashing != "native":
        return own
    from kvopt.vllm.hashing import get_request_block_hasher

    return functools.partial(get_request_block_hasher, own=own)


def metrics_registry(own: Any) -> Any:
    """A registry that /metrics is about to serve, with the engines' snapshots in it."""
    from kvopt.vllm.exporter import join_registry

    join_registry(own)
    return own
