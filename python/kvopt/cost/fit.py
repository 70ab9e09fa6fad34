"""T(q, s) from measured steps: non-negative least squares that a few bad points do not sway.

What is made small is the error of each point relative to its time: a step's noise grows with its length, and short
steps must fit as well as long ones. Points far out count less (Huber's weights, 1964, from the median error), in a few
rounds. With four coefficients the non-negative optimum is found exactly, as the best of the subsets whose plain least
squares has no negative coefficient. Among fits of equal error the one with the fewest coefficients is taken, so what
the points say nothing of is 0.
"""

from __future__ import annotations

import os
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from kvopt.cost.points import PrefillPoints, prefill_points, read_points
from kvopt.cost.prefill import PrefillCost
from kvopt.errors import MeasurementError, PoorFitWarning

LEAST_POINTS = 4
POOR_R2 = 0.95
POOR_RELATIVE_ERROR = 0.15
"""A root mean square relative error above this makes a fit poor."""

SIGMA = 1.4826
"""Standard deviation ÷ median absolute deviation, of a normal distribution."""

_NAMES = ("k0", "k1", "k2", "k3")
_ROUNDS = 10
_HUBER = 2.0  # in robust standard deviations; a point further out counts less
_EQUAL = 1e-9  # relative: rounding errors of the sums below
_DETERMINED = 1e-7  # smallest singular value, of unit columns, with which a coefficient counts as determined

# Smallest first, and k1 before the others. A cost is never without k1: a new token costs time.
_SUBSETS = [subset for size in range(1, 5) for subset in combinations((1, 0, 2, 3), size)]
_COSTS = [subset for subset in _SUBSETS if 1 in subset]


@dataclass(frozen=True, slots=True, eq=False)
class PrefillFit:
    """A fitted T(q, s) and how well it fits.

    Attributes:
        cost: the coefficients.
        points: the N points.
        rmse_ms: root mean square error in ms, over all points.
        relative_error: root mean square of the errors relative to the times.
        max_relative_error: the largest of them.
        r2: share of the variance of the times that is explained; 1 where all times are equal and met.
        outliers: how many points count less because they lie far out.
        warnings: what is doubtful, in sentences; empty for a good fit.
    """

    cost: PrefillCost
    points: PrefillPoints
    rmse_ms: float
    relative_error: float
    max_relative_error: float
    r2: float
    outliers: int
    warnings: tuple[str, ...]

    @property
    def residuals(self) -> NDArray[np.float64]:
        """Measured minus fitted time of each point, in ms (float64[N])."""
        return self.points.ms - _design(self.points) @ _coefficients(self.cost)


def fit_prefill(new: ArrayLike, cached: ArrayLike, ms: ArrayLike) -> PrefillFit:
    """Fit T(q, s) to N steps of `new` tokens behind `cached` ones that took `ms` milliseconds.

    Raises MeasurementError for bad points, for fewer than LEAST_POINTS, and where the times do not grow with the new
    tokens. Warns with PoorFitWarning when the fit is poor, or the points do not determine a coefficient.
    """
    return fit_points(prefill_points(new, cached, ms))


def fit_prefill_csv(path: str | os.PathLike[str]) -> PrefillFit:
    """Fit T(q, s) to the points of a CSV file (see :mod:`kvopt.cost.points`). Raises and warns as `fit_prefill`."""
    return fit_points(read_points(path), str(path))


def fit_points(points: PrefillPoints, name: str = "measured points") -> PrefillFit:
    """Fit T(q, s) to points; `name` says in the result where they are from. Raises and warns as `fit_prefill`."""
    if len(points) < LEAST_POINTS:
        raise MeasurementError(f"{name}: {len(points)} points; a fit needs at least {LEAST_POINTS}")
    design = _design(points)
    relative = design / points.ms[:, None]
    weights = np.ones(len(points))
    found = _non_negative(relative, weights)
    for _ in range(_ROUNDS):
        errors = np.abs(1.0 - relative @ found)
        spread = SIGMA * float(np.median(errors))
        weights = np.minimum(1.0, _HUBER * spread / np.maximum(errors, 1e-300)) if spread > _EQUAL else weights
        previous, found = found, _non_negative(relative, weights)
        if np.allclose(found, previous, rtol=1e-5, atol=0.0):
            break
    free = _non_negative(relative, weights, _SUBSETS)
    if not found[1] > 0.0 or not (free[1] > 0.0 or free[3] > 0.0):
        raise MeasurementError(f"{name}: the times do not grow with the new tokens, so no cost can be fitted")
    k0, k1, k2, k3 = map(float, found)
    cost = PrefillCost(k0, k1, k2, k3, f"fitted to {len(points)} points of {name}")
    fit = _judged(cost, points, design @ found, int(np.count_nonzero(weights < 0.5)), _undetermined(relative))
    for sentence in fit.warnings:
        warnings.warn(f"{name}: {sentence}", PoorFitWarning, stacklevel=2)
    return fit


def _judged(
    cost: PrefillCost, points: PrefillPoints, fitted: NDArray[np.float64], outliers: int, undetermined: list[str]
) -> PrefillFit:
    errors = points.ms - fitted
    relative = errors / points.ms
    squares = float(errors @ errors)
    variance = float(((points.ms - points.ms.mean()) ** 2).sum())
    r2 = 1.0 - squares / variance if variance > 0.0 else float(squares <= _EQUAL * float(points.ms @ points.ms))
    rms = float(np.sqrt((relative**2).mean()))
    doubts = []
    if undetermined:
        zero = [name for name in undetermined if getattr(cost, name) == 0.0]
        taken = f"; {' and '.join(zero)} taken as 0" if zero else ""
        doubts.append(f"the points do not determine {' and '.join(undetermined)}{taken}: vary q and s independently")
    if rms > POOR_RELATIVE_ERROR or r2 < POOR_R2:
        far = f"; {outliers} of {len(points)} points lie far out" if outliers else ""
        limits = f"at most {POOR_RELATIVE_ERROR:.0%}), R² {r2:.3f} (at least {POOR_R2}"
        doubts.append(f"the fit is poor: relative error {rms:.1%} ({limits}){far}")
    return PrefillFit(
        cost=cost,
        points=points,
        rmse_ms=float(np.sqrt((errors**2).mean())),
        relative_error=rms,
        max_relative_error=float(np.abs(relative).max()),
        r2=r2,
        outliers=outliers,
        warnings=tuple(doubts),
    )


def _design(points: PrefillPoints) -> NDArray[np.float64]:
    ones = np.ones(len(points))
    return np.stack((ones, points.new, points.cached, points.new * points.cached), axis=1)


def _coefficients(cost: PrefillCost) -> NDArray[np.float64]:
    return np.array([cost.k0, cost.k1, cost.k2, cost.k3])


def _non_negative(
    relative: NDArray[np.float64], weights: NDArray[np.float64], subsets: Sequence[tuple[int, ...]] = _COSTS
) -> NDArray[np.float64]:
    root = np.sqrt(weights)[:, None]
    scales = np.maximum(np.sqrt((relative**2).mean(axis=0)), 1e-300)
    # The triangle of [matrix | target] has the same least squares as the N rows.
    triangle = _triangle(np.hstack((relative / scales * root, root)))
    matrix, target = triangle[:, :4], triangle[:, 4]
    best, every = np.zeros(4), float(target @ target)
    least = every
    for subset in subsets:
        solved = np.linalg.lstsq(matrix[:, subset], target, rcond=None)[0]
        if (solved < 0.0).any():
            continue
        error = target - matrix[:, subset] @ solved
        squares = float(error @ error)
        if squares < least - _EQUAL * max(least, every * _EQUAL):
            best, least = np.zeros(4), squares
            best[list(subset)] = solved / scales[list(subset)]
    return best


def _triangle(matrix: NDArray[np.float64]) -> NDArray[np.float64]:
    return np.asarray(np.linalg.qr(matrix, mode="r"))


def _undetermined(relative: NDArray[np.float64]) -> list[str]:
    # Columns that take part in a combination which is zero at every point.
    norms = np.sqrt((relative**2).sum(axis=0))
    columns = np.divide(relative, norms, out=np.zeros_like(relative), where=norms > 0.0)
    _, singular, rows = np.linalg.svd(_triangle(columns), full_matrices=True)
    values = np.zeros(4)
    values[: len(singular)] = singular
    empty = rows[values < _DETERMINED]
    return [name for name, column in zip(_NAMES, empty.T, strict=True) if (np.abs(column) > 1e-3).any()]
