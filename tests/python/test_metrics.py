"""Samples, series, intervals and event logs."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kvopt.errors import ConfigError
from kvopt.metrics import EventKind, EventLog, ExactSample, QuantileSketch, TimeSeries, confidence
from kvopt.metrics.events import write_events

SECONDS = st.floats(0, 9e6).map(lambda value: 0.0 if value < 1e-6 else value)


@given(st.lists(SECONDS, min_size=1, max_size=200))
def test_the_sketch_is_within_a_percent(values: list[float]) -> None:
    exact, sketch = ExactSample(), QuantileSketch()
    for value in values:
        exact.add(value)
        sketch.add(value)
    found, true = sketch.distribution(), exact.distribution()
    assert found.count == true.count
    assert found.mean == pytest.approx(true.mean)
    assert found.max == true.max
    ordered = sorted(values)
    for quantile, value in ((0.5, found.p50), (0.9, found.p90), (0.99, found.p99)):
        held = ordered[max(1, math.ceil(quantile * len(values))) - 1]
        assert value == pytest.approx(held, rel=0.0101, abs=1e-6)


def test_exact_quantiles_are_those_of_numpy() -> None:
    values = np.random.default_rng(1).exponential(3.0, 1000)
    sample = ExactSample()
    for value in values.tolist():
        sample.add(value)
    found = sample.distribution()
    assert (found.p50, found.p90, found.p99) == tuple(np.quantile(values, [0.5, 0.9, 0.99]))
    assert found.mean == pytest.approx(values.mean())


@pytest.mark.parametrize("make", [ExactSample, QuantileSketch])
def test_weights_and_histograms(make: type[ExactSample] | type[QuantileSketch]) -> None:
    sample = make()
    assert math.isnan(sample.distribution().p50)
    assert sample.histogram() == {"edge": [], "count": []}
    sample.add(0.0)
    sample.add(1.5, 3)
    sample.add(150.0)
    assert sample.distribution().count == 5
    histogram = sample.histogram()
    assert sum(histogram["count"]) == 5
    assert len(histogram["edge"]) == len(histogram["count"]) + 1
    (three,) = [index for index, count in enumerate(histogram["count"]) if count == 3]
    assert histogram["edge"][three] <= 1.5 < histogram["edge"][three + 1]


def test_accuracy_is_checked() -> None:
    with pytest.raises(ConfigError, match="accuracy: 2"):
        QuantileSketch(2)


def test_a_series_stays_within_its_points_and_loses_nothing() -> None:
    series = TimeSeries(("level",), ("things",), points=8)
    for second in range(100):
        series.hold(float(second), second + 1.0, float(second))
        series.count(second + 0.5, "things", 2)
    found = series.to_dict()
    assert found["bucket_s"] == 16.0
    assert found["begin_s"] == [0, 16, 32, 48, 64, 80, 96]
    assert sum(found["things"]) == 200  # type: ignore[call-overload]
    assert found["level"][0] == pytest.approx(7.5)  # type: ignore[index]
    assert found["level"][-1] == pytest.approx((96 + 97 + 98 + 99) / 4)  # type: ignore[index]


def test_gauges_hold_over_long_intervals() -> None:
    series = TimeSeries(("level",), (), points=4)
    series.hold(0.5, 3.25, 2.0)
    series.hold(3.25, 3.75, 4.0)
    assert series.to_dict()["level"] == [2.0, 2.0, 2.0, pytest.approx((0.25 * 2 + 0.5 * 4) / 0.75)]
    series.hold(5.0, 5.0, 5.0)  # no time, no effect
    series.hold(7.0, 7.5, 1.0)  # past the end: buckets of two seconds from now on
    assert series.to_dict()["level"] == [2.0, pytest.approx((1.25 * 2 + 0.5 * 4) / 1.75), None, 1.0]


def test_points_are_checked() -> None:
    with pytest.raises(ConfigError, match="points: 1"):
        TimeSeries((), (), points=1)


def test_intervals_are_those_of_students_t() -> None:
    # Five values with mean 3 and variance 2.5: 2.776 · √(2.5 / 5).
    found = confidence([1, 2, 3, 4, 5])
    assert (found.runs, found.mean) == (5, 3.0)
    assert found.half_width == pytest.approx(2.776 * math.sqrt(0.5))
    assert math.isnan(confidence([1.0]).half_width)
    assert confidence([1.0, math.nan, 1.0]).half_width == 0.0
    assert confidence([]).runs == 0
    assert confidence(list(range(100))).half_width == pytest.approx(1.96 * np.std(range(100), ddof=1) / 10, rel=1e-3)


def test_events_are_written_as_parquet(tmp_path: Path) -> None:
    log = EventLog()
    log.add(0.5, EventKind.ARRIVED, 7, 100)
    log.add(0.75, EventKind.ADMITTED, 7, 64)
    write_events(
        tmp_path / "events.parquet", [({"policy": "lru", "seed": 0}, log), ({"policy": "fifo", "seed": 1}, log)]
    )
    table = pq.read_table(tmp_path / "events.parquet").to_pylist()
    assert len(table) == 4
    assert table[3] == {
        "policy": "fifo", "seed": 1, "time_s": 0.75, "event": "admitted", "request": 7, "amount": 64,
    }  # fmt: skip
