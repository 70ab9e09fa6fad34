"""Distributions in five figures, and what can be said of a mean over several runs."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

# Two-sided 95 % quantiles of Student's t for 1 to 30 degrees of freedom; beyond, that of the normal distribution.
_T95 = (
    12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228, 2.201, 2.179, 2.160, 2.145, 2.131,
    2.120, 2.110, 2.101, 2.093, 2.086, 2.080, 2.074, 2.069, 2.064, 2.060, 2.056, 2.052, 2.048, 2.045, 2.042,
)  # fmt: skip
_NORMAL95 = 1.960


@dataclass(frozen=True, slots=True)
class Distribution:
    """A sample in short; all NaN when it is empty, in the unit of the sample."""

    count: int
    mean: float
    p50: float
    p90: float
    p99: float
    max: float

    QUANTILES: ClassVar[tuple[float, ...]] = (0.5, 0.9, 0.99)

    @classmethod
    def empty(cls) -> Distribution:
        """That of no values."""
        return cls(0, math.nan, math.nan, math.nan, math.nan, math.nan)


@dataclass(frozen=True, slots=True)
class Confidence:
    """The mean of n independent runs and the half-width of its 95 % interval (NaN for one run)."""

    runs: int
    mean: float
    half_width: float


def confidence(values: Sequence[float]) -> Confidence:
    """Mean and 95 % interval of one figure over runs, by Student's t; NaN values are left out."""
    known = [value for value in values if not math.isnan(value)]
    n = len(known)
    if n == 0:
        return Confidence(0, math.nan, math.nan)
    mean = math.fsum(known) / n
    if n == 1:
        return Confidence(1, mean, math.nan)
    deviation = math.sqrt(math.fsum((value - mean) ** 2 for value in known) / (n - 1))
    t = _T95[n - 2] if n - 2 < len(_T95) else _NORMAL95
    return Confidence(n, mean, t * deviation / math.sqrt(n))
