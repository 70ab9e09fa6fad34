"""Geometries from `config.json`: each family of architectures against its shape by hand, and what is refused."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from kvopt.cost import MODELS, LayerGroup, model_geometry
from kvopt.cost.model_config import geometry_of
from made_configs import (
    ATTENTION,
    EXPERT,
    HEAD,
    MAMBA2,
    MAMBA2_MATRICES,
    MAMBA2_STATE,
    MLP,
    PLAIN,
    ROUTED,
    ROUTER,
    WINDOWED,
    geometry,
)


def test_a_dense_model_with_grouped_queries() -> None:
    made = geometry()
    assert made.groups == (LayerGroup("full", 4, kv_heads=2, values_per_head=16, pair_flops=4 * 64),)
    assert made.active_parameters == 4 * (ATTENTION + MLP) + HEAD
    assert made.total_parameters == made.active_parameters + HEAD
    assert made.bytes_per_token == 4 * 2 * 16 * 2
    assert geometry(tie_word_embeddings=True).total_parameters == made.active_parameters


def test_query_heads_may_be_as_many_keys_or_share_one() -> None:
    assert geometry(num_key_value_heads=None).groups[0].kv_heads == 8
    assert geometry(num_key_value_heads="absent", multi_query=True, model_type="falcon").groups[0].kv_heads == 1
    assert geometry(head_dim=32).groups[0].values_per_head == 64


def test_an_mlp_without_gate_has_two_matrices() -> None:
    assert geometry(model_type="gpt_neox").active_parameters == 4 * (ATTENTION + 2 * 64 * 256) + HEAD


def test_gpt2_names() -> None:
    config = {"model_type": "gpt2", "n_embd": 64, "n_layer": 2, "n_head": 8, "vocab_size": 100, "n_inner": None}
    made = geometry_of(config, name="gpt2", source="gpt2")
    assert made.active_parameters == 2 * (4 * 64 * 64 + 2 * 64 * 256) + HEAD


@pytest.mark.parametrize(
    ("change", "moe_layers", "always"),
    [
        ({}, 4, 0),
        ({"first_k_dense_replace": 1, "n_shared_experts": 2}, 3, 2 * EXPERT),
        ({"shared_expert_intermediate_size": 100}, 4, 3 * 64 * 100),
        ({"decoder_sparse_step": 2}, 2, 0),
        ({"mlp_only_layers": [0, 3]}, 2, 0),
        ({"expert_layer_period": 4, "expert_layer_offset": 1}, 1, 0),
        ({"moe_layers": [2]}, 1, 0),
        ({"moe_layer_freq": [0, 1, 1, 0]}, 2, 0),
        ({"moe_layer_freq": 3}, 2, 0),
        ({"interleave_moe_layer_step": 3}, 1, 0),
    ],
)
def test_a_token_passes_its_experts_and_the_shared_ones(change: dict[str, Any], moe_layers: int, always: int) -> None:
    made = geometry(**ROUTED, **change)
    rest = 4 * ATTENTION + (4 - moe_layers) * MLP + HEAD
    assert made.active_parameters == rest + moe_layers * (2 * EXPERT + ROUTER + always)
    assert made.total_parameters == rest + HEAD + moe_layers * (8 * EXPERT + ROUTER + always)


def test_experts_of_mixtral_have_the_plain_size() -> None:
    made = geometry(model_type="mixtral", num_local_experts=4, num_experts_per_tok=1)
    assert made.active_parameters == 4 * (ATTENTION + MLP + 64 * 4) + HEAD


@pytest.mark.parametrize("low_rank", [None, 24])
def test_latent_attention_keeps_a_latent_and_a_rotary_key(low_rank: int | None) -> None:
    latent = {
        "kv_lora_rank": 16,
        "q_lora_rank": low_rank,
        "qk_rope_head_dim": 4,
        "qk_nope_head_dim": 8,
        "v_head_dim": 6,
    }
    made = geometry(model_type="deepseek_v2", **latent)
    queries = 64 * 8 * 12 if low_rank is None else 64 * 24 + 24 * 8 * 12
    attention = queries + 64 * (16 + 4) + 16 * 8 * (8 + 6) + 8 * 6 * 64
    assert made.active_parameters == 4 * (attention + MLP) + HEAD
    assert made.groups == (LayerGroup("full", 4, kv_heads=1, values_per_head=20, pair_flops=2 * 8 * (12 + 6)),)


@pytest.mark.parametrize(
    ("change", "full"),
    [
        ({"model_type": "mistral"}, 0),  # Mistral 7B v0.1: every layer
        ({"model_type": "mistral", "sliding_window": None}, 6),
        ({"model_type": "mistral", "sliding_window": 1000}, 6),  # no context is longer
        ({"model_type": "qwen2", "max_window_layers": 4}, 6),  # use_sliding_window is off by default
        ({"model_type": "qwen2", "max_window_layers": 4, "use_sliding_window": True}, 4),
        ({"model_type": "gemma3_text"}, 1),  # five windows to one full layer
        ({"model_type": "gemma2"}, 3),
        ({"model_type": "gpt_oss"}, 3),
        ({"model_type": "cohere2"}, 1),
        ({"model_type": "exaone4", "sliding_window_pattern": "LLG"}, 2),
        ({"layer_types": ["sliding_attention", "full_attention"] * 3}, 3),
    ],
)
def test_windows_by_layer(change: dict[str, Any], full: int) -> None:
    made = geometry(**(WINDOWED | change))
    assert {group.kind: group.layers for group in made.groups} == {
        kind: count for kind, count in (("full", full), ("window", 6 - full)) if count
    }
    assert {group.window for group in made.groups if group.kind == "window"} <= {32}


def test_gemma_3_hides_its_keys_in_text_config_and_leaves_defaults_out() -> None:
    config = {
        "architectures": ["Gemma3ForConditionalGeneration"],
        "model_type": "gemma3",
        "vision_config": {"hidden_size": 1152, "num_hidden_layers": 27, "num_attention_heads": 16},
        "text_config": {
            "model_type": "gemma3_text",
            "hidden_size": 3840,
            "intermediate_size": 15_360,
            "num_attention_heads": 16,
            "num_key_value_heads": 8,
            "num_hidden_layers": 48,
            "sliding_window": 1024,
        },
    }
    made = geometry_of(config, name="gemma", source="gemma")
    assert made.groups == MODELS["gemma-3-12b"].groups
    assert made.total_parameters == MODELS["gemma-3-12b"].total_parameters


def test_llama_4_attends_in_chunks_but_for_every_fourth_layer() -> None:
    made = geometry(
        model_type="llama4_text", num_hidden_layers=8, head_dim=8, num_local_experts=4, num_experts_per_tok=1
    )
    assert [(group.kind, group.layers, group.window) for group in made.groups] == [
        ("full", 2, None),
        ("chunk", 6, 8192),
    ]
    assert made.active_parameters == 8 * (ATTENTION + 2 * MLP + 64 * 4) + HEAD  # one routed expert, one shared
    chunked = geometry(attention_chunk_size=16, no_rope_layers=[1, 0, 1, 1])
    assert [(group.kind, group.layers) for group in chunked.groups] == [("full", 1), ("chunk", 3)]


def test_bamba_puts_attention_at_its_indices() -> None:
    made = geometry(model_type="bamba", attn_layer_indices=[2], **MAMBA2)
    assert made.active_parameters == 1 * ATTENTION + 3 * MAMBA2_MATRICES + 4 * MLP + HEAD
    full, state = made.groups
    assert (full.layers, state.layers, state.state_bytes) == (1, 3, MAMBA2_STATE)


def test_falcon_h1_has_both_in_every_layer() -> None:
    made = geometry(model_type="falcon_h1", **MAMBA2, mamba_d_ssm=128)
    assert made.active_parameters == 4 * (ATTENTION + MAMBA2_MATRICES + MLP) + HEAD
    assert [(group.kind, group.layers) for group in made.groups] == [("full", 4), ("state", 4)]


@pytest.mark.parametrize(
    "layers",
    [
        {"hybrid_override_pattern": "M-*E"},
        {"layers_block_type": ["mamba", "mlp", "attention", "moe"], "num_hidden_layers": "absent"},
        {"layers_block_type": ["linear_attention", "mlp", "full_attention", "moe"]},
    ],
)
def test_nemotron_h_has_one_thing_a_layer(layers: dict[str, Any]) -> None:
    mamba = {"mamba_num_heads": 8, "mamba_head_dim": 16, "ssm_state_size": 16, "n_groups": 1}
    experts = {"n_routed_experts": 4, "num_experts_per_tok": 1, "moe_intermediate_size": 32}
    made = geometry(
        model_type="nemotron_h", head_dim=8, moe_shared_expert_intermediate_size=48, **mamba, **experts, **layers
    )
    moe = 2 * 64 * 32 + 2 * 64 * 48 + 64 * 4
    assert made.active_parameters == MAMBA2_MATRICES + 2 * 64 * 256 + ATTENTION + moe + HEAD


def test_jamba_alternates_by_period() -> None:
    made = geometry(model_type="jamba", num_hidden_layers=8, num_experts=4, mamba_d_state=16)
    mamba1 = 2 * 64 * 128 + 128 * (4 + 32) + 4 * 128 + 128 * 64  # the step's rank is 64/16
    experts = 2 * MLP + 64 * 4
    assert made.active_parameters == ATTENTION + 7 * mamba1 + 4 * MLP + 4 * experts + HEAD
    assert [(group.kind, group.layers) for group in made.groups] == [("full", 1), ("state", 7)]
    assert made.groups[1].state_bytes == 3 * 128 * 2 + 128 * 16 * 2


def test_qwen3_next_has_a_matrix_state_and_gated_attention() -> None:
    linear = {
        "linear_num_key_heads": 2,
        "linear_num_value_heads": 4,
        "linear_key_head_dim": 8,
        "linear_value_head_dim": 8,
        "linear_conv_kernel_dim": 4,
    }
    experts = {**ROUTED, "shared_expert_intermediate_size": 16}
    made = geometry(model_type="qwen3_next", head_dim=8, **linear, **experts)
    delta = 64 * (2 * 16 + 2 * 32 + 2 * 4) + 32 * 64
    moe = 2 * EXPERT + ROUTER + 3 * 64 * 16
    assert made.active_parameters == ATTENTION + 64 * 64 + 3 * delta + 4 * moe + HEAD
    full, state = made.groups
    assert (full.layers, state.layers) == (1, 3)
    assert state.state_bytes == 3 * (2 * 16 + 32) * 2 + 4 * 8 * 8 * 2


def test_granite_has_a_shared_mlp_beside_its_experts() -> None:
    kinds = {"layer_types": ["mamba", "mamba", "mamba", "attention"], **MAMBA2}
    mixers = 3 * MAMBA2_MATRICES + ATTENTION
    dense = geometry(model_type="granitemoehybrid", num_local_experts=0, shared_intermediate_size=32, **kinds)
    assert dense.active_parameters == mixers + 4 * 3 * 64 * 32 + HEAD
    routed = {"num_local_experts": 4, "num_experts_per_tok": 2, "intermediate_size": 16, "shared_intermediate_size": 32}
    sparse = geometry(model_type="granitemoehybrid", **routed, **kinds)
    assert sparse.active_parameters == mixers + 4 * (2 * 3 * 64 * 16 + 3 * 64 * 32 + 64 * 4) + HEAD


@pytest.mark.parametrize(
    ("dtype", "kv"),
    [("float16", "fp16"), ("bfloat16", "bf16"), ("float32", "bf16"), (None, "bf16"), ("torch.float16", "fp16")],
)
def test_the_cache_has_the_models_own_16_bit_type(dtype: str | None, kv: str) -> None:
    assert geometry(torch_dtype=dtype).kv_dtype == kv
    assert geometry(torch_dtype="absent", dtype=dtype).kv_dtype == kv


def test_a_path_or_a_folder_is_read_wherever_a_model_is_named(tmp_path: Path) -> None:
    path = tmp_path / "config.json"
    path.write_text(json.dumps(PLAIN))
    for name in (path, str(path), path.parent, str(path.parent)):
        made = model_geometry(name)
        assert (made.groups, made.source) == (geometry().groups, str(path))
    assert model_geometry(path, kv_dtype="fp8").bytes_per_token * 2 == geometry().bytes_per_token
