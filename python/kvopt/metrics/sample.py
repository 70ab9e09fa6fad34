"""Samples of seconds: every value, or a sketch of fixed size."""

from __future__ import annotations

import math
from array import array
from typing import Any, Protocol

import numpy as np

from kvopt.errors import ConfigError
from kvopt.metrics.summary import Distribution


class Sample(Protocol):
    """Values that are added one by one."""

    def add(self, value: float, weight: int = 1) -> None:
        """Add a value `weight` times: finite, not negative."""

    def distribution(self) -> Distribution:
        """The figures of all values so far."""

    def histogram(self) -> dict[str, list[float]]:
        """``{"edge": [...], "count": [...]}``: how many values lie from each edge to the next, 12 edges a decade."""


class ExactSample:
    """Keeps every value, 8 bytes each; quantiles are interpolated linearly, as NumPy's."""

    def __init__(self) -> None:
        self._values = array("d")

    def add(self, value: float, weight: int = 1) -> None:
        """See Sample."""
        if weight == 1:
            self._values.append(value)
        else:
            self._values.extend([value] * weight)

    def distribution(self) -> Distribution:
        """See Sample."""
        values = np.frombuffer(self._values) if self._values else np.empty(0)
        if not values.size:
            return Distribution.empty()
        p50, p90, p99 = map(float, np.quantile(values, Distribution.QUANTILES))
        return Distribution(int(values.size), math.fsum(values) / values.size, p50, p90, p99, float(values.max()))

    def histogram(self) -> dict[str, list[float]]:
        """See Sample."""
        values = np.frombuffer(self._values) if self._values else np.empty(0)
        return _histogram(values, np.ones(values.size, np.int64))


class QuantileSketch:
    """Counts in bins whose edges grow by a constant factor: fixed memory, quantiles within `accuracy` of the value.

    After DDSketch (Masson et al., VLDB 2019) with all bins allocated at once, for values from 1 µs to 10⁷ (below, a bin
    for zero; above, the last). Count, mean and maximum are exact up to rounding.
    """

    LOWEST = 1e-6
    HIGHEST = 1e7

    def __init__(self, accuracy: float = 0.01) -> None:
        if not 1e-4 <= accuracy <= 0.5:
            raise ConfigError(f"accuracy: {accuracy!r} is not from 0.0001 to 0.5")
        self._log_growth = math.log((1 + accuracy) / (1 - accuracy))
        bins = math.ceil(math.log(self.HIGHEST / self.LOWEST) / self._log_growth) + 2
        self._counts = np.zeros(bins, np.int64)
        self._count = 0
        self._sum = 0.0
        self._max = 0.0

    def add(self, value: float, weight: int = 1) -> None:
        """See Sample."""
        index = 0
        if value > self.LOWEST:
            index = min(math.ceil(math.log(value / self.LOWEST) / self._log_growth), len(self._counts) - 1)
        self._counts[index] += weight
        self._count += weight
        self._sum += value * weight
        if value > self._max:
            self._max = value

    def distribution(self) -> Distribution:
        """See Sample."""
        if self._count == 0:
            return Distribution.empty()
        ends = np.cumsum(self._counts)
        ranks = [max(1, math.ceil(quantile * self._count)) for quantile in Distribution.QUANTILES]
        p50, p90, p99 = (self._value(int(np.searchsorted(ends, rank))) for rank in ranks)
        return Distribution(self._count, self._sum / self._count, p50, p90, p99, self._max)

    def histogram(self) -> dict[str, list[float]]:
        """See Sample."""
        used = np.flatnonzero(self._counts)
        return _histogram(np.array([self._value(int(index)) for index in used]), self._counts[used])

    def _value(self, index: int) -> float:
        # The middle of a bin, relatively: no value in it is farther than `accuracy`.
        if index == 0:
            return 0.0
        growth = math.exp(self._log_growth)
        return min(self.LOWEST * math.exp(self._log_growth * index) * 2 / (1 + growth), self._max)


def _histogram(values: Any, counts: Any) -> dict[str, list[float]]:
    if not values.size:
        return {"edge": [], "count": []}
    step = np.where(values > 0, np.floor(np.log10(np.maximum(values, 1e-9)) * 12), -108).astype(np.int64)
    lowest = int(step.min())
    sums = np.bincount(step - lowest, weights=counts)
    edges = 10.0 ** (np.arange(lowest, lowest + len(sums) + 1) / 12)
    return {"edge": edges.tolist(), "count": sums.tolist()}
