"""A small model's `config.json`, and the parts that families of architectures add to it."""

from __future__ import annotations

from typing import Any

from kvopt.cost import ModelGeometry
from kvopt.cost.model_config import geometry_of

PLAIN = {
    "model_type": "llama",
    "hidden_size": 64,
    "intermediate_size": 256,
    "num_hidden_layers": 4,
    "num_attention_heads": 8,
    "num_key_value_heads": 2,
    "vocab_size": 100,
}
ATTENTION = 64 * (64 + 2 * 16) + 64 * 64  # queries, keys and values of 2 heads of 8, output
MLP = 3 * 64 * 256
HEAD = 64 * 100

ROUTED = {"num_experts": 8, "num_experts_per_tok": 2, "moe_intermediate_size": 32}
EXPERT, ROUTER = 3 * 64 * 32, 64 * 8

WINDOWED = {"sliding_window": 32, "max_position_embeddings": 1000, "num_hidden_layers": 6}

MAMBA2 = {"mamba_n_heads": 8, "mamba_d_head": "auto", "mamba_n_groups": 1, "mamba_d_state": 16, "mamba_d_conv": 4}
MAMBA2_MATRICES = 64 * (128 + 128 + 32 + 8) + 128 * 64  # gate, channels, B and C, steps; output
MAMBA2_STATE = 3 * (128 + 32) * 2 + 128 * 16 * 2  # three recent inputs of the convolution, and the state


def geometry(**change: Any) -> ModelGeometry:
    """The geometry of PLAIN with changes; "absent" leaves a key out."""
    config = {key: value for key, value in (PLAIN | change).items() if value != "absent"}
    return geometry_of(config, name="made", source="config.json")
