"""Which mixer and which MLP each layer of a model has, from the keys of its config.

Mixers: full attention, attention under a sliding window or in chunks, a recurrent state (Mamba or linear attention), or
attention and a state side by side. MLPs: one for all tokens, a mixture of experts, or none.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from kvopt.cost.config_keys import ConfigKeys
from kvopt.errors import ModelConfigError

Mixer = Literal["full", "window", "chunk", "state"]
Mlp = Literal["dense", "experts"]

EXPERT_COUNT = ("num_local_experts", "num_experts", "n_routed_experts", "moe_num_experts")
MOST_LAYERS = 10_000
WINDOW = ("sliding_window", "sliding_window_size")

_FULL: tuple[Mixer, ...] = ("full",)
_WINDOW: tuple[Mixer, ...] = ("window",)
_CHUNK: tuple[Mixer, ...] = ("chunk",)
_STATE: tuple[Mixer, ...] = ("state",)

_MIXERS: dict[str, tuple[Mixer, ...]] = {
    "full_attention": ("full",),
    "attention": ("full",),
    "sliding_attention": ("window",),
    "chunked_attention": ("chunk",),
    "linear_attention": ("state",),
    "mamba": ("state",),
    "mamba2": ("state",),
    "hybrid": ("full", "state"),
    "mlp": (),
    "moe": (),
}
_PATTERN_LETTERS = {"*": "attention", "M": "mamba", "-": "mlp", "E": "moe"}  # NemotronHConfig.hybrid_override_pattern

_WITHOUT_GATE = (
    "bloom",
    "falcon",
    "gpt2",
    "gpt_bigcode",
    "gpt_neox",
    "gptj",
    "mpt",
    "nemotron",
    "nemotron_h",
    "opt",
    "phi",
)
"""Model types whose MLP has two matrices: up and down, no gate."""


@dataclass(frozen=True, slots=True)
class Layer:
    """What one layer has: its mixers, and its MLP if any."""

    mixers: tuple[Mixer, ...]
    mlp: Mlp | None


def layers_of(keys: ConfigKeys) -> list[Layer]:
    """All layers, first to last. Raises ModelConfigError for kinds and patterns that are unknown or contradict."""
    names = _named_kinds(keys)
    if names is None:
        count = keys.count("num_hidden_layers", "n_layer", "num_layers")
        if not 1 <= count <= MOST_LAYERS:
            raise ModelConfigError(f"{keys.where}: {count} layers are not from 1 to {MOST_LAYERS}")
        mixers = _derived_mixers(keys, count)
        return [Layer(each, _mlp(keys, number)) for number, each in enumerate(mixers)]
    unknown = sorted({name for name in names if name not in _MIXERS})
    if unknown:
        kinds = ", ".join(map(repr, unknown))
        raise ModelConfigError(f"{keys.where}: layers of kind {kinds} are not modelled; known: {', '.join(_MIXERS)}")
    if any(name in ("mlp", "moe") for name in names):  # then an MLP is a layer of its own
        alone: dict[str, Mlp] = {"mlp": "dense", "moe": "experts"}
        return [Layer(_MIXERS[name], alone.get(name)) for name in names]
    return [Layer(_MIXERS[name], _mlp(keys, number)) for number, name in enumerate(names)]


def mlp_matrices(keys: ConfigKeys) -> int:
    """Matrices of an MLP: gate, up and down, or two without a gate."""
    return 2 if keys.model_type in _WITHOUT_GATE or keys.get("mlp_hidden_act") == "relu2" else 3


def _named_kinds(keys: ConfigKeys) -> list[str] | None:
    pattern = keys.get("hybrid_override_pattern")
    if isinstance(pattern, str):
        unknown = sorted(set(pattern) - set(_PATTERN_LETTERS))
        if unknown:
            raise keys.error("hybrid_override_pattern", f"has letters besides {''.join(_PATTERN_LETTERS)}")
        return [_PATTERN_LETTERS[letter] for letter in pattern]
    for name in ("layer_types", "layers_block_type"):
        kinds = keys.get(name)
        if kinds is None:
            continue
        if not isinstance(kinds, list) or not kinds or not all(isinstance(kind, str) for kind in kinds):
            raise keys.error(name, "is not a list of layer kinds")
        count = keys.count("num_hidden_layers", default=None)
        if count is not None and count != len(kinds):
            raise ModelConfigError(f"{keys.where}: {name} has {len(kinds)} layers, but num_hidden_layers = {count}")
        return kinds
    return None


def _derived_mixers(keys: ConfigKeys, count: int) -> list[tuple[Mixer, ...]]:
    numbers = range(count)
    if keys.model_type == "falcon_h1":
        return [("full", "state")] * count
    if keys.has("attn_layer_period"):
        period, offset = keys.count("attn_layer_period"), keys.count("attn_layer_offset", default=0)
        if not offset < period:
            raise keys.error("attn_layer_offset", f"is not below attn_layer_period = {period}")
        return [_FULL if number % period == offset else _STATE for number in numbers]
    if keys.has("attn_layer_indices"):
        attention = set(keys.indices("attn_layer_indices"))
        return [_FULL if number in attention else _STATE for number in numbers]
    if keys.has("full_attention_interval"):
        return _every(keys, "full_attention_interval", count, _FULL, _STATE)
    if keys.has("attention_chunk_size"):
        rope = keys.indices("no_rope_layers")
        if rope and len(rope) != count:
            raise keys.error("no_rope_layers", f"has {len(rope)} layers, not {count}")
        if rope:
            return [_CHUNK if with_rope else _FULL for with_rope in rope]
        return _every(keys, "no_rope_layer_interval", count, _FULL, _CHUNK)
    used = keys.flag("use_sliding_window", default=not keys.model_type.startswith("qwen"))
    if not used or not keys.has(*WINDOW):
        return [_FULL] * count
    pattern = keys.get("sliding_window_pattern")
    if isinstance(pattern, str):
        if not pattern or set(pattern) - {"L", "G"}:
            raise keys.error("sliding_window_pattern", "is not made of L (local) and G (global)")
        return [_WINDOW if pattern[number % len(pattern)] == "L" else _FULL for number in numbers]
    if pattern is not None:
        return _every(keys, "sliding_window_pattern", count, _FULL, _WINDOW)
    first = keys.count("max_window_layers", default=0)
    return [_WINDOW if number >= first else _FULL for number in numbers]


def _every(
    keys: ConfigKeys, name: str, count: int, last: tuple[Mixer, ...], others: tuple[Mixer, ...]
) -> list[tuple[Mixer, ...]]:
    period = keys.count(name)
    if period < 1:
        raise keys.error(name, "is below 1")
    return [others if (number + 1) % period else last for number in range(count)]


def _mlp(keys: ConfigKeys, number: int) -> Mlp:
    if keys.count(*EXPERT_COUNT, default=0) <= 1 or number in keys.indices("mlp_only_layers"):
        return "dense"
    if number < keys.count("first_k_dense_replace", "moe_layer_start_index", default=0):
        return "dense"
    if keys.has("moe_layers"):
        return "experts" if number in keys.indices("moe_layers") else "dense"
    if isinstance(keys.get("moe_layer_freq"), list):
        frequency = keys.indices("moe_layer_freq")
        if number >= len(frequency):
            raise keys.error("moe_layer_freq", f"says nothing of layer {number}")
        return "experts" if frequency[number] else "dense"
    for name, offset in (
        ("moe_layer_freq", 0),
        ("decoder_sparse_step", -1),
        ("interleave_moe_layer_step", -1),
        ("expert_layer_period", keys.count("expert_layer_offset", default=0)),
    ):
        if keys.has(name):
            period = max(keys.count(name), 1)
            return "experts" if number % period == offset % period else "dense"
    return "experts"
