"""Which block pool, block hashes and policy an engine gets: ours where they cover it, else vLLM's own, and why."""

from __future__ import annotations

import importlib
import importlib.util
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from kvopt.errors import ConfigError
from kvopt.vllm.config import Config


@dataclass(frozen=True, slots=True)
class PoolChoice:
    """What an engine's blocks live in: "native", "vllm" with our order ("ordered"), or vLLM's own ("vllm").

    `reasons` say why it is not what was asked for; empty when it is.
    """

    kind: str
    reasons: tuple[str, ...] = ()


def choose_pool(config: Config, vllm_config: Any, kv_cache_config: Any) -> PoolChoice:
    """The pool for this engine. Raises ConfigError, with `strict`, where it is not the one that was asked for."""
    if config.pool == "off":
        return PoolChoice("vllm")
    reasons: list[str] = []
    if not vllm_config.cache_config.enable_prefix_caching:
        reasons.append("prefix caching is off")
    elif (install := _bridge("install")) is None:
        reasons.append("this build has no pool of its own")
    else:
        walks = _walks_queue(vllm_config)
        reasons += install.unsupported(kv_cache_config, policy=config.policy, offload_walks_queue=walks)
    if reasons and config.strict:
        raise ConfigError(f"{config.source}.strict: pool {config.pool!r} is not to be had: {'; '.join(reasons)}")
    if reasons:
        return PoolChoice("vllm", tuple(reasons))
    return PoolChoice("native" if config.pool == "native" else "ordered")


@contextmanager
def pool_for(config: Config, vllm_config: Any, kv_cache_config: Any) -> Iterator[PoolChoice]:
    """While the block runs, vLLM's coordinator builds the pool of :func:`choose_pool`."""
    choice = choose_pool(config, vllm_config, kv_cache_config)
    if choice.kind == "vllm":
        yield choice
        return
    settings = _bridge("settings").PoolSettings(policy=load_policy(config.policy), pool=config.pool)
    with _bridge("install").installed(settings):
        yield choice


def hash_natively() -> bool:
    """Let the engine core that is being built hash blocks natively; false where this build cannot.

    The core asks for its hash function right after its scheduler is made; the swap undoes itself then.
    """
    core: Any = sys.modules.get("vllm.v1.engine.core")
    hashing = _bridge("hashing")
    if core is None or hashing is None:
        return False
    own = core.get_request_block_hasher

    def make(*args: Any, **kwargs: Any) -> Any:
        core.get_request_block_hasher = own
        return hashing.get_request_block_hasher(*args, own=own, **kwargs)

    core.get_request_block_hasher = make
    return True


def load_policy(spec: str) -> Any:
    """A policy's spec as it is, or a new object of the class that "file.py:Class" names. Raises as the loader does."""
    if ".py:" not in spec:
        return spec
    from kvopt.policies.python_file import load_policy as load

    found = load(spec)
    return found() if isinstance(found, type) else found


def _walks_queue(vllm_config: Any) -> bool:
    """Whether a connector walks the free queue ahead of its use, as vLLM's lazy CPU offload does."""
    transfer = getattr(vllm_config, "kv_transfer_config", None)
    if transfer is None or "SimpleCPUOffload" not in str(getattr(transfer, "kv_connector", "")):
        return False
    extra = getattr(transfer, "kv_connector_extra_config", None) or {}
    return bool(extra.get("lazy_offload", False))


def _bridge(name: str) -> Any:
    """A module of the native pool; None in a build without it."""
    full = f"kvopt.vllm.{name}"
    return importlib.import_module(full) if importlib.util.find_spec(full) is not None else None
