"""Sizes of memory, and how many KV-cache blocks one holds."""

from __future__ import annotations

import re
from decimal import Decimal

from kvopt.cost.geometry import ModelGeometry
from kvopt.errors import ConfigError

_UNITS = {"": 1, "B": 1} | {
    f"{prefix}{suffix}": base**power
    for power, prefix in enumerate("KMGTP", start=1)
    for suffix, base in (("B", 1000), ("IB", 1024))
}
_SIZE = re.compile(r"(\d+(?:\.\d+)?)\s*([a-z]*)", re.IGNORECASE | re.ASCII)


def parse_bytes(text: str) -> int:
    """Bytes of a size such as "40GiB" (powers of 1024), "24GB" (powers of 1000) or "1073741824".

    A fraction is rounded down to whole bytes. Raises ConfigError for anything else, and for 0.
    """
    match = _SIZE.fullmatch(text.strip())
    unit = match.group(2).upper() if match else ""
    if match is None or unit not in _UNITS:
        bare = unit if len(unit) == 1 and f"{unit}B" in _UNITS else "G"
        raise ConfigError(
            f"memory size {text!r}: write a number and a unit, such as 40{bare}iB, 24{bare}B, or plain bytes"
        )
    size = int(Decimal(match.group(1)) * _UNITS[unit])
    if size < 1:
        raise ConfigError(f"memory size {text!r}: must be at least 1 byte")
    return size


def blocks_in_memory(
    memory_bytes: int, model: ModelGeometry, block_tokens: int, context: int | None = None, *, tensor_parallel: int = 1
) -> int:
    """Whole blocks of `block_tokens` tokens that fit into `memory_bytes` of KV cache.

    A model with windows or states keeps less of a long context than of several short ones: `context` is the length of
    a typical one in tokens, by default the model's own. With `tensor_parallel` GPUs the memory is that of each.
    Raises ConfigError when not one block fits, `block_tokens` is below 1, or a context is needed and not named.
    """
    if block_tokens < 1:
        raise ConfigError(f"block_tokens: {block_tokens} is below 1")
    tokens = (model if context is None else model.at_context(context)).typical_context
    share = model.kv_bytes(tokens, tensor_parallel=tensor_parallel)
    if not share:
        raise ConfigError(f"{model.name} keeps nothing in a KV cache")
    blocks = memory_bytes * tokens // (share * block_tokens)
    if blocks < 1:
        raise ConfigError(
            f"memory: {memory_bytes} bytes hold no block; one block of {block_tokens} tokens of {model.name} "
            f"needs {-(-share * block_tokens // tokens)} bytes"
        )
    return blocks
