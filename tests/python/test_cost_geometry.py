"""Geometries: the published figures, and bytes and operations against layer-by-layer sums."""

from __future__ import annotations

import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kvopt.cost import MODELS, LayerGroup, ModelGeometry, model_geometry
from kvopt.errors import ConfigError

# Policies' table of prefill costs: KV bytes a token, p*, f(32k)/f(0), f(128k)/f(0), seconds to compute 32k tokens at
# 500 TF/s, ms to load them at 50 GB/s. Its author took the shapes from memory and rounded the parameters; the last
# column is how far p* may be off for that.
TABLE = [
    ("llama-3.1-8b", 131_072, 28_600, 2.15, 5.6, 1.55, 86, 0.002),
    ("llama-3.1-70b", 327_680, 53_000, 1.62, 3.5, 11.9, 215, 0.002),
    ("qwen3-30b-a3b", 98_304, 7_600, 5.3, 18, 1.24, 64, 0.02),
    ("deepseek-v3", 70_272, 14_600, 3.2, 10, 10.2, 46, 0.005),
    ("gemma-3-12b", 65_536, 168_000, 1.23, 1.8, 1.63, 50, 0.07),
]
K32, K128 = 32_768, 131_072


@pytest.mark.parametrize(("name", "kv", "p_star", "at_32k", "at_128k", "compute", "load", "off"), TABLE)
def test_the_published_table(
    name: str, kv: int, p_star: float, at_32k: float, at_128k: float, compute: float, load: float, off: float
) -> None:
    model = model_geometry(name)
    assert model.growing_bytes() == kv
    assert model.p_star == pytest.approx(p_star, rel=off)
    first = model.token_flops(0)
    # Figures are given to two or three digits; a relative error of p* moves each by at most as much.
    assert model.token_flops(K32) / first == pytest.approx(at_32k, rel=off + 0.015)
    assert model.token_flops(K128) / first == pytest.approx(at_128k, rel=off + 0.015)
    assert model.prefill_flops(K32) / 500e12 == pytest.approx(compute, rel=off + 0.005)
    assert 1000 * model.kv_bytes(K32) / 50e9 == pytest.approx(load, rel=0.01)


def test_gemma_keeps_a_window_beside_full_attention() -> None:
    model = model_geometry("gemma-3-12b")
    for tokens in (1, 1024, 1025, 100_000):
        assert model.kv_bytes(tokens) == 65_536 * tokens + 327_680 * min(tokens, 1024)
    assert not model.uniform
    assert model.at_context(2048).bytes_per_token == 65_536 + 327_680 / 2


def test_qwen3_agrees_with_the_slope_that_asymcache_measured() -> None:
    # A block of 16 tokens costs 865 + 2·index: 1 + 2·(32k/16)/865 at 32k tokens.
    model = model_geometry("qwen3-coder-30b-a3b")
    assert model.token_flops(K32) / model.token_flops(0) == pytest.approx(1 + 2 * (K32 / 16) / 865, rel=0.1)


@pytest.mark.parametrize(
    ("name", "total", "active"),
    [  # billions, as their authors state them; embeddings count only in the first
        ("llama-3.1-8b", 8.03, 7.5),
        ("llama-3.1-70b", 70.6, 69.5),
        ("llama-3.1-405b", 405.9, 403.7),
        ("qwen3-30b-a3b", 30.5, 3.3),
        ("qwen3-235b-a22b", 235.1, 22.0),
        ("qwen3-coder-480b-a35b", 480.2, 35.0),
        ("qwen3-next-80b-a3b", 79.7, 3.6),
        ("deepseek-v3", 671.0, 37.0),
        ("kimi-k2", 1026.0, 32.0),
        ("glm-4.5-air", 106.9, 12.4),
        ("gemma-3-12b", 11.8, 11.8),
        ("gpt-oss-20b", 20.9, 3.6),
        ("gpt-oss-120b", 116.8, 5.1),
        ("mixtral-8x7b", 46.7, 12.9),
        ("jamba-mini", 51.6, 12.0),
        ("falcon-h1-34b", 33.6, 32.3),
        ("nemotron-3-nano-30b", 31.6, 3.5),
    ],
)
def test_parameters_are_those_that_the_authors_state(name: str, total: float, active: float) -> None:
    model = MODELS[name]
    assert model.total_parameters / 1e9 == pytest.approx(total, rel=0.005)
    assert model.active_parameters / 1e9 == pytest.approx(active, rel=0.1)
    assert model.active_parameters <= model.total_parameters


def test_states_as_their_engines_allocate_them() -> None:
    (_, state) = MODELS["nemotron-3-nano-30b"].groups
    assert (state.layers, state.state_bytes) == (23, 6144 * 3 * 2 + 64 * 64 * 128 * 4)


def test_names_in_any_case_and_the_nearest_of_unknown_ones() -> None:
    assert model_geometry("Llama-3.1-8B") is MODELS["llama-3.1-8b"]
    assert all("config.json" in model.source for model in MODELS.values())
    with pytest.raises(ConfigError, match=r"unknown model 'llama-3\.1-8': did you mean 'llama-3\.1-8b'\? known: "):
        model_geometry("llama-3.1-8")


groups = st.one_of(
    st.builds(
        LayerGroup,
        kind=st.just("full"),
        layers=st.integers(1, 5),
        kv_heads=st.sampled_from([1, 2, 4, 8]),
        values_per_head=st.integers(1, 300),
        pair_flops=st.integers(1, 1000),
    ),
    st.builds(
        LayerGroup,
        kind=st.sampled_from(["window", "chunk"]),
        layers=st.integers(1, 5),
        kv_heads=st.sampled_from([1, 2, 4, 8]),
        values_per_head=st.integers(1, 300),
        pair_flops=st.integers(1, 1000),
        window=st.integers(1, 50),
    ),
    st.builds(
        LayerGroup,
        kind=st.just("state"),
        layers=st.integers(1, 5),
        state_bytes=st.integers(1, 5000),
        scan_flops=st.integers(0, 1000),
    ),
)
models = st.builds(
    ModelGeometry,
    name=st.just("made"),
    groups=st.lists(groups, min_size=1, max_size=4).map(tuple),
    active_parameters=st.integers(1, 10_000),
    total_parameters=st.just(20_000),
    query_heads=st.just(16),
    kv_dtype=st.sampled_from(["bf16", "fp8"]),
    source=st.just("made"),
)


@settings(deadline=None)
@given(models, st.integers(0, 200), st.integers(0, 200), st.sampled_from([1, 2, 8, 16]))
def test_bytes_are_the_sum_over_layers_and_tokens(model: ModelGeometry, cached: int, new: int, gpus: int) -> None:
    end = cached + new
    expected = 0
    for group in model.groups:
        heads = math.ceil(group.kv_heads / gpus)
        first_kept = 0 if group.window is None else end - group.window
        kept = sum(1 for position in range(cached, end) if position >= first_kept)
        expected += group.layers * kept * heads * group.values_per_head * (1 if model.kv_dtype == "fp8" else 2)
        expected += group.layers * math.ceil(group.state_bytes / gpus) if new else 0
    assert model.kv_bytes(end, cached=cached, tensor_parallel=gpus) == expected


@settings(deadline=None)
@given(models, st.integers(0, 120), st.integers(0, 120))
def test_prefill_is_the_integral_of_the_tokens_costs(model: ModelGeometry, cached: int, new: int) -> None:
    # Between whole positions every layer's cost is linear but for a chunk's start, so the middle gives the integral.
    steps = [model.token_flops(position + 0.5) for position in range(cached, cached + new)]
    assert model.prefill_flops(new, cached=cached) == pytest.approx(sum(steps), rel=1e-9, abs=1e-6)


@settings(deadline=None)
@given(models, st.integers(0, 100), st.integers(0, 100), st.integers(0, 100))
def test_prefill_in_parts_is_the_whole(model: ModelGeometry, cached: int, first: int, second: int) -> None:
    parts = model.prefill_flops(first, cached=cached) + model.prefill_flops(second, cached=cached + first)
    assert parts == pytest.approx(model.prefill_flops(first + second, cached=cached), rel=1e-9)


def test_p_star_is_where_full_attention_doubles_the_cost() -> None:
    model = model_geometry("llama-3.1-8b")
    assert model.token_flops(model.p_star) == pytest.approx(2 * model.token_flops(0), rel=1e-12)


def test_without_full_attention_there_is_no_p_star() -> None:
    window = LayerGroup("window", 2, 1, 64, 100, window=8)
    model = ModelGeometry("made", (window,), 10, 10, 1, "bf16", "made")
    assert model.p_star == math.inf
    assert model.growing_bytes() == 0


def test_tensor_parallelism_shares_heads_but_not_latents() -> None:
    grouped, latent = model_geometry("llama-3.1-70b"), model_geometry("deepseek-v3")
    assert grouped.kv_bytes(100, tensor_parallel=4) == grouped.kv_bytes(100) // 4
    assert grouped.kv_bytes(100, tensor_parallel=16) == grouped.kv_bytes(100) // 8  # each of 8 heads is kept twice
    assert latent.kv_bytes(100, tensor_parallel=8) == latent.kv_bytes(100)


@pytest.mark.parametrize(
    ("gpus", "message"),
    [(0, "0 is below 1"), (3, "3 does not divide the 32 heads"), (64, "64 does not divide the 32 heads")],
)
def test_tensor_parallelism_must_divide_the_heads(gpus: int, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        model_geometry("llama-3.1-8b").kv_bytes(1, tensor_parallel=gpus)


def test_tensor_parallelism_must_divide_the_kv_heads() -> None:
    group = LayerGroup("full", 1, 6, 64, 100)
    with pytest.raises(ConfigError, match="4 and the 6 KV heads of made do not divide"):
        ModelGeometry("made", (group,), 10, 10, 12, "bf16", "made").check_tensor_parallel(4)


@pytest.mark.parametrize(
    ("dtype", "share"), [("fp8", 2), ("fp8_e4m3", 2), ("FP16", 1), ("torch.bfloat16", 1), ("int8", 2)]
)
def test_kv_dtypes(dtype: str, share: int) -> None:
    assert model_geometry("llama-3.1-8b", kv_dtype=dtype).bytes_per_token == 131_072 // share


def test_an_unknown_kv_dtype_is_named() -> None:
    with pytest.raises(ConfigError, match="KV dtype 'fp3' is unknown; known: bf16"):
        model_geometry("llama-3.1-8b", kv_dtype="fp3")


@pytest.mark.parametrize(("tokens", "cached"), [(-1, 0), (5, 6), (5, -1), (float("nan"), 0), (float("inf"), 0)])
def test_impossible_tokens_are_refused(tokens: int, cached: int) -> None:
    with pytest.raises(ConfigError, match=r"tokens: |cached: "):
        model_geometry("llama-3.1-8b").kv_bytes(tokens, cached=cached)
