"""Replay results, bounds and LRU curves whose regimes can be reckoned by hand."""

from __future__ import annotations

import math
from collections.abc import Mapping

from kvopt.simulator import ReplayResult, ReplayRow, UpperBoundRow, UpperBounds


def made_result(saved: Mapping[int, Mapping[str, float]], *, skipped: int = 0, flat: bool = False) -> ReplayResult:
    """Ten requests; the share that each policy saves by capacity, or hits under the flat rule."""
    rows = tuple(
        ReplayRow(policy, capacity, share, share, math.nan if flat else share, 5, 10, skipped, 100, 0.1)
        for capacity, shares in saved.items()
        for policy, share in shares.items()
    )
    return ReplayResult({"rule": "flat" if flat else "prefix"}, rows)


def made_bounds(bound: Mapping[int, float]) -> UpperBounds:
    """Bounds of the cost saved by capacity."""
    rows = tuple(
        UpperBoundRow("cost_saved", capacity, share, share, 10, 0, False, 1, 0.1) for capacity, share in bound.items()
    )
    return UpperBounds({"bypass": False}, rows)


class MadeCurve:
    """LRU saves `slope` a block, up to `most`, whichever requests fit."""

    def __init__(self, slope: float, most: float) -> None:
        self._slope = slope
        self._most = most

    def worth(self, capacity: int, fits: int) -> float | None:
        return min(self._slope * capacity, self._most)

    def unlimited(self, fits: int) -> float:
        return self._most

    def reaching(self, worth: float, above: int, fits: int) -> int | None:
        return max(above, math.ceil(worth / self._slope - 1e-9))

    def slack_from(self, tolerance: float) -> int | None:
        return math.ceil((self._most - tolerance) / self._slope - 1e-9)


class UnknownCurve(MadeCurve):
    """What is known of LRU under the flat rule: nothing but its limit."""

    def worth(self, capacity: int, fits: int) -> float | None:
        return None

    def reaching(self, worth: float, above: int, fits: int) -> int | None:
        return None

    def slack_from(self, tolerance: float) -> int | None:
        return None
