"""The keys of a Hugging Face `config.json`: read from a file, with the defaults that its model type leaves out."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any, overload

from kvopt.errors import ModelConfigError

TEXT_CONFIGS = ("text_config", "llm_config", "language_config")
"""Where models that also see or hear keep the keys of their language model."""

_INHERITED = ("tie_word_embeddings", "torch_dtype", "dtype")

LARGEST = 2**40
"""No count or size in a config is larger."""

# A config.json may leave out what equals the default of its class; these are the defaults that matter, as the
# configuration classes of the transformers library have them.
DEFAULTS: dict[str, dict[str, Any]] = {
    "bamba": {"mamba_n_heads": 128, "mamba_d_state": 256, "mamba_n_groups": 1, "mamba_d_conv": 4, "mamba_expand": 2},
    "cohere2": {"sliding_window": 4096, "sliding_window_pattern": 4},
    "deepseek_v3": {"first_k_dense_replace": 3, "n_shared_experts": 1},
    "falcon_h1": {
        "mamba_d_ssm": 1024,
        "mamba_n_heads": 128,
        "mamba_d_state": 256,
        "mamba_n_groups": 1,
        "mamba_d_conv": 4,
    },
    "gemma": {"head_dim": 256},
    "gemma2": {"head_dim": 256, "sliding_window": 4096, "sliding_window_pattern": 2, "num_key_value_heads": 4},
    "gemma3_text": {
        "vocab_size": 262_208,
        "num_attention_heads": 8,
        "num_key_value_heads": 4,
        "head_dim": 256,
        "sliding_window": 4096,
        "sliding_window_pattern": 6,
        "tie_word_embeddings": True,
    },
    "gpt_oss": {"head_dim": 64, "num_key_value_heads": 8, "sliding_window": 128, "sliding_window_pattern": 2},
    "granitemoehybrid": {"mamba_n_heads": 128, "mamba_d_state": 256, "mamba_n_groups": 1, "mamba_d_conv": 4},
    "jamba": {
        "num_key_value_heads": 8,
        "num_experts": 16,
        "num_experts_per_tok": 2,
        "expert_layer_period": 2,
        "expert_layer_offset": 1,
        "attn_layer_period": 8,
        "attn_layer_offset": 4,
        "mamba_d_state": 16,
        "mamba_d_conv": 4,
        "mamba_expand": 2,
    },
    "llama4_text": {
        "head_dim": 128,
        "intermediate_size_mlp": 16_384,
        "interleave_moe_layer_step": 1,
        "no_rope_layer_interval": 4,
        "attention_chunk_size": 8192,
    },
    "mistral": {"num_key_value_heads": 8, "sliding_window": 4096},
    "nemotron_h": {"head_dim": 128, "num_key_value_heads": 8, "n_groups": 8, "conv_kernel": 4, "ssm_state_size": 128},
    "qwen3_next": {
        "head_dim": 256,
        "num_key_value_heads": 2,
        "full_attention_interval": 4,
        "attn_output_gate": True,
        "linear_conv_kernel_dim": 4,
        "linear_key_head_dim": 128,
        "linear_value_head_dim": 128,
        "linear_num_key_heads": 16,
        "linear_num_value_heads": 32,
        "num_experts": 512,
        "num_experts_per_tok": 10,
        "moe_intermediate_size": 512,
        "shared_expert_intermediate_size": 512,
        "decoder_sparse_step": 1,
    },
}

# Keys that change what is cached or computed in a way that the geometry does not describe, where they are set.
NOT_MODELLED = (
    "index_topk",
    "num_kv_shared_layers",
    "linear_attn_config",
    "global_head_dim",
    "num_global_key_value_heads",
    "swa_num_key_value_heads",
    "compress_ratios",
)


class ConfigKeys:
    """Typed access to the keys of one model's config; every error names the file, the key and the value.

    A key that is null counts as absent, but hides the default of its model type.
    """

    def __init__(self, config: Mapping[str, Any], where: str) -> None:
        nested = next((config[name] for name in TEXT_CONFIGS if isinstance(config.get(name), dict)), None)
        keys = dict(config)
        if nested is not None:
            keys = {name: config[name] for name in _INHERITED if config.get(name) is not None} | nested
        self.where = where
        self.model_type = str(keys.get("model_type", ""))
        self._keys = DEFAULTS.get(self.model_type, {}) | keys
        for name in NOT_MODELLED:
            if self._keys.get(name):
                raise self.error(name, "changes the cache or the cost in a way that is not modelled")

    def has(self, *names: str) -> bool:
        """Whether one of these keys is set."""
        return any(self._keys.get(name) is not None for name in names)

    def get(self, *names: str) -> Any:
        """The value of the first of these keys that is set; None without one."""
        return next((self._keys[name] for name in names if self._keys.get(name) is not None), None)

    def require(self, *alternatives: tuple[str, ...]) -> None:
        """Raise ModelConfigError that names all keys of which no alternative is set."""
        missing = [" or ".join(names) for names in alternatives if not self.has(*names)]
        if missing:
            kind = f"model type {self.model_type!r}" if self.model_type else "a config without model_type"
            raise ModelConfigError(
                f"{self.where}: {kind} is not one whose geometry can be read: missing {', '.join(missing)}"
            )

    @overload
    def count(self, *names: str) -> int: ...
    @overload
    def count(self, *names: str, default: int) -> int: ...
    @overload
    def count(self, *names: str, default: None) -> int | None: ...
    def count(self, *names: str, default: int | None = -1) -> int | None:
        """The whole number of the first of these keys that is set; raises ModelConfigError without one or a default."""
        for name in names:
            value = self._keys.get(name)
            if value is not None:
                return self._whole(name, value)
        if default == -1:
            self.require(names)
        return default

    def indices(self, name: str) -> list[int]:
        """The list of layer numbers under this key; empty without one."""
        value = self.get(name)
        if value is None:
            return []
        if not isinstance(value, list):
            raise ModelConfigError(f"{self.where}: {name} = {value!r} is not a list of layer numbers")
        return [self._whole(name, item) for item in value]

    def flag(self, name: str, default: bool = False) -> bool:
        """The yes or no under this key."""
        value = self.get(name)
        if value is None:
            return default
        if not isinstance(value, bool):
            raise ModelConfigError(f"{self.where}: {name} = {value!r} is not true or false")
        return value

    def error(self, name: str, problem: str) -> ModelConfigError:
        """An error about the value of a key."""
        return ModelConfigError(f"{self.where}: {name} = {self.get(name)!r} {problem}")

    def _whole(self, name: str, value: Any) -> int:
        if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value <= LARGEST:
            raise ModelConfigError(f"{self.where}: {name} = {value!r} is not a whole number from 0 to {LARGEST}")
        return value


def read_config(path: str | os.PathLike[str]) -> tuple[dict[str, Any], Path]:
    """The content of a `config.json`, or of the one in the folder `path`, and where it lies.

    Raises ModelConfigError when it is missing or is no JSON object, OSError when it cannot be read.
    """
    file = Path(path)
    if file.is_dir():
        file = file / "config.json"
        if not file.is_file():
            raise ModelConfigError(f"{path}: there is no config.json in this folder")
    elif not file.exists():
        raise ModelConfigError(f"{path}: no such file")
    try:
        config = json.loads(file.read_bytes())
    except (ValueError, RecursionError) as error:
        raise ModelConfigError(f"{file}: not valid JSON: {error}") from None
    if not isinstance(config, dict):
        raise ModelConfigError(f"{file}: a JSON object is expected, not {type(config).__name__}")
    return config, file
