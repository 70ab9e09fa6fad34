"""Models, configs and presets wherever another command takes --model or --p-star."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from command_line import fails, succeeds
from kvopt.cost import p_star_of

CONFIG = {
    "model_type": "llama",
    "hidden_size": 4096,
    "intermediate_size": 14_336,
    "num_hidden_layers": 32,
    "num_attention_heads": 32,
    "num_key_value_heads": 8,
    "vocab_size": 128_256,
}


@pytest.fixture
def config(tmp_path: Path) -> Path:
    path = tmp_path / "model" / "config.json"
    path.parent.mkdir()
    path.write_text(json.dumps(CONFIG))
    return path


def saved(tmp_path: Path, *arguments: object) -> Any:
    out = tmp_path / "out.json"
    succeeds(*arguments, "--capacity", 4, "--json", out)
    return json.loads(out.read_text())["trace"]["p_star"]


def test_p_star_may_be_named_by_a_model(small_trace_file: Path, config: Path, tmp_path: Path) -> None:
    for command in ("compare", "mrc", "bound"):
        assert saved(tmp_path, command, small_trace_file) == 28_600
        assert saved(tmp_path, command, small_trace_file, "--p-star", "Qwen3-30B-A3B") == p_star_of("qwen3-30b-a3b")
        assert saved(tmp_path, command, small_trace_file, "--p-star", config) == p_star_of("llama-3.1-8b")
    assert "did you mean 'gpt-oss-20b'" in fails("mrc", str(small_trace_file), "--p-star", "gpt-oss-20")


def test_compare_takes_p_star_from_a_model_only_when_told(small_trace_file: Path, config: Path, tmp_path: Path) -> None:
    compare = ("compare", small_trace_file, "--policy", "lru")
    assert saved(tmp_path, *compare, "--model", config) == 28_600
    assert saved(tmp_path, *compare, "--model", config, "--p-star", config) == p_star_of("llama-3.1-8b")


def capacities(small_trace_file: Path, tmp_path: Path, *arguments: object) -> list[int]:
    out = tmp_path / "out.json"
    succeeds("compare", small_trace_file, "--policy", "lru", *arguments, "--json", out)
    return [row["capacity"] for row in json.loads(out.read_text())["rows"]]


def test_memory_of_a_config_and_of_an_8_bit_cache(small_trace_file: Path, config: Path, tmp_path: Path) -> None:
    size = ("--memory", "1GiB")
    assert capacities(small_trace_file, tmp_path, *size, "--model", config) == [16]  # blocks of 512 tokens, 64 MiB each
    assert capacities(small_trace_file, tmp_path, *size, "--model", config, "--kv-dtype", "fp8") == [32]
    assert "--kv-dtype needs --model" in fails("compare", str(small_trace_file), "--kv-dtype", "fp8")


def test_memory_of_windows_is_counted_for_the_mean_prompt(small_trace_file: Path, tmp_path: Path) -> None:
    # 19 references of 512 tokens in 7 requests: 1,390 tokens, of which each window keeps 1,024.
    each = 65_536 + 327_680 * 1024 / 1390
    expected = int(2**30 / (each * 512))
    assert capacities(small_trace_file, tmp_path, "--memory", "1GiB", "--model", "gemma-3-12b") == [expected]
