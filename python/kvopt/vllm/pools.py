"""Which block pool, block hashes and policy an engine gets: ours where they cover it, else vLLM's own, and why."""

from __future__ import annotations

import math
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from kvopt.cost import DEFAULT_P_STAR
from kvopt.errors import ConfigError
from kvopt.vllm.config import Config
from kvopt.vllm.hashing import get_request_block_hasher
from kvopt.vllm.install import installed, unsupported
from kvopt.vllm.settings import PoolKind, PoolSettings
from kvopt.vllm.versions import HOOKS


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
    else:
        walks = _walks_queue(vllm_config)
        reasons += unsupported(kv_cache_config, policy=config.policy, offload_walks_queue=walks)
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
    kind: PoolKind = "native" if choice.kind == "native" else "vllm"
    with installed(PoolSettings(policy=load_policy(config.policy), pool=kind, p_star=_p_star(config))):
        yield choice


def hash_natively() -> bool:
    """Let the engine core that is being built hash blocks natively; false where none is.

    The core asks for its hash function right after its scheduler is made; the swap undoes itself then. The core of a
    patched vLLM looks at its scheduler instead.
    """
    core: Any = sys.modules.get("vllm.v1.engine.core")
    if core is None or hasattr(core, HOOKS):
        return core is not None
    own = core.get_request_block_hasher

    def make(*args: Any, **kwargs: Any) -> Any:
        core.get_request_block_hasher = own
        return get_request_block_hasher(*args, own=own, **kwargs)

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


def _p_star(config: Config) -> float:
    """Where attention doubles a token's cost, in tokens, by the configured prefill or by default."""
    known = config.prefill is not None and math.isfinite(config.prefill.p_star)
    return config.prefill.p_star if known and config.prefill is not None else DEFAULT_P_STAR
