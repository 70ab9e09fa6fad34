"""A prefill cost learned from a server's steps: convergence, hiccups, drift, bounded memory."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import pytest

from kvopt.cost import PrefillCost, PrefillProfile, Tier, chip_cost, chip_named, model_geometry
from kvopt.errors import ConfigError, MeasurementError

TRUE = PrefillCost(18.67, 0.0799, 0.00269, 7.44e-7)
GIVEN = chip_cost(model_geometry("llama-3.1-70b"), chip_named("h100"), tensor_parallel=2)
SHAPES = ((64, 0), (2048, 0), (2048, 60_000), (64, 100_000))


def steps(count: int, seed: int, *, factor: float = 1.0, hiccups: float = 0.0) -> Iterator[tuple[int, int, float]]:
    random = np.random.default_rng(seed)
    for _ in range(count):
        new, cached = int(2 ** random.uniform(0, 13)), int(2 ** random.uniform(0, 17))
        noise = random.lognormal(0.0, 0.05) * (8.0 if random.random() < hiccups else 1.0)
        yield new, cached, TRUE.step_ms(new, cached) * factor * noise


def worst(profile: PrefillProfile, factor: float = 1.0) -> float:
    return max(abs(profile.cost.step_ms(q, s) / TRUE.step_ms(q, s) / factor - 1) for q, s in SHAPES)


def test_it_converges_though_some_steps_hiccup() -> None:
    profile = PrefillProfile(GIVEN)
    assert profile.cost is GIVEN
    assert worst(profile) > 0.5
    drifts = [profile.observe(*step) for step in steps(2000, 1, hiccups=0.02)]
    assert worst(profile) < 0.05
    assert not any(drifts)
    assert (profile.steps, profile.drifts) == (2000, 0)
    assert profile.fit is not None


def test_drift_is_seen_within_a_few_steps_and_then_learned() -> None:
    for factor in (1.5, 0.7):
        profile = PrefillProfile(GIVEN)
        for step in steps(1000, 2):
            profile.observe(*step)
        drifts = [profile.observe(*step) for step in steps(20, 3, factor=factor)]
        assert drifts.index(True) < 10
        assert sum(drifts) == 1
        assert worst(profile, factor) < 0.15  # the old shape, scaled
        for step in steps(500, 4, factor=factor):
            profile.observe(*step)
        assert worst(profile, factor) < 0.07
        assert profile.drifts == 1


def test_a_slow_change_is_followed_without_alarm() -> None:
    profile = PrefillProfile(GIVEN)
    for number, (new, cached, ms) in enumerate(steps(6000, 5)):
        profile.observe(new, cached, ms * (1.0 + number / 30_000))
    assert profile.drifts == 0
    assert worst(profile, 1.2) < 0.1


def test_where_nothing_was_seen_the_given_cost_holds_at_the_servers_speed() -> None:
    profile = PrefillProfile(TRUE)
    for new, cached, _ in steps(500, 6):
        short = min(cached, 100)
        profile.observe(new, short, 2.0 * TRUE.step_ms(new, short))
    assert worst(profile, 2.0) < 0.02


def test_one_shape_alone_sets_the_speed() -> None:
    profile = PrefillProfile(TRUE)
    for _ in range(100):
        profile.observe(512, 0, 3.0 * TRUE.step_ms(512, 0))
    assert profile.fit is None
    assert worst(profile, 3.0) < 1e-9
    assert profile.kept == 4


def test_many_short_steps_do_not_push_out_a_long_one() -> None:
    profile = PrefillProfile(GIVEN, steps_a_cell=2)
    profile.observe(4096, 100_000, TRUE.step_ms(4096, 100_000))
    for _ in range(5000):
        profile.observe(16, 0, TRUE.step_ms(16, 0))
    assert profile.kept == 3


def test_memory_is_bounded_by_the_shapes() -> None:
    profile = PrefillProfile(GIVEN)
    for step in steps(5000, 7):
        profile.observe(*step)
    assert profile.kept <= 4 * 13 * 17


def test_times_that_contradict_any_cost_leave_the_scaled_one() -> None:
    profile = PrefillProfile(TRUE, least_steps=4)
    for number in range(200):
        new = 2 ** (number % 12)
        profile.observe(new, 0, 1e4 / new)
    assert math.isfinite(profile.cost.step_ms(100, 100))


@pytest.mark.parametrize(
    ("step", "message"),
    [
        ((0, 0, 1.0), "new: 0 is not a finite number above 0"),
        ((-5, 0, 1.0), "new: -5"),
        ((1, -1, 1.0), "cached: -1 is not a finite number of 0 or more"),
        ((1, -0.5, 1.0), "cached: -0.5 is not a finite number of 0 or more"),
        ((1, 0, 0.0), "ms: 0.0"),
        ((1, 0, math.nan), "ms: nan"),
        ((math.inf, 0, 1.0), "new: inf"),
    ],
)
def test_impossible_steps_change_nothing(step: tuple[float, float, float], message: str) -> None:
    profile = PrefillProfile(GIVEN)
    with pytest.raises(MeasurementError, match=message):
        profile.observe(*step)
    assert (profile.steps, profile.kept) == (0, 0)


def test_counts_must_be_whole() -> None:
    for name in ("steps_a_cell", "refit_every", "least_steps"):
        with pytest.raises(ConfigError, match=f"{name}: 0 is not a whole number of 1 or more"):
            PrefillProfile(GIVEN, **{name: 0})


def test_with_a_tier_loading_counts() -> None:
    model, profile = model_geometry("llama-3.1-8b"), PrefillProfile(replace(TRUE, k0=0.0))
    compute, tier = profile.restore(model, 10_000), Tier("cpu", 50e9)
    assert compute.way == "recompute"
    assert compute.ms == profile.cost.prefill_ms(10_000)
    assert profile.restore(model, 10_000, tier=tier).ms <= tier.reload_ms(model.kv_bytes(10_000)) < compute.ms
