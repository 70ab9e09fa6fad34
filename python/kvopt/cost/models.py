"""Models known by name: the keys of their published `config.json` that matter, read as any other config is."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from kvopt.cost.geometry import ModelGeometry
from kvopt.cost.model_config import geometry_from_config, geometry_of
from kvopt.cost.names import look_up


def _decoder(kind: str, hidden: int, layers: int, heads: int, kv_heads: int, vocab: int, **more: Any) -> dict[str, Any]:
    return {
        "model_type": kind,
        "hidden_size": hidden,
        "num_hidden_layers": layers,
        "num_attention_heads": heads,
        "num_key_value_heads": kv_heads,
        "vocab_size": vocab,
        **more,
    }


def _qwen3_moe(hidden: int, layers: int, heads: int, kv_heads: int, size: int, experts: int) -> dict[str, Any]:
    routed = {"moe_intermediate_size": size, "num_experts": experts, "num_experts_per_tok": 8}
    return _decoder("qwen3_moe", hidden, layers, heads, kv_heads, 151_936, head_dim=128, **routed)


_LATENT = {
    "kv_lora_rank": 512,
    "q_lora_rank": 1536,
    "qk_rope_head_dim": 64,
    "qk_nope_head_dim": 128,
    "v_head_dim": 128,
    "moe_intermediate_size": 2048,
    "intermediate_size": 18_432,
    "num_experts_per_tok": 8,
    "n_shared_experts": 1,
}
_GEMMA3 = {"head_dim": 256, "sliding_window": 1024, "sliding_window_pattern": 6, "tie_word_embeddings": True}
_GPT_OSS = {"intermediate_size": 2880, "num_experts_per_tok": 4}

# Published checkpoint to its keys. A name of ours stands for every checkpoint of that shape.
_CONFIGS: dict[str, tuple[str, dict[str, Any]]] = {
    "llama-3.1-8b": ("Llama-3.1-8B", _decoder("llama", 4096, 32, 32, 8, 128_256, intermediate_size=14_336)),
    "llama-3.1-70b": ("Llama-3.1-70B", _decoder("llama", 8192, 80, 64, 8, 128_256, intermediate_size=28_672)),
    "llama-3.3-70b": ("Llama-3.3-70B-Instruct", _decoder("llama", 8192, 80, 64, 8, 128_256, intermediate_size=28_672)),
    "llama-3.1-405b": ("Llama-3.1-405B", _decoder("llama", 16_384, 126, 128, 8, 128_256, intermediate_size=53_248)),
    "llama-4-scout": (
        "Llama-4-Scout-17B-16E",
        _decoder(
            "llama4_text", 5120, 48, 40, 8, 202_048, intermediate_size=8192, num_local_experts=16, num_experts_per_tok=1
        ),
    ),
    "qwen3-8b": ("Qwen3-8B", _decoder("qwen3", 4096, 36, 32, 8, 151_936, intermediate_size=12_288, head_dim=128)),
    "qwen3-32b": ("Qwen3-32B", _decoder("qwen3", 5120, 64, 64, 8, 151_936, intermediate_size=25_600, head_dim=128)),
    "qwen3-30b-a3b": ("Qwen3-30B-A3B", _qwen3_moe(2048, 48, 32, 4, 768, 128)),
    "qwen3-coder-30b-a3b": ("Qwen3-Coder-30B-A3B-Instruct", _qwen3_moe(2048, 48, 32, 4, 768, 128)),
    "qwen3-235b-a22b": ("Qwen3-235B-A22B", _qwen3_moe(4096, 94, 64, 4, 1536, 128)),
    "qwen3-coder-480b-a35b": ("Qwen3-Coder-480B-A35B-Instruct", _qwen3_moe(6144, 62, 96, 8, 2560, 160)),
    "qwen3-next-80b-a3b": ("Qwen3-Next-80B-A3B-Instruct", _decoder("qwen3_next", 2048, 48, 16, 2, 151_936)),
    "deepseek-v3": (
        "DeepSeek-V3",
        _decoder("deepseek_v3", 7168, 61, 128, 128, 129_280, n_routed_experts=256, **_LATENT),
    ),
    "kimi-k2": (
        "Kimi-K2-Instruct",
        _decoder("kimi_k2", 7168, 61, 64, 64, 163_840, n_routed_experts=384, first_k_dense_replace=1, **_LATENT),
    ),
    "glm-4.5-air": (
        "GLM-4.5-Air",
        _decoder(
            "glm4_moe",
            4096,
            46,
            96,
            8,
            151_552,
            head_dim=128,
            intermediate_size=10_944,
            moe_intermediate_size=1408,
            n_routed_experts=128,
            num_experts_per_tok=8,
            n_shared_experts=1,
            first_k_dense_replace=1,
        ),
    ),
    "gemma-3-12b": (
        "gemma-3-12b-it",
        _decoder("gemma3_text", 3840, 48, 16, 8, 262_208, intermediate_size=15_360, **_GEMMA3),
    ),
    "gemma-3-27b": (
        "gemma-3-27b-it",
        _decoder("gemma3_text", 5376, 62, 32, 16, 262_208, intermediate_size=21_504, **(_GEMMA3 | {"head_dim": 128})),
    ),
    "gpt-oss-20b": ("gpt-oss-20b", _decoder("gpt_oss", 2880, 24, 64, 8, 201_088, num_local_experts=32, **_GPT_OSS)),
    "gpt-oss-120b": ("gpt-oss-120b", _decoder("gpt_oss", 2880, 36, 64, 8, 201_088, num_local_experts=128, **_GPT_OSS)),
    "mistral-7b": (
        "Mistral-7B-v0.3",
        _decoder("mistral", 4096, 32, 32, 8, 32_768, intermediate_size=14_336, sliding_window=None),
    ),
    "mistral-small-24b": (
        "Mistral-Small-24B-Instruct-2501",
        _decoder("mistral", 5120, 40, 32, 8, 131_072, intermediate_size=32_768, head_dim=128, sliding_window=None),
    ),
    "mixtral-8x7b": (
        "Mixtral-8x7B-v0.1",
        _decoder(
            "mixtral", 4096, 32, 32, 8, 32_000, intermediate_size=14_336, num_local_experts=8, num_experts_per_tok=2
        ),
    ),
    "jamba-mini": ("AI21-Jamba-Mini-1.5", _decoder("jamba", 4096, 32, 32, 8, 65_536, intermediate_size=14_336)),
    "falcon-h1-34b": (
        "Falcon-H1-34B-Instruct",
        _decoder(
            "falcon_h1",
            5120,
            72,
            20,
            4,
            261_120,
            intermediate_size=21_504,
            head_dim=128,
            mamba_d_ssm=4096,
            mamba_n_heads=32,
            mamba_n_groups=2,
            mamba_d_state=256,
        ),
    ),
    "nemotron-3-nano-30b": (
        "NVIDIA-Nemotron-3-Nano-30B-A3B-BF16",
        _decoder(
            "nemotron_h",
            2688,
            52,
            32,
            2,
            131_072,
            hybrid_override_pattern="MEMEM*EMEMEM*EMEMEM*EMEMEM*EMEMEM*EMEMEMEM*EMEMEMEME",
            head_dim=128,
            mamba_num_heads=64,
            mamba_head_dim=64,
            mamba_ssm_cache_dtype="float32",
            n_routed_experts=128,
            num_experts_per_tok=6,
            moe_intermediate_size=1856,
            moe_shared_expert_intermediate_size=3712,
        ),
    ),
}

MODELS: dict[str, ModelGeometry] = {
    name: geometry_of(config, name=name, source=f"config.json of {checkpoint}")
    for name, (checkpoint, config) in _CONFIGS.items()
}
"""The presets by name, their KV cache in 16 bits."""


def model_geometry(model: str | os.PathLike[str], kv_dtype: str | None = None) -> ModelGeometry:
    """The geometry of a preset (any case), or of the `config.json` or folder with one that `model` names.

    `kv_dtype` is the type of the KV cache, such as "fp8"; by default that of the model. Raises ConfigError that names
    the nearest preset when there is none and no such file, ModelConfigError for a config that cannot be read.
    """
    if not isinstance(model, str) or (model.strip().lower() not in MODELS and is_model(model)):
        return geometry_from_config(model, kv_dtype)
    preset = look_up("model", model, MODELS)
    return preset if kv_dtype is None else preset.with_kv_dtype(kv_dtype)


def is_model(name: str) -> bool:
    """Whether `name` is a preset, or is written as the path of a `config.json` or of a folder that is there."""
    return name.strip().lower() in MODELS or name.endswith(".json") or os.sep in name or Path(name).is_dir()
