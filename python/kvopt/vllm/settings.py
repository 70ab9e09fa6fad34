"""How the block pool of a vLLM engine is made."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal, get_args

from kvopt.errors import ConfigError

PoolKind = Literal["native", "vllm"]


@dataclass(frozen=True)
class PoolSettings:
    """The order of victims, and whose pool it works in. Raises ConfigError for an unknown pool.

    Args:
        policy: a spec such as "cost-aware", or a new policy object; "lru" is vLLM's own order, block for block.
        pool: "native": ours instead of vLLM's; "vllm": vLLM's own with our order.
        p_star: tokens; the position where attention doubles a token's prefill time.
        clock: seconds, never going back.
    """

    policy: Any = "lru"
    pool: PoolKind = "native"
    p_star: float = 28_600.0
    clock: Callable[[], float] = time.monotonic

    def __post_init__(self) -> None:
        if self.pool not in get_args(PoolKind):
            raise ConfigError(f"pool is {self.pool!r}; it must be one of {', '.join(get_args(PoolKind))}")
