"""Distributions given by their published quantiles, to be drawn from with correlated normal scores."""

from __future__ import annotations

from collections.abc import Mapping
from statistics import NormalDist

import numpy as np
from numpy.typing import NDArray

_SMALLEST_SHARE = 1e-4


class QuantileCurve:
    """A positive quantity known by some quantiles; between them its logarithm is linear in the normal score.

    A normal score z stands for the share Phi(z) of the distribution, so that correlated scores give correlated values
    while every value keeps the published quantiles.

    Args:
        quantiles: share (0 and 1 allowed, as the smallest and largest value) to value above 0, both rising.
        scale: factor on all values.
    """

    def __init__(self, quantiles: Mapping[float, float], scale: float = 1.0) -> None:
        normal = NormalDist()
        shares = [min(max(share, _SMALLEST_SHARE), 1 - _SMALLEST_SHARE) for share in quantiles]
        self._scores = np.array([normal.inv_cdf(share) for share in shares])
        self._logs = np.log(np.array(list(quantiles.values()), dtype=np.float64) * scale)

    def at(self, scores: NDArray[np.float64]) -> NDArray[np.float64]:
        """The values at normal scores (float64, any shape)."""
        values: NDArray[np.float64] = np.exp(np.interp(scores, self._scores, self._logs))
        return values
