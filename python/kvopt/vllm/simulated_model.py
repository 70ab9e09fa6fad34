"""What a model's layers keep in the KV cache, from vLLM's own description of the model, without loading weights."""

from __future__ import annotations

from typing import Any

from kvopt.errors import ConfigError


def kv_cache_specs(vllm_config: Any) -> dict[str, Any]:
    """The KV-cache spec of each attention layer, as vLLM has them, by the layer's name.

    A layer has a sliding window where the model's ``layer_types`` say so, or where the model has a window and no
    ``layer_types``. Raises ConfigError for models with other than attention layers: their state needs real kernels.
    """
    from vllm.v1 import kv_cache_interface as interface

    model = vllm_config.model_config
    if model.is_hybrid or model.is_attention_free:
        raise ConfigError(
            f"SimulatedExecutor: {model.model} has layers other than attention; simulate an attention model"
        )
    text = model.hf_text_config
    block_size = vllm_config.cache_config.block_size
    shared: dict[str, Any] = {
        "block_size": block_size,
        "num_kv_heads": model.get_num_kv_heads(vllm_config.parallel_config),
        "head_size": model.get_head_size(),
        "dtype": model.dtype,
    }
    layers = model.get_num_layers(vllm_config.parallel_config)
    if model.use_mla:
        spec = interface.MLAAttentionSpec(**{**shared, "num_kv_heads": 1})
        return {_layer_name(layer): spec for layer in range(layers)}
    full = interface.FullAttentionSpec(**shared)
    window = getattr(text, "sliding_window", None)
    kinds = getattr(text, "layer_types", None) or (["sliding_attention"] if window else ["full_attention"]) * layers
    if window is None or getattr(vllm_config.model_config, "disable_sliding_window", False):
        return {_layer_name(layer): full for layer in range(layers)}
    sliding = interface.SlidingWindowSpec(**shared, sliding_window=window)
    return {
        _layer_name(layer): sliding if kind == "sliding_attention" else full
        for layer, kind in enumerate(kinds[:layers])
    }


def _layer_name(layer: int) -> str:
    return f"model.layers.{layer}.self_attn.attn"
