"""Fitting T(q, s) to measured steps: exact data, noise, outliers, points that cannot tell, and files."""

from __future__ import annotations

import math
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kvopt.cost import PrefillCost, PrefillFit, fit_prefill, fit_prefill_csv, prefill_points, read_points
from kvopt.errors import MeasurementError, PoorFitWarning

TRUE = PrefillCost(18.67, 0.0799, 0.00269, 7.44e-7)


def measured(cost: PrefillCost, count: int = 80, seed: int = 1) -> tuple[Any, Any, Any]:
    random = np.random.default_rng(seed)
    new = random.integers(16, 8192, count).astype(float)
    cached = random.integers(0, 120_000, count).astype(float)
    return new, cached, np.array([cost.step_ms(q, s) for q, s in zip(new, cached, strict=True)])


def near(found: PrefillCost, true: PrefillCost, rel: float) -> None:
    assert (found.k0, found.k1, found.k2, found.k3) == pytest.approx((true.k0, true.k1, true.k2, true.k3), rel=rel)


def test_exact_points_give_the_coefficients_back() -> None:
    fit = fit_prefill(*measured(TRUE))
    near(fit.cost, TRUE, 1e-6)
    assert fit.r2 == pytest.approx(1.0)
    assert fit.rmse_ms < 1e-6
    assert fit.max_relative_error < 1e-6
    assert (fit.outliers, fit.warnings) == (0, ())
    assert np.abs(fit.residuals).max() < 1e-6


@settings(max_examples=50, deadline=None)
@given(
    st.sampled_from([0.0, 0.1, 20.0]),
    st.floats(1e-3, 1.0),
    st.sampled_from([0.0, 1e-4, 1e-2]),
    st.sampled_from([0.0, 1e-7, 1e-5]),
    st.integers(0, 1000),
)
def test_any_cost_is_found_also_with_zeros(k0: float, k1: float, k2: float, k3: float, seed: int) -> None:
    true = PrefillCost(k0, k1, k2, k3)
    found = fit_prefill(*measured(true, seed=seed)).cost
    for q, s in ((16, 0), (2048, 0), (16, 100_000), (8192, 120_000)):
        assert found.step_ms(q, s) == pytest.approx(true.step_ms(q, s), rel=1e-4)


def test_noise_of_a_few_percent_moves_them_a_few_percent() -> None:
    new, cached, ms = measured(TRUE, 400)
    noisy = ms * np.random.default_rng(2).lognormal(0.0, 0.03, len(ms))
    fit = fit_prefill(new, cached, noisy)
    near(fit.cost, TRUE, 0.15)
    assert fit.relative_error == pytest.approx(0.03, rel=0.2)
    assert fit.warnings == ()


def test_a_few_wild_points_hardly_matter() -> None:
    new, cached, ms = measured(TRUE, 200)
    ms = ms * np.random.default_rng(3).lognormal(0.0, 0.02, len(ms))
    ms[::20] *= 8.0  # a tenth of a second's hiccup in one step of twenty
    with pytest.warns(PoorFitWarning, match=r"the fit is poor.*10 of 200 points lie far out"):
        fit = fit_prefill(new, cached, ms)
    assert fit.cost.k1 == pytest.approx(TRUE.k1, rel=0.1)
    assert fit.cost.k3 == pytest.approx(TRUE.k3, rel=0.1)
    plain = np.linalg.lstsq(np.stack((np.ones(200), new, cached, new * cached), axis=1), ms, rcond=None)[0]
    assert abs(plain[1] - TRUE.k1) > 3 * abs(fit.cost.k1 - TRUE.k1)


def test_no_coefficient_is_below_zero_where_plain_least_squares_goes_there() -> None:
    new, cached, ms = measured(PrefillCost(0.0, 0.1, 0.0, 1e-6), 30)
    ms = ms * np.random.default_rng(4).lognormal(0.0, 0.1, len(ms))
    matrix = np.stack((np.ones(30), new, cached, new * cached), axis=1) / ms[:, None]
    assert np.linalg.lstsq(matrix, np.ones(30), rcond=None)[0].min() < 0.0
    cost = fit_prefill(new, cached, ms).cost
    assert min(cost.k0, cost.k1, cost.k2, cost.k3) == 0.0


@pytest.mark.parametrize(
    ("new", "cached", "undetermined", "zero"),
    [
        ([100, 200, 400, 800], [0, 0, 0, 0], "k2 and k3", ("k2", "k3")),
        ([100, 200, 400, 800], [500, 500, 500, 500], "k0 and k1 and k2 and k3", ("k2", "k3")),
        ([512] * 4, [0, 100, 1000, 9000], "k0 and k1 and k2 and k3", ("k0",)),
    ],
)
def test_what_the_points_cannot_tell_is_warned_of(
    new: list[int], cached: list[int], undetermined: str, zero: tuple[str, ...]
) -> None:
    ms = [TRUE.step_ms(q, s) for q, s in zip(new, cached, strict=True)]
    with pytest.warns(PoorFitWarning, match=f"do not determine {undetermined};.* taken as 0: vary q and s"):
        fit = fit_prefill(new, cached, ms)
    assert [getattr(fit.cost, name) for name in zero] == [0.0] * len(zero)
    assert fit.residuals.tolist() == pytest.approx([0.0] * 4, abs=1e-6)


def test_a_shape_that_the_form_cannot_take_is_called_poor() -> None:
    new = np.tile([64.0, 512.0, 4096.0, 16_384.0], 4)
    cached = np.repeat([0.0, 1000.0, 10_000.0, 50_000.0], 4)
    with pytest.warns(PoorFitWarning, match="the fit is poor: relative error"):
        fit = fit_prefill(new, cached, 10.0 + 1e-5 * new**2)
    assert fit.relative_error > 0.15


def test_times_that_do_not_grow_are_refused() -> None:
    with pytest.raises(MeasurementError, match="the times do not grow with the new tokens"):
        fit_prefill([1000, 800, 600, 10], [0, 0, 0, 0], [1, 2, 3, 10_000])


@pytest.mark.parametrize(
    ("points", "message"),
    [
        (([1, 2], [0, 0], [1, 2]), "2 points; a fit needs at least 4"),
        (([1, 2, 3], [0, 0], [1, 2, 3]), "one length are expected"),
        (([[1]], [[0]], [[1]]), "one-dimensional"),
        (([1, 0, 3, 4], [0] * 4, [1] * 4), r"new\[1\]: 0.0 is not a finite number above 0"),
        (([1, 2, 3, 4], [0, -1, 0, 0], [1] * 4), r"cached\[1\]: -1.0 is not a finite number of 0"),
        (([1, 2, 3, 4], [0] * 4, [1, 2, math.nan, 1]), r"ms\[2\]: nan"),
        ((["a"], [0], [1]), "new: not numbers"),
    ],
)
def test_bad_arrays(points: tuple[Any, Any, Any], message: str) -> None:
    with pytest.raises(MeasurementError, match=message):
        fit_prefill(*points)


def write(tmp_path: Path, text: str | bytes) -> Path:
    path = tmp_path / "points.csv"
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return path


def test_a_file_gives_what_the_arrays_give(tmp_path: Path) -> None:
    new, cached, ms = measured(TRUE, 12)
    rows = "\n".join(f"{t},x,{s},{q}" for q, s, t in zip(new, cached, ms, strict=True))
    path = write(tmp_path, f"# measured\ntime_ms,note,Context,q\n\n{rows}\n")
    from_file, from_arrays = fit_prefill_csv(path), fit_prefill(new, cached, ms)
    assert (from_file.cost.k0, from_file.cost.k3) == (from_arrays.cost.k0, from_arrays.cost.k3)
    assert from_file.cost.source == f"fitted to 12 points of {path}"


def test_seconds_and_no_context(tmp_path: Path) -> None:
    points = read_points(write(tmp_path, "new_tokens,seconds\r\n100,0.5\r\n200,1\r\n"))
    assert points.ms.tolist() == [500.0, 1000.0]
    assert points.cached.tolist() == [0.0, 0.0]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "line 1: a column of new tokens is expected"),
        ("s,ms\n1,2\n", r"line 1: a column of new tokens is expected \(q, .*\), not s, ms"),
        ("q,s\n1,2\n", "line 1: one column of times is expected"),
        ("q,ms,seconds\n1,2,3\n", "line 1: one column of times is expected"),
        ("q,ms\n", "no points"),
        ("q,ms\n1,2,3\n", "line 2: 3 fields, but 2 in the header"),
        ("q,ms\n1,2\nx,2\n", "line 3: q: 'x' is not a number"),
        ("q,ms\n0,2\n", "line 2: q: '0' is not a finite number above 0"),
        ("q,s,ms\n1,-1,2\n", "line 2: s: '-1' is not a finite number of at least 0"),
        ("q,ms\n1,inf\n", "line 2: ms: 'inf' is not a finite number above 0"),
        ("q,ms\n1,\n", "line 2: ms: '' is not a number"),
        ('q,ms\n"1,2\n', "line 2: not valid CSV"),
        (b"q,ms\n\xff,1\n", "line 2: not valid CSV"),
    ],
)
def test_bad_files_are_named_by_line(tmp_path: Path, text: str | bytes, message: str) -> None:
    path = write(tmp_path, text)
    with pytest.raises(MeasurementError, match=message) as caught:
        fit_prefill_csv(path)
    assert str(caught.value).startswith(f"{path}: ")


def test_points_cannot_be_changed_afterwards() -> None:
    points = prefill_points([1], [0], [1])
    with pytest.raises(ValueError, match="read-only"):
        points.ms[0] = 2.0


def test_a_fit_is_the_same_for_points_in_another_order() -> None:
    new, cached, ms = measured(TRUE, 50)
    ms = ms * np.random.default_rng(5).lognormal(0.0, 0.05, len(ms))

    def fit(order: Any) -> PrefillFit:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", PoorFitWarning)
            return fit_prefill(new[order], cached[order], ms[order])

    near(fit(np.arange(50)[::-1]).cost, fit(np.arange(50)).cost, 1e-6)
