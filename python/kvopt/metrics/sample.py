"""Samples of seconds: every value, or a sketch of fixed size."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from typing import Any

import numpy as np

from kvopt import _core
from kvopt.errors import ConfigError
from kvopt.metrics.summary import Distribution


class Sample(ABC):
    """Values that are added one by one; `native` is what holds them, to which the core adds too."""

    native: _core.Sample

    def add(self, value: float, weight: int = 1) -> None:
        """Add a value `weight` times: finite, not negative."""
        self.native.add(value, weight)

    @abstractmethod
    def distribution(self) -> Distribution:
        """The figures of all values so far."""

    @abstractmethod
    def histogram(self) -> dict[str, list[float]]:
        """``{"edge": [...], "count": [...]}``: how many values lie from each edge to the next, 12 edges a decade."""


class ExactSample(Sample):
    """Keeps every value, 8 bytes each; quantiles are interpolated linearly, as NumPy's."""

    native: _core.ExactSample

    def __init__(self) -> None:
        self.native = _core.ExactSample()

    def distribution(self) -> Distribution:
        """See Sample."""
        values = self.native.values
        if not values.size:
            return Distribution.empty()
        p50, p90, p99 = map(float, np.quantile(values, Distribution.QUANTILES))
        return Distribution(int(values.size), math.fsum(values) / values.size, p50, p90, p99, float(values.max()))

    def histogram(self) -> dict[str, list[float]]:
        """See Sample."""
        values = self.native.values
        return _histogram(values, np.ones(values.size, np.int64))


class QuantileSketch(Sample):
    """Counts in bins whose edges grow by a constant factor: fixed memory, quantiles within `accuracy` of the value.

    After DDSketch (Masson et al., VLDB 2019) with all bins allocated at once, for values from 1 µs to 10⁷ (below, a bin
    for zero; above, the last). Count, mean and maximum are exact up to rounding.
    """

    LOWEST = 1e-6
    HIGHEST = 1e7

    native: _core.QuantileSketch

    def __init__(self, accuracy: float = 0.01) -> None:
        if not 1e-4 <= accuracy <= 0.5:
            raise ConfigError(f"accuracy: {accuracy!r} is not from 0.0001 to 0.5")
        self._log_growth = math.log((1 + accuracy) / (1 - accuracy))
        bins = math.ceil(math.log(self.HIGHEST / self.LOWEST) / self._log_growth) + 2
        self.native = _core.QuantileSketch(self.LOWEST, self._log_growth, bins)

    def distribution(self) -> Distribution:
        """See Sample."""
        count = self.native.count
        if count == 0:
            return Distribution.empty()
        ends = np.cumsum(self.native.counts)
        ranks = [max(1, math.ceil(quantile * count)) for quantile in Distribution.QUANTILES]
        p50, p90, p99 = (self._value(int(np.searchsorted(ends, rank))) for rank in ranks)
        return Distribution(count, self.native.sum / count, p50, p90, p99, self.native.max)

    def histogram(self) -> dict[str, list[float]]:
        """See Sample."""
        counts = self.native.counts
        used = np.flatnonzero(counts)
        return _histogram(np.array([self._value(int(index)) for index in used]), counts[used])

    def _value(self, index: int) -> float:
        # The middle of a bin, relatively: no value in it is farther than `accuracy`.
        if index == 0:
            return 0.0
        growth = math.exp(self._log_growth)
        return min(self.LOWEST * math.exp(self._log_growth * index) * 2 / (1 + growth), self.native.max)


def _histogram(values: Any, counts: Any) -> dict[str, list[float]]:
    if not values.size:
        return {"edge": [], "count": []}
    step = np.where(values > 0, np.floor(np.log10(np.maximum(values, 1e-9)) * 12), -108).astype(np.int64)
    lowest = int(step.min())
    sums = np.bincount(step - lowest, weights=counts)
    edges = 10.0 ** (np.arange(lowest, lowest + len(sums) + 1) / 12)
    return {"edge": edges.tolist(), "count": sums.tolist()}
