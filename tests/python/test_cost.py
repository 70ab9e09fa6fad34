from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kvopt.cost import MODELS, blocks_in_memory, model_geometry, parse_bytes, prefill_cost
from kvopt.errors import ConfigError


@given(st.lists(st.integers(0, 2_000_000), max_size=20), st.integers(1, 200_000))
def test_prefill_cost_is_the_sum_of_the_closed_form(lengths: list[int], p_star: int) -> None:
    exact = [float(n + Fraction(n * n, 2 * p_star)) for n in lengths]
    assert prefill_cost(np.array(lengths, dtype=np.int64), p_star).tolist() == pytest.approx(exact, rel=1e-15)


def test_a_token_at_p_star_costs_twice_the_first() -> None:
    costs = prefill_cost([0, 1, 28_600, 28_601])
    assert costs[1] - costs[0] == pytest.approx(1.0, abs=1e-4)
    assert costs[3] - costs[2] == pytest.approx(2.0, abs=1e-4)


@pytest.mark.parametrize("p_star", [0, -1.0, float("nan"), float("inf"), True, "28600"])
def test_a_bad_p_star_is_named(p_star: float) -> None:
    with pytest.raises(ConfigError, match="p_star"):
        prefill_cost([1], p_star)


def test_a_negative_length_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"tokens: -3\.0"):
        prefill_cost([5, -3])


@pytest.mark.parametrize(
    ("model", "bytes_per_token"),
    [("llama-3.1-8b", 131_072), ("llama-3.1-70b", 327_680), ("qwen3-30b-a3b", 98_304), ("deepseek-v3", 70_272)],
)
def test_presets_keep_the_published_bytes_a_token(model: str, bytes_per_token: int) -> None:
    assert model_geometry(model).bytes_per_token == bytes_per_token
    assert model_geometry(model.upper()) is MODELS[model]
    assert "config.json" in MODELS[model].source


def test_an_unknown_model_names_the_nearest() -> None:
    with pytest.raises(
        ConfigError, match=r"'llama-3\.1-8' .*did you mean 'llama-3\.1-8b'|did you mean 'llama-3\.1-8b'"
    ):
        model_geometry("llama-3.1-8")


@pytest.mark.parametrize(
    ("text", "size"),
    [
        ("40GiB", 40 * 2**30),
        ("512MiB", 512 * 2**20),
        ("24GB", 24 * 10**9),
        ("1.5kib", 1536),
        (" 2 TiB ", 2 * 2**40),
        ("1073741824", 2**30),
        ("7B", 7),
    ],
)
def test_memory_sizes(text: str, size: int) -> None:
    assert parse_bytes(text) == size


@pytest.mark.parametrize("text", ["", "GiB", "40G", "-1GiB", "0", "0.1B", "1e9", "40 gigs", "nan", "1_000", "٣GiB"])
def test_other_memory_sizes_are_refused_with_their_text(text: str) -> None:
    with pytest.raises(ConfigError, match="memory size") as caught:
        parse_bytes(text)
    assert repr(text) in str(caught.value)


@given(st.integers(1, 10**15), st.sampled_from(sorted(MODELS)), st.integers(1, 1024))
def test_blocks_fill_the_memory_and_not_more(memory: int, name: str, block_tokens: int) -> None:
    model = MODELS[name]
    block = model.bytes_per_block(block_tokens)
    if memory < block:
        with pytest.raises(ConfigError, match=f"{memory} bytes hold no block"):
            blocks_in_memory(memory, model, block_tokens)
    else:
        blocks = blocks_in_memory(memory, model, block_tokens)
        assert blocks * block <= memory < (blocks + 1) * block
