"""The price of memory and the forecast of waits follow the demand for blocks."""

from __future__ import annotations

import math

import pytest

from kvopt.continuum.price import BlockPrice, QueueForecast
from kvopt.errors import ConfigError


def test_memory_is_free_while_it_covers_the_demand() -> None:
    price = BlockPrice(100)
    for second in range(100):
        price.observe(float(second), available=50, wanted=50, waiting=5)
    assert price.price(100.0) == 0.0


def test_all_who_wait_pay_for_a_block_that_is_held() -> None:
    price = BlockPrice(100, time_constant=10.0)
    for second in range(200):
        price.observe(float(second), available=0, wanted=400, waiting=4)
    assert price.price(200.0) == pytest.approx(4 / 100, rel=1e-3)
    for second in range(200, 400):
        price.observe(float(second), available=100, wanted=400, waiting=4)
    assert price.price(400.0) == pytest.approx(0.75 * 4 / 100, rel=1e-3)


def test_the_price_is_a_mean_over_time_whatever_the_steps() -> None:
    fine, coarse = BlockPrice(50, 10.0), BlockPrice(50, 10.0)
    fine.observe(0.0, available=10, wanted=0, waiting=0)
    coarse.observe(0.0, available=10, wanted=0, waiting=0)
    for i in range(1001):
        fine.observe(5.0 + i * 0.01, available=0, wanted=50, waiting=1)
    coarse.observe(5.0, available=0, wanted=50, waiting=1)
    assert fine.price(15.0) == pytest.approx(coarse.price(15.0))
    assert coarse.price(15.0) == pytest.approx((1 - math.exp(-1.0)) / 50)


def test_the_price_falls_back_to_zero_when_the_demand_is_met_again() -> None:
    price = BlockPrice(100, 10.0)
    price.observe(0.0, available=0, wanted=50, waiting=1)
    price.observe(100.0, available=50, wanted=0, waiting=0)
    assert price.price(100.0) > 0.0
    assert price.price(100.0 + 10.0) == pytest.approx(price.price(100.0) * math.exp(-1.0))
    assert price.price(100.0 + 1000.0) == 0.0


def test_what_is_evicted_sets_the_price_and_is_forgotten() -> None:
    price = BlockPrice(100, 10.0)
    for i in range(100):
        price.observe_eviction(i * 0.001, 0.2)
    assert price.price(0.1) == pytest.approx(0.2, rel=0.02)
    assert price.price(1000.0) == 0.0


@pytest.mark.parametrize("time_constant", [0.0, -1.0, math.nan, math.inf])
def test_a_bad_time_constant_is_refused(time_constant: float) -> None:
    with pytest.raises(ConfigError, match="time_constant"):
        BlockPrice(100, time_constant)


def test_a_pool_without_blocks_is_refused() -> None:
    with pytest.raises(ConfigError, match="capacity: 0"):
        BlockPrice(0)


def test_a_session_without_its_blocks_waits_for_those_in_front_and_its_own() -> None:
    forecast = QueueForecast(time_constant=100.0)
    assert forecast.gain(ahead=50.0, blocks=10, available=0) == 0.0  # nothing known of how blocks come
    for second in range(1000):
        forecast.on_release(float(second), 5)
    forecast.on_wait(1000.0)
    assert forecast.gain(ahead=50.0, blocks=10, available=0) == pytest.approx(60 / 5, rel=0.02)
    assert forecast.gain(ahead=50.0, blocks=10, available=60) == 0.0


def test_a_forecast_does_not_exceed_what_anybody_has_waited_of_late() -> None:
    forecast = QueueForecast(time_constant=100.0)
    forecast.on_release(0.0, 1)
    forecast.on_wait(3.0)
    assert forecast.gain(ahead=1e6, blocks=10, available=0) == 3.0
    for _ in range(500):
        forecast.on_wait(0.1)
    assert forecast.gain(ahead=1e6, blocks=10, available=0) == pytest.approx(0.1)
