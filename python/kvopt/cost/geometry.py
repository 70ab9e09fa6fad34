"""KV-cache memory of known models, and how many blocks a memory size holds.

Only models whose cache grows by a constant number of bytes with every token are listed; a sliding window or a
state-space layer breaks that, so those models have no single figure.
"""

from __future__ import annotations

import difflib
import re
from dataclasses import dataclass
from decimal import Decimal

from kvopt.errors import ConfigError


@dataclass(frozen=True, slots=True)
class ModelGeometry:
    """What one token of context occupies in a model's KV cache.

    `layers` attention layers each keep `values_per_layer` numbers of `bytes_per_value` bytes a token. `p_star` is the
    position, in tokens, where attention doubles a token's prefill cost. `source` says where the shape is from.
    """

    name: str
    layers: int
    values_per_layer: int
    bytes_per_value: int
    p_star: float
    source: str

    @property
    def bytes_per_token(self) -> int:
        """KV-cache bytes of one token over all layers."""
        return self.layers * self.values_per_layer * self.bytes_per_value

    def bytes_per_block(self, block_tokens: int) -> int:
        """KV-cache bytes of one block of `block_tokens` tokens."""
        return self.bytes_per_token * block_tokens


def _grouped(name: str, layers: int, kv_heads: int, head_dim: int, p_star: float, source: str) -> ModelGeometry:
    shape = f"{source}: {layers} layers, {kv_heads} KV heads of {head_dim}, keys and values in BF16"
    return ModelGeometry(name, layers, 2 * kv_heads * head_dim, 2, p_star, shape)


def _latent(name: str, layers: int, latent: int, rope: int, p_star: float, source: str) -> ModelGeometry:
    shape = f"{source}: {layers} layers, one latent of {latent} + {rope} (MLA) in BF16"
    return ModelGeometry(name, layers, latent + rope, 2, p_star, shape)


MODELS: dict[str, ModelGeometry] = {
    model.name: model
    for model in (
        _grouped("llama-3.1-8b", 32, 8, 128, 28_600.0, "config.json of Llama-3.1-8B"),
        _grouped("llama-3.1-70b", 80, 8, 128, 53_000.0, "config.json of Llama-3.1-70B"),
        _grouped("qwen3-30b-a3b", 48, 4, 128, 7_600.0, "config.json of Qwen3-30B-A3B"),
        _latent("deepseek-v3", 61, 512, 64, 14_600.0, "config.json of DeepSeek-V3"),
    )
}
"""The presets by name. The p* column counts one GPU's worth of each model, prefill in the plain (non-absorbed) form."""

_UNITS = {"": 1, "B": 1} | {
    f"{prefix}{suffix}": base**power
    for power, prefix in enumerate("KMGTP", start=1)
    for suffix, base in (("B", 1000), ("IB", 1024))
}
_SIZE = re.compile(r"(\d+(?:\.\d+)?)\s*([a-z]*)", re.IGNORECASE | re.ASCII)


def model_geometry(name: str) -> ModelGeometry:
    """The preset of this name (any case); ConfigError names the nearest one when there is none."""
    found = MODELS.get(name.strip().lower())
    if found is not None:
        return found
    near = difflib.get_close_matches(name.strip().lower(), MODELS, n=1, cutoff=0.4)
    hint = f"did you mean {near[0]!r}? " if near else ""
    raise ConfigError(f"unknown model {name!r}: {hint}known: {', '.join(MODELS)}")


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


def blocks_in_memory(memory_bytes: int, model: ModelGeometry, block_tokens: int) -> int:
    """Whole blocks of `block_tokens` tokens that fit into `memory_bytes` of KV cache.

    Raises ConfigError when not one block fits or `block_tokens` is below 1.
    """
    if block_tokens < 1:
        raise ConfigError(f"block_tokens: {block_tokens} is below 1")
    block_bytes = model.bytes_per_block(block_tokens)
    blocks = memory_bytes // block_bytes
    if blocks < 1:
        raise ConfigError(
            f"memory: {memory_bytes} bytes hold no block; one block of {block_tokens} tokens of {model.name} "
            f"needs {block_bytes} bytes"
        )
    return blocks
