"""Memory sizes, and blocks in them."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kvopt.cache import CacheManager
from kvopt.cost import MODELS, blocks_in_memory, model_geometry, parse_bytes
from kvopt.errors import ConfigError


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


@settings(deadline=None)
@given(
    st.integers(1, 10**15),
    st.sampled_from(sorted(MODELS)),
    st.integers(1, 1024),
    st.integers(1, 10**6),
    st.sampled_from([1, 2, 4]),
)
def test_blocks_fill_the_memory_and_not_more(
    memory: int, name: str, block_tokens: int, context: int, gpus: int
) -> None:
    model = MODELS[name]
    tokens = 1 if model.uniform else context
    share = model.kv_bytes(tokens, tensor_parallel=gpus) * block_tokens  # of `tokens` blocks
    if memory * tokens < share:
        with pytest.raises(ConfigError, match=f"{memory} bytes hold no block"):
            blocks_in_memory(memory, model, block_tokens, context, tensor_parallel=gpus)
    else:
        blocks = blocks_in_memory(memory, model, block_tokens, context, tensor_parallel=gpus)
        assert blocks * share <= memory * tokens < (blocks + 1) * share


def test_windows_leave_room_for_more_blocks_of_long_contexts() -> None:
    gemma = model_geometry("gemma-3-12b")
    short, long = (blocks_in_memory(40 * 2**30, gemma, 16, context) for context in (1000, 100_000))
    assert short == 40 * 2**30 // (16 * 48 * 2 * 8 * 256 * 2)  # no window is full: 48 layers of 8 heads of 256
    # 100,000 tokens keep 8 layers whole, and 1,024 tokens of 40.
    assert long == 40 * 2**30 * 100_000 // (16 * (8 * 8192 * 100_000 + 40 * 8192 * 1024))


def test_a_context_must_be_named_where_it_matters() -> None:
    for name in ("gemma-3-12b", "jamba-mini"):
        with pytest.raises(ConfigError, match=f"{name} has layers with a window or a state"):
            blocks_in_memory(2**40, model_geometry(name), 16)
        with pytest.raises(ConfigError, match="context: 0 is below 1"):
            blocks_in_memory(2**40, model_geometry(name), 16, 0)
    at_context = model_geometry("gemma-3-12b").at_context(8192)
    assert blocks_in_memory(2**40, at_context, 16) == blocks_in_memory(2**40, model_geometry("gemma-3-12b"), 16, 8192)


def test_a_cache_manager_takes_a_geometry_too() -> None:
    fp8 = model_geometry("llama-3.1-8b", kv_dtype="fp8")
    assert (
        CacheManager(memory="1GiB", model=fp8).capacity
        == 2 * CacheManager(memory="1GiB", model="llama-3.1-8b").capacity
    )
    gemma = model_geometry("gemma-3-12b").at_context(32_768)
    assert CacheManager(memory="1GiB", model=gemma).capacity == blocks_in_memory(2**30, gemma, 16)
    with pytest.raises(ConfigError, match="at_context"):
        CacheManager(memory="1GiB", model="gemma-3-12b")


def test_a_block_needs_tokens() -> None:
    with pytest.raises(ConfigError, match="block_tokens: 0 is below 1"):
        blocks_in_memory(2**40, model_geometry("llama-3.1-8b"), 0)
