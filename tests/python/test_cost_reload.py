"""Reload from tiers, and the best split between computing and loading."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kvopt.cost import LostPrefix, PrefillCost, Tier, compute_cost, model_geometry, parse_tier
from kvopt.errors import ConfigError

LLAMA = model_geometry("llama-3.1-8b")
LOST = LostPrefix(compute_cost(LLAMA, 500e12), LLAMA, 32_768)


def test_the_published_split_of_32k_tokens() -> None:
    # 149 ms at k = 4,352, 172 ms loading alone, 1,546 ms computing alone; found in steps of 256 tokens.
    tier = Tier("cpu", 25e9)
    lost = replace(LOST, block_tokens=256)
    split = lost.split(tier)
    assert (split.way, round(split.ms), split.recomputed, split.reloaded) == ("split", 149, 4352, 32_768 - 4352)
    assert round(lost.reload(tier).ms) == 172
    assert lost.recompute().ms == pytest.approx(1546, abs=1)
    assert lost.best(tier) == split
    # In blocks of 16 tokens it is a little better.
    assert LOST.split(tier).ms < split.ms


@pytest.mark.parametrize(
    ("model", "break_even"),
    [("llama-3.1-8b", 2.8), ("qwen3-30b-a3b", 2.6), ("llama-3.1-70b", 0.9), ("deepseek-v3", 0.2)],
)
def test_the_published_break_even_bandwidths(model: str, break_even: float) -> None:
    geometry = model_geometry(model)
    lost = LostPrefix(compute_cost(geometry, 500e12), geometry, 32_768)
    assert lost.break_even_bandwidth() / 1e9 == pytest.approx(break_even, abs=0.05)


def test_at_the_break_even_bandwidth_loading_takes_as_long_as_computing() -> None:
    for latency in (0.0, 0.5):
        tier = Tier("far", LOST.break_even_bandwidth(latency), latency)
        assert LOST.reload(tier).ms == pytest.approx(LOST.recompute().ms, rel=1e-12)
    assert LOST.break_even_bandwidth(2.0) == math.inf


@settings(deadline=None)
@given(
    st.sampled_from(["llama-3.1-8b", "gemma-3-12b", "jamba-mini", "deepseek-v3"]),
    st.integers(1, 600),
    st.integers(0, 3000),
    st.sampled_from([1, 7, 16, 64]),
    st.floats(1e7, 1e12),
    st.sampled_from([0.0, 1e-5, 1e-3, 1.0]),
    st.sampled_from([0.0, 5.0]),
    st.sampled_from([1, 8]),
)
def test_the_split_is_the_best_of_all_cuts(
    name: str, tokens: int, cached: int, block: int, bandwidth: float, latency: float, k0: float, gpus: int
) -> None:
    model, tier = model_geometry(name), Tier("tier", bandwidth, latency)
    cost = replace(compute_cost(model, 1e14), k0=k0)
    lost = LostPrefix(cost, model, tokens, cached, block, gpus, step_tokens=128)
    ways = []
    for head in [*range(0, tokens, block), tokens]:
        compute = cost.prefill_ms(head, cached, step_tokens=128)
        size = model.kv_bytes(cached + tokens, cached=cached + head, tensor_parallel=gpus)
        load = 1000 * (latency + size / bandwidth) if head < tokens else 0.0
        ways.append(max(compute, load))
    assert lost.best(tier).ms == pytest.approx(min(ways), rel=1e-9)
    assert lost.split(tier).ms == pytest.approx(min(ways), rel=1e-9)
    assert lost.best(tier).ms <= min(lost.recompute().ms, lost.reload(tier).ms)
    found = lost.best(tier)
    assert found.recomputed + found.reloaded == tokens


def test_without_a_tier_the_loss_is_the_prefill() -> None:
    assert LOST.best(None) == LOST.recompute()
    assert LOST.recompute().ms == LOST.cost.prefill_ms(32_768)


def test_what_lies_deeper_costs_more_to_compute_and_the_same_to_load() -> None:
    tier = Tier("cpu", 25e9)
    deep = replace(LOST, tokens=1024, cached=100_000)
    shallow = replace(deep, cached=0)
    assert deep.recompute().ms > 4 * shallow.recompute().ms
    assert deep.reload(tier).ms == shallow.reload(tier).ms


def test_each_gpu_loads_its_share() -> None:
    assert replace(LOST, tensor_parallel=4).kv_bytes() * 4 == LOST.kv_bytes()


def test_nothing_to_load_takes_no_time() -> None:
    assert Tier("cpu", 1e9, 1.0).reload_ms(0) == 0.0


@pytest.mark.parametrize(
    ("text", "bandwidth", "latency"),
    [
        ("cpu:50GB/s:10us", 50e9, 10e-6),
        ("ssd: 7 GB/s : 0.1ms", 7e9, 1e-4),
        ("net:512MiB/s", 512 * 2**20, 0.0),
        ("far:1.5tb/s:2S", 1.5e12, 2.0),
        ("x:100mb/s:5µs", 1e8, 5e-6),
    ],
)
def test_tiers_as_text(text: str, bandwidth: float, latency: float) -> None:
    tier = parse_tier(text)
    assert (tier.bandwidth, tier.latency) == pytest.approx((bandwidth, latency))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "write NAME:BANDWIDTH:LATENCY"),
        ("cpu", "write NAME:BANDWIDTH:LATENCY"),
        (":50GB/s", "write NAME:BANDWIDTH:LATENCY"),
        ("cpu:50GB/s:1us:2", "write NAME:BANDWIDTH:LATENCY"),
        ("cpu:50GB", "bandwidth '50GB' is not a number and one of mb/s"),
        ("cpu:-5GB/s", "bandwidth '-5GB/s'"),
        ("cpu:nanGB/s", "bandwidth 'nanGB/s'"),
        ("cpu:0GB/s", "bandwidth 0.0 B/s is not a finite number above 0"),
        ("cpu:1GB/s:10", "latency '10' is not a number and one of ns"),
        ("cpu:1GB/s:10m", "latency '10m'"),
    ],
)
def test_bad_tiers(text: str, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        parse_tier(text)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"tokens": 0}, "tokens: 0 is not a whole number of 1"),
        ({"tokens": 1.5}, "tokens: 1.5"),
        ({"cached": -1}, "cached: -1"),
        ({"block_tokens": 0}, "block_tokens: 0"),
        ({"step_tokens": 0}, "step_tokens: 0"),
        ({"tensor_parallel": 3}, "3 does not divide"),
    ],
)
def test_impossible_prefixes(change: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        replace(LOST, **change)


@pytest.mark.parametrize(
    ("bandwidth", "latency"), [(0.0, 0.0), (math.inf, 0.0), (math.nan, 0.0), (1.0, -1.0), (1.0, math.nan)]
)
def test_impossible_tiers(bandwidth: float, latency: float) -> None:
    with pytest.raises(ConfigError, match="tier x: "):
        Tier("x", bandwidth, latency)
    with pytest.raises(ConfigError, match="tier x: -1 bytes"):
        Tier("x", 1.0).reload_ms(-1)


def test_a_cost_without_context_splits_too() -> None:
    flat = replace(LOST, cost=PrefillCost(0.0, 1.0, 0.0, 0.0), tokens=1000, block_tokens=1)
    token_bytes = LLAMA.kv_bytes(1)
    assert flat.split(Tier("x", token_bytes * 1000.0)).recomputed == 500  # a token a ms each
