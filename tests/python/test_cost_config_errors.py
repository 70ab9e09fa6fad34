"""Configs that cannot be read: the error names the file and what is missing or wrong."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kvopt.cost import model_geometry
from kvopt.cost.model_config import geometry_of
from kvopt.errors import ConfigError, ModelConfigError
from made_configs import MAMBA2, PLAIN, ROUTED, WINDOWED

Write = Callable[..., Path]


@pytest.fixture
def write(tmp_path: Path) -> Write:
    def write(content: bytes | dict[str, Any], name: str = "config.json") -> Path:
        path = tmp_path / name
        path.write_bytes(content if isinstance(content, bytes) else json.dumps(content).encode())
        return path

    return write


@pytest.mark.parametrize(
    ("config", "message"),
    [
        (
            {"model_type": "rwkv", "hidden_size": 64},
            "'rwkv' is not one .* missing num_attention_heads or n_head .*vocab_size",
        ),
        ({}, "a config without model_type .* missing hidden_size or n_embd or d_model, num_attention_heads"),
        (PLAIN | {"intermediate_size": None}, "missing intermediate_size_mlp or intermediate_size"),
        (PLAIN | {"hidden_size": "64"}, "hidden_size = '64' is not a whole number"),
        (PLAIN | {"hidden_size": 64.5}, "hidden_size = 64.5 is not a whole number"),
        (PLAIN | {"hidden_size": True}, "hidden_size = True is not a whole number"),
        (PLAIN | {"hidden_size": -64}, "hidden_size = -64 is not a whole number from 0"),
        (PLAIN | {"hidden_size": 0}, "hidden_size is below 1"),
        (PLAIN | {"num_hidden_layers": 0}, "0 layers are not from 1 to 10000"),
        (PLAIN | {"num_hidden_layers": 10**9}, "1000000000 layers are not from 1 to 10000"),
        (PLAIN | {"num_key_value_heads": 3}, "num_key_value_heads = 3 does not divide the 8 attention heads"),
        (PLAIN | {"num_key_value_heads": 0}, "num_key_value_heads = 0 is below 1"),
        (PLAIN | {"is_encoder_decoder": True}, "only decoders"),
        (PLAIN | {"is_encoder_decoder": "yes"}, "is_encoder_decoder = 'yes' is not true or false"),
        (
            PLAIN | {"layer_types": ["full_attention", "conv"] * 2},
            "layers of kind 'conv' are not modelled; known: full_",
        ),
        (PLAIN | {"layer_types": ["full_attention"]}, "layer_types has 1 layers, but num_hidden_layers = 4"),
        (PLAIN | {"layer_types": "full_attention"}, "is not a list of layer kinds"),
        (PLAIN | {"layer_types": ["sliding_attention"] * 4}, "missing sliding_window"),
        (PLAIN | {"layer_types": ["mamba"] * 4}, "missing mamba_d_state"),
        (PLAIN | {"hybrid_override_pattern": "M*X"}, "hybrid_override_pattern = 'M\\*X' has letters besides"),
        (PLAIN | {"kv_lora_rank": 16}, "missing qk_rope_head_dim, qk_nope_head_dim, v_head_dim"),
        (PLAIN | {"num_experts": 4}, "missing num_experts_per_tok"),
        (PLAIN | {"num_experts": 4, "mlp_only_layers": 3}, "mlp_only_layers = 3 is not a list of layer numbers"),
        (PLAIN | {"num_experts": 4, "moe_layer_freq": [1]}, "says nothing of layer 1"),
        (PLAIN | {"attn_layer_period": 2, "attn_layer_offset": 2}, "attn_layer_offset = 2 is not below"),
        (PLAIN | {"full_attention_interval": 0}, "full_attention_interval = 0 is below 1"),
        (PLAIN | {"sliding_window": 8, "sliding_window_pattern": "LX"}, "is not made of L"),
        (PLAIN | {"attention_chunk_size": 8, "no_rope_layers": [1]}, "no_rope_layers = \\[1\\] has 1 layers, not 4"),
        (PLAIN | {"index_topk": 2048}, "index_topk = 2048 changes the cache or the cost in a way that is not modelled"),
        (PLAIN | {"num_kv_shared_layers": 2}, "num_kv_shared_layers = 2"),
        (PLAIN | {"layer_types": ["mamba"] * 4, **MAMBA2, "mamba_ssm_cache_dtype": "int4"}, "'int4' is not one of"),
    ],
)
def test_configs_that_cannot_be_read_say_file_and_key(write: Write, config: dict[str, Any], message: str) -> None:
    path = write(config)
    with pytest.raises(ModelConfigError, match=message) as caught:
        model_geometry(path)
    assert str(caught.value).startswith(f"{path}: ")


@pytest.mark.parametrize(
    ("content", "message"),
    [(b"", "not valid JSON"), (b"{", "not valid JSON"), (b"\xff", "not valid JSON"), (b"[1]", "not list")],
)
def test_damaged_files(write: Write, content: bytes, message: str) -> None:
    path = write(content)
    with pytest.raises(ModelConfigError, match=message) as caught:
        model_geometry(path)
    assert str(path) in str(caught.value)


def test_deeply_nested_json_is_an_error_too(write: Write) -> None:
    with pytest.raises(ModelConfigError, match="not valid JSON"):
        model_geometry(write(b'{"a":' + b"[" * 100_000))


def test_missing_files_are_named(tmp_path: Path) -> None:
    with pytest.raises(ModelConfigError, match=r"none\.json: no such file"):
        model_geometry(tmp_path / "none.json")
    with pytest.raises(ModelConfigError, match=r"there is no config\.json in this folder"):
        model_geometry(tmp_path)


KEYS = sorted({*PLAIN, *ROUTED, *MAMBA2, *WINDOWED, "kv_lora_rank", "layer_types", "layers_block_type", "text_config"})
JUNK: st.SearchStrategy[Any] = (
    st.none() | st.booleans() | st.integers(-2, 100) | st.floats() | st.sampled_from(["", "*", "LG", "8"])
)
JUNK |= st.lists(st.integers(0, 5) | st.sampled_from(["full_attention", "mamba", "x"]))


@settings(deadline=None)
@given(st.dictionaries(st.sampled_from(KEYS), JUNK), st.sampled_from(["llama", "jamba", "qwen3_next", "falcon_h1", ""]))
def test_junk_never_ends_in_another_error(change: dict[str, Any], model_type: str) -> None:
    try:
        made = geometry_of(PLAIN | {"model_type": model_type} | change, name="junk", source="junk")
    except ConfigError:
        return
    assert made.kv_bytes(1000) >= 0
    assert made.active_parameters > 0
