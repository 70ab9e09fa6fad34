"""Prefill cost in units of a first token and in milliseconds, of chips and of published presets."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kvopt.cost import (
    CHIPS,
    MODELS,
    PRESETS,
    PrefillCost,
    chip_cost,
    chip_named,
    compute_cost,
    model_geometry,
    p_star_of,
    prefill_cost,
    prefill_preset,
)
from kvopt.errors import ConfigError


@settings(deadline=None)
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


def test_a_step_is_the_bilinear_form() -> None:
    cost = PrefillCost(10.0, 0.5, 0.25, 0.001)
    assert cost.step_ms(100, 2000) == 10 + 50 + 500 + 200
    assert cost.token_ms(2000) == 0.5 + 2.0
    assert cost.p_star == 500
    assert cost.token_ms(cost.p_star) == 2 * cost.token_ms(0)


coefficients = st.floats(0.0, 10.0)
counts = st.integers(0, 5000)


@settings(deadline=None)
@given(coefficients, st.floats(0.01, 10.0), coefficients, coefficients, counts, counts, st.integers(1, 3000))
def test_a_prefill_pays_every_token_for_its_place_and_every_step_once(
    k0: float, k1: float, k2: float, k3: float, new: int, cached: int, step: int
) -> None:
    cost = PrefillCost(k0, k1, k2, k3)
    starts = range(0, new, step)
    steps = sum(k0 + k2 * (cached + start) for start in starts)
    tokens = sum(k1 + k3 * (cached + position + 0.5) for position in range(new))
    assert cost.prefill_ms(new, cached, step_tokens=step) == pytest.approx(steps + tokens, rel=1e-9)


def test_small_steps_add_up_to_the_sum_of_their_times() -> None:
    cost = PrefillCost(0.0, 0.1, 0.01, 1e-5)
    steps = sum(cost.step_ms(1, cached) for cached in range(1000))
    assert cost.prefill_ms(1000, step_tokens=1) == pytest.approx(steps, rel=1e-4)


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ((-1, 1, 0, 0), "k0: -1"),
        ((0, 0, 0, 0), "k1: 0 must be above 0"),
        ((0, 1, float("nan"), 0), "k2: nan"),
        ((0, 1, 0, float("inf")), "k3: inf"),
        ((0, "1", 0, 0), "k1: '1' is not a number"),
        ((True, 1, 0, 0), "k0: True"),
    ],
)
def test_coefficients_that_no_prefill_has(values: tuple[float, float, float, float], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        PrefillCost(*values)


@pytest.mark.parametrize(
    ("new", "cached", "step", "message"),
    [
        (-1, 0, 1, "new tokens: -1"),
        (1, float("nan"), 1, "cached tokens: nan"),
        (float("inf"), 0, 1, "new tokens: inf"),
        (1, 0, 0, "step_tokens: 0 is below 1"),
    ],
)
def test_impossible_counts(new: float, cached: float, step: int, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        PrefillCost(1, 1, 1, 1).prefill_ms(new, cached, step_tokens=step)


@pytest.mark.parametrize("name", sorted(MODELS))
def test_computing_at_a_rate_is_the_models_operations_over_it(name: str) -> None:
    model = MODELS[name]
    cost = compute_cost(model, 2e14)
    assert (cost.k0, cost.k2) == (0.0, 0.0)
    # Far from the start the windows are full; there both grow alike, over whole chunks.
    far = 1 << 20
    grown = model.prefill_flops(8192, cached=far) / 2e11
    assert cost.prefill_ms(8192, far) == pytest.approx(grown, rel=1e-9)
    assert cost.prefill_ms(32_768) >= model.prefill_flops(32_768) / 2e11 * (1 - 1e-12)


def test_a_chip_reads_weights_once_a_step_and_the_cache_of_what_is_in_front() -> None:
    model, chip = model_geometry("llama-3.1-70b"), chip_named("H100")
    cost = chip_cost(model, chip, tensor_parallel=2, efficiency=0.4)
    assert cost.k0 == pytest.approx(model.total_parameters * 2 / 2 / 3.35e12 * 1e3, rel=1e-12)
    assert cost.k1 == pytest.approx(2 * model.active_parameters / (2 * 989.4e12 * 0.4) * 1e3, rel=1e-12)
    assert cost.k2 == pytest.approx(327_680 / 2 / 3.35e12 * 1e3, rel=1e-12)
    assert cost.p_star == pytest.approx(model.p_star, rel=1e-12)
    assert "2 × h100 at 40% of its bf16 peak" in cost.source
    fp8 = chip_cost(model, chip, tensor_parallel=2, efficiency=0.4, dtype="fp8")
    assert fp8.k0 * 2 == pytest.approx(cost.k0)
    assert fp8.k1 * 1978.9 == pytest.approx(cost.k1 * 989.4)


def test_a_step_without_tokens_to_spare_costs_what_preble_measured() -> None:
    # Preble's 18.67 and 28.93 ms a step of Llama-3-70B on two H100 and two A100: reading the weights explains them.
    model = model_geometry("llama-3.1-70b")
    for chip in ("h100", "a100"):
        measured = PRESETS[f"preble-llama-70b-{chip}-tp2"].cost.k0
        assert chip_cost(model, CHIPS[chip], tensor_parallel=2).k0 == pytest.approx(measured, rel=0.2)


@pytest.mark.parametrize(
    ("chip", "options", "message"),
    [
        ("a100", {"dtype": "fp8"}, "a100 has no fp8 matrix units"),
        ("a100", {"dtype": "int4"}, "dtype 'int4' is unknown; known: bf16, fp8"),
        ("a100", {"efficiency": 0.0}, "efficiency: 0.0 is not above 0"),
        ("a100", {"efficiency": 1.1}, "efficiency: 1.1"),
        ("a100", {"tensor_parallel": 3}, "3 does not divide"),
    ],
)
def test_impossible_hardware(chip: str, options: dict[str, float], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        chip_cost(model_geometry("llama-3.1-8b"), CHIPS[chip], **options)  # type: ignore[arg-type]


def test_a_rate_must_be_finite() -> None:
    for rate in (0.0, -1.0, math.inf, math.nan):
        with pytest.raises(ConfigError, match="operations a second"):
            compute_cost(model_geometry("llama-3.1-8b"), rate)


def test_every_chip_has_plausible_figures_and_a_source() -> None:
    for chip in CHIPS.values():
        assert chip.fp8_tflops is None or 1.9 <= chip.fp8_tflops / chip.bf16_tflops <= 2.1
        assert 20 < chip.bf16_tflops * 1e3 / chip.memory_gb_s < 700  # operations a byte
        assert chip.host_gb_s < chip.memory_gb_s
        assert "data sheet" in chip.source or "paper" in chip.source


def test_presets_have_the_published_coefficients() -> None:
    h100, a100 = (prefill_preset(f"preble-llama-70b-{chip}-tp2").cost for chip in ("h100", "a100"))
    assert (h100.k0, h100.k1, h100.k2, h100.k3) == (18.67, 0.0799, 0.00269, 7.44e-7)
    assert (a100.k0, a100.k1, a100.k2, a100.k3) == (28.93, 0.182, 0.0040, 2.55e-6)
    assert PRESETS["infercept"].cost.step_ms(384) == pytest.approx(15.4 + 0.0279 * 384)
    assert all(preset.source and (preset.model is None or preset.model in MODELS) for preset in PRESETS.values())


def test_unknown_names_suggest_the_nearest() -> None:
    with pytest.raises(
        ConfigError, match="unknown prefill preset 'preble-llama-70b-h100': did you mean 'preble-llama-70b-h100-tp2'"
    ):
        prefill_preset("preble-llama-70b-h100")
    with pytest.raises(ConfigError, match="unknown chip 'h10': did you mean 'h100'"):
        chip_named("h10")
    with pytest.raises(ConfigError, match="unknown model or prefill preset 'infercep': did you mean 'infercept'"):
        p_star_of("infercep")


def test_p_star_of_anything_is_finite() -> None:
    assert p_star_of("preble-llama-70b-h100-tp2") == pytest.approx(0.0799 / 7.44e-7)
    assert p_star_of("Llama-3.1-8B") == model_geometry("llama-3.1-8b").p_star
    assert p_star_of("infercept") == 1e12
    for model in MODELS.values():
        assert prefill_cost(100, p_star_of(model)) >= 100
