"""Parameters, cache and operations of one layer of each kind.

Counted are matrices, attention and state updates; norms, biases, convolutions' products and activations are not. The
state layers' scan is 8 operations for each number of the state and 5 for each channel, as Marconi (MLSys'25) counts
Mamba; its exact number hardly matters beside the matrices.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from kvopt.cost.config_keys import ConfigKeys
from kvopt.cost.geometry import LayerGroup
from kvopt.cost.layer_kinds import EXPERT_COUNT, WINDOW, Mixer, mlp_matrices

HIDDEN_SIZE = ("hidden_size", "n_embd", "d_model")
QUERY_HEADS = ("num_attention_heads", "n_head", "num_heads")
_STATE_VALUE_BYTES = {"float32": 4, "bfloat16": 2, "float16": 2}


@dataclass(frozen=True, slots=True)
class MixerShape:
    """One mixer: the parameters of its matrices, and the group of one layer that it forms."""

    parameters: int
    group: LayerGroup


@dataclass(frozen=True, slots=True)
class MlpShape:
    """One MLP: the parameters that a token passes, and all."""

    active: int
    total: int


def mixer_shape(keys: ConfigKeys, mixer: Mixer) -> MixerShape:
    """One layer's mixer of this kind. Raises ModelConfigError that names the missing keys."""
    if mixer == "state":
        if keys.has("linear_num_value_heads"):
            return _delta_net(keys)
        return _mamba2(keys) if keys.has("mamba_n_heads", "mamba_num_heads") else _mamba1(keys)
    shape = _latent_attention(keys) if keys.has("kv_lora_rank") else _attention(keys)
    if mixer == "full":
        return shape
    limit = keys.count("attention_chunk_size") if mixer == "chunk" else keys.count(*WINDOW)
    longest = keys.count("max_position_embeddings", default=None)
    if limit < 1 or (longest is not None and limit >= longest):  # it never bites
        return shape
    return replace(shape, group=replace(shape.group, kind=mixer, window=limit))


def dense_mlp(keys: ConfigKeys) -> MlpShape:
    """The MLP of a layer without experts."""
    hidden = keys.count(*HIDDEN_SIZE)
    dense: tuple[str, ...] = ("intermediate_size_mlp", "intermediate_size", "n_inner", "ffn_dim", "ffn_hidden_size")
    if keys.has("shared_intermediate_size"):  # Granite: its layers without experts have the shared MLP alone
        dense = ("shared_intermediate_size",)
    default = 4 * hidden if keys.model_type in ("gpt2", "gpt_bigcode", "falcon") else -1
    parameters = mlp_matrices(keys) * hidden * keys.count(*dense, default=default)
    return MlpShape(parameters, parameters)


def expert_mlp(keys: ConfigKeys) -> MlpShape:
    """The MLP of a layer with experts: those that a token is routed to, the shared ones, and the router."""
    hidden = keys.count(*HIDDEN_SIZE)
    experts = keys.count(*EXPERT_COUNT)
    chosen = keys.count("num_experts_per_tok", "num_experts_per_token", "moe_topk", "moe_k")
    size = keys.count("moe_intermediate_size", "expert_ffn_hidden_size", "intermediate_size")
    width = keys.count("moe_latent_size", default=hidden)
    expert = mlp_matrices(keys) * width * size
    always = mlp_matrices(keys) * hidden * _shared_size(keys, size) + hidden * experts
    if width != hidden:
        always += 2 * hidden * width
    return MlpShape(chosen * expert + always, experts * expert + always)


def _shared_size(keys: ConfigKeys, expert_size: int) -> int:
    own = ("shared_expert_intermediate_size", "moe_shared_expert_intermediate_size", "shared_intermediate_size")
    if keys.has(*own):
        return keys.count(*own)
    if keys.model_type == "llama4_text":
        return expert_size
    return expert_size * keys.count("n_shared_experts", "num_shared_experts", "moe_num_shared_experts", default=0)


def _attention(keys: ConfigKeys) -> MixerShape:
    hidden, heads = keys.count(*HIDDEN_SIZE), keys.count(*QUERY_HEADS)
    head_dim = keys.count("head_dim", "attention_head_dim", "kv_channels", default=hidden // max(heads, 1))
    one = 1 if keys.flag("multi_query") else heads
    kv_heads = keys.count("num_key_value_heads", "num_kv_heads", default=one)
    for name, value in (("num_attention_heads", heads), ("head_dim", head_dim), ("num_key_value_heads", kv_heads)):
        if value < 1:
            raise keys.error(name, "is below 1")
    if heads % kv_heads:
        raise keys.error("num_key_value_heads", f"does not divide the {heads} attention heads")
    queries = heads * head_dim * (2 if keys.flag("attn_output_gate") else 1)
    parameters = hidden * (queries + 2 * kv_heads * head_dim) + heads * head_dim * hidden
    return MixerShape(parameters, LayerGroup("full", 1, kv_heads, 2 * head_dim, 4 * heads * head_dim))


def _latent_attention(keys: ConfigKeys) -> MixerShape:
    # Multi-head latent attention (DeepSeek-V2): one latent and one rotary key are kept a token; prefill expands them
    # into full heads.
    hidden, heads = keys.count(*HIDDEN_SIZE), keys.count(*QUERY_HEADS)
    keys.require(("qk_rope_head_dim",), ("qk_nope_head_dim",), ("v_head_dim",))
    latent, rope = keys.count("kv_lora_rank"), keys.count("qk_rope_head_dim")
    nope, value = keys.count("qk_nope_head_dim"), keys.count("v_head_dim")
    low_rank = keys.count("q_lora_rank", default=None)
    query = heads * (nope + rope)
    parameters = hidden * query if low_rank is None else (hidden + query) * low_rank
    parameters += hidden * (latent + rope) + latent * heads * (nope + value) + heads * value * hidden
    return MixerShape(parameters, LayerGroup("full", 1, 1, latent + rope, 2 * heads * (nope + rope + value)))


def _mamba2(keys: ConfigKeys) -> MixerShape:
    hidden = keys.count(*HIDDEN_SIZE)
    heads = keys.count("mamba_n_heads", "mamba_num_heads")
    expanded = keys.count("mamba_expand", "expand", default=2) * hidden
    if keys.has("mamba_head_dim"):
        expanded = heads * keys.count("mamba_head_dim")
    inner = keys.count("mamba_d_ssm", default=expanded)
    state = keys.count("mamba_d_state", "ssm_state_size")
    convolved = inner + 2 * keys.count("mamba_n_groups", "n_groups", default=1) * state
    parameters = hidden * (inner + convolved + heads) + inner * hidden
    return MixerShape(parameters, _state_group(keys, inner, state, convolved, "mamba_d_conv", "conv_kernel"))


def _mamba1(keys: ConfigKeys) -> MixerShape:
    keys.require(("mamba_d_state", "ssm_state_size"))
    hidden = keys.count(*HIDDEN_SIZE)
    inner = keys.count("mamba_expand", "expand", default=2) * hidden
    state = keys.count("mamba_d_state", "ssm_state_size")
    rank = -(-hidden // 16)
    if isinstance(keys.get("mamba_dt_rank"), int):
        rank = keys.count("mamba_dt_rank")
    parameters = 2 * hidden * inner + inner * (rank + 2 * state) + rank * inner + inner * hidden
    return MixerShape(parameters, _state_group(keys, inner, state, inner, "mamba_d_conv", "conv_kernel"))


def _delta_net(keys: ConfigKeys) -> MixerShape:
    # Gated DeltaNet of Qwen3-Next: a matrix of d_k × d_v a value head.
    keys.require(("linear_num_key_heads",), ("linear_key_head_dim",), ("linear_value_head_dim",))
    hidden, heads = keys.count(*HIDDEN_SIZE), keys.count("linear_num_value_heads")
    key_dim = keys.count("linear_key_head_dim")
    key = keys.count("linear_num_key_heads") * key_dim
    value = heads * keys.count("linear_value_head_dim")
    parameters = hidden * (2 * key + 2 * value + 2 * heads) + value * hidden
    return MixerShape(parameters, _state_group(keys, value, key_dim, 2 * key + value, "linear_conv_kernel_dim"))


def _state_group(keys: ConfigKeys, channels: int, state: int, convolved: int, *kernel: str) -> LayerGroup:
    dtype = keys.get("mamba_ssm_cache_dtype", "mamba_ssm_dtype") or "bfloat16"
    if dtype not in _STATE_VALUE_BYTES:
        raise keys.error("mamba_ssm_cache_dtype", f"is not one of {', '.join(_STATE_VALUE_BYTES)}")
    recent = max(keys.count(*kernel, default=4) - 1, 0) * convolved * 2
    kept = recent + channels * state * _STATE_VALUE_BYTES[dtype]
    return LayerGroup("state", 1, state_bytes=kept, scan_flops=8 * channels * state + 5 * channels)
