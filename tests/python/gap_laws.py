"""Laws of gaps that tests draw from and check against."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
from numpy.typing import ArrayLike, NDArray

from kvopt.continuum import ReturnCurve

FINE: NDArray[np.float64] = np.concatenate([[0.0], np.geomspace(1e-3, 1e6, 20_001)])
"""Edges in seconds, fine enough for figures of three digits."""

_erf = np.vectorize(math.erf, otypes=[np.float64])


def lognormal(median: float, sigma: float) -> Callable[[NDArray[np.float64]], ArrayLike]:
    """The distribution function of a lognormal gap, median in seconds."""
    return lambda x: 0.5 * (1.0 + _erf(np.log(np.maximum(x, 1e-300) / median) / (sigma * math.sqrt(2.0))))


def exponential(mean: float) -> Callable[[NDArray[np.float64]], ArrayLike]:
    return lambda x: -np.expm1(-x / mean)


def fine(law: Callable[[NDArray[np.float64]], ArrayLike]) -> ReturnCurve:
    return ReturnCurve.of_law(law, FINE)
