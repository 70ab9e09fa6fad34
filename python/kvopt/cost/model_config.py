"""From a Hugging Face `config.json` to the geometry of the model."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from kvopt.cost.config_keys import ConfigKeys, read_config
from kvopt.cost.geometry import LayerGroup, ModelGeometry, kv_dtype_name
from kvopt.cost.layer_kinds import layers_of
from kvopt.cost.layer_shapes import HIDDEN_SIZE, QUERY_HEADS, dense_mlp, expert_mlp, mixer_shape
from kvopt.errors import ModelConfigError

_ORDER = ("full", "window", "chunk", "state")


def geometry_from_config(path: str | os.PathLike[str], kv_dtype: str | None = None) -> ModelGeometry:
    """The geometry of the model whose `config.json`, or folder with one, is at `path`.

    The KV cache is of the model's own 16-bit type unless `kv_dtype` names another. Raises ModelConfigError that names
    file and keys, ConfigError for an unknown `kv_dtype`, OSError when the file cannot be read.
    """
    config, file = read_config(path)
    return geometry_of(config, name=str(path), source=str(file), kv_dtype=kv_dtype)


def geometry_of(config: Mapping[str, Any], *, name: str, source: str, kv_dtype: str | None = None) -> ModelGeometry:
    """The geometry of the model that the keys of a `config.json` describe. Raises ModelConfigError, ConfigError."""
    keys = ConfigKeys(config, source)
    keys.require(
        HIDDEN_SIZE,
        QUERY_HEADS,
        ("num_hidden_layers", "n_layer", "num_layers", "layers_block_type", "layer_types", "hybrid_override_pattern"),
        ("vocab_size",),
    )
    for names in (HIDDEN_SIZE, QUERY_HEADS, ("vocab_size",)):
        if keys.count(*names) < 1:
            raise ModelConfigError(f"{source}: {names[0]} is below 1")
    if keys.flag("is_encoder_decoder"):
        raise ModelConfigError(f"{source}: is_encoder_decoder: only decoders keep a KV cache of their prompt")
    active = total = 0
    groups: Counter[LayerGroup] = Counter()
    for layer, count in Counter(layers_of(keys)).items():
        for mixer in layer.mixers:
            shape = mixer_shape(keys, mixer)
            active += count * shape.parameters
            total += count * shape.parameters
            groups[shape.group] += count
        if layer.mlp is not None:
            mlp = dense_mlp(keys) if layer.mlp == "dense" else expert_mlp(keys)
            active += count * mlp.active
            total += count * mlp.total
    head = keys.count("vocab_size") * keys.count(*HIDDEN_SIZE)
    total += head if keys.flag("tie_word_embeddings") else 2 * head
    return ModelGeometry(
        name=name,
        groups=tuple(
            replace(group, layers=count)
            for group, count in sorted(groups.items(), key=lambda item: _ORDER.index(item[0].kind))
        ),
        active_parameters=active + head,
        total_parameters=total,
        query_heads=keys.count(*QUERY_HEADS),
        kv_dtype=_own_dtype(keys) if kv_dtype is None else kv_dtype_name(kv_dtype),
        source=source,
    )


def _own_dtype(keys: ConfigKeys) -> str:
    # Engines serve a checkpoint of another type in 16 bits.
    return "fp16" if str(keys.get("dtype", "torch_dtype")).removeprefix("torch.") == "float16" else "bf16"
