"""When a session comes back: the law of its gap, and the index that says how long holding its blocks pays.

A curve is piecewise exponential: between two edges the hazard of a return is constant. So the exponential law is exact
on any edges, and survival never needs an integral at run time.

The index of policies that stop at the right moment (Gittins, for a return hazard) is, at age a,

    g(a) = max over s > 0 of  [F(a + s) − F(a)] / ∫ₐ^{a+s} S(u) du          in returns a second held

and with a loss of B seconds on m blocks G(a) = B·g(a)/m. In the plane of (time held, returned) it is the steepest
slope from a point of the curve to a later one. A hold that ends where g falls below a price is the one with the best
net value at that price, so a decision needs one pass over the edges and not all slopes.
"""

from __future__ import annotations

import math
from bisect import bisect_left, bisect_right
from collections.abc import Callable

import numpy as np
from numpy.typing import ArrayLike, NDArray

from kvopt.errors import ConfigError

Floats = NDArray[np.float64]

BINS_PER_DECADE = 16
SHORTEST, LONGEST = 1e-3, 1e6
"""Seconds. What is shorter counts as 0 to SHORTEST; a longer gap counts as one that lasted LONGEST, unfinished."""

BINS = 1 + BINS_PER_DECADE * round(math.log10(LONGEST / SHORTEST))
EDGES: Floats = np.concatenate([[0.0], SHORTEST * 10.0 ** (np.arange(BINS) / BINS_PER_DECADE)])
"""Seconds; the bins of every history (BINS + 1): the first from 0, the others of equal width in log time."""

GONE = 1e-9
"""A survival below this is none: what happens to so few does not show in any decision."""

_ZERO = 1e-300

_EDGE_LIST: list[float] = EDGES.tolist()


def bin_of(seconds: float) -> int:
    """The bin of EDGES that holds this gap; the last one for all that is longer."""
    if seconds < SHORTEST:
        return 0
    return min(1 + int(BINS_PER_DECADE * math.log10(seconds / SHORTEST)), BINS - 1)


class ReturnCurve:
    """The law of one gap; all arrays have one entry an edge (n), and are not to be written to.

    Attributes:
        edges: seconds, from 0, rising.
        survival: S, the chance that the session is not back yet; `returned` is 1 - S.
        held: ∫₀ˣ S, the mean seconds that blocks are held when they are given up after x.
    """

    __slots__ = ("_edge_list", "_index", "edges", "held", "returned", "survival")

    def __init__(self, edges: Floats, survival: Floats, held: Floats) -> None:
        self.edges = edges
        self.survival = survival
        self.held = held
        self.returned: Floats = 1.0 - survival
        self._edge_list = _EDGE_LIST if edges is EDGES else None
        self._index: dict[int, float] = {}

    @classmethod
    def of_survival(cls, edges: Floats, survival: Floats) -> ReturnCurve:
        """From S at the edges: S(0) = 1, never rising, not below 0 (unchecked)."""
        before, after = survival[:-1], survival[1:]
        hazard = np.log(np.maximum(before, _ZERO) / np.maximum(after, _ZERO))  # of the bin as a whole
        # ∫ of an exponential piece is its width × the logarithmic mean of its ends.
        mean = np.where(hazard > 1e-9, (before - after) / np.maximum(hazard, 1e-9), before)
        held = np.zeros(len(edges))
        np.cumsum(mean * (edges[1:] - edges[:-1]), out=held[1:])
        return cls(edges, survival, held)

    @classmethod
    def of_law(cls, cdf: Callable[[Floats], ArrayLike], edges: Floats = EDGES) -> ReturnCurve:
        """From a cumulative distribution of seconds, taken at the edges.

        Raises ConfigError when it falls, leaves [0, 1] or is not a number.
        """
        returned = np.array(cdf(edges), dtype=np.float64)
        returned[0] = 0.0
        if not (np.all(np.diff(returned) >= 0.0) and returned[-1] <= 1.0):
            raise ConfigError(f"cdf: its values {returned.min():g} to {returned.max():g} must rise within 0 to 1")
        return cls.of_survival(edges, 1.0 - returned)

    def scaled(self, unit: float) -> ReturnCurve:
        """The same law with every gap `unit` times as long."""
        return ReturnCurve(self.edges * unit, self.survival, self.held * unit)

    def edge_before(self, age: float) -> int:
        """The last edge that is not after `age` seconds."""
        if self._edge_list is None:
            self._edge_list = self.edges.tolist()
        return bisect_right(self._edge_list, age) - 1

    def index_at(self, age: float) -> float:
        """g(age), to the bin: the best returns a second held from then on."""
        i = self.edge_before(age)
        known = self._index.get(i)
        if known is None:
            last = len(self.edges) - 1
            while i > 0 and (i == last or self.survival[i] < GONE):
                i -= 1  # nobody lives to see this edge; what held before it holds on
            held = self.held[i + 1 :] - self.held[i]
            slopes = (self.returned[i + 1 :] - self.returned[i]) / np.maximum(held, _ZERO)
            known = self._index[self.edge_before(age)] = float(slopes.max())
        return known

    def survival_at(self, x: float) -> float:
        """S(x): the chance that the session is not back after `x` seconds."""
        i = self.edge_before(x)
        if i + 1 >= len(self.edges):
            return float(self.survival[-1])
        before, after = float(self.survival[i]), float(self.survival[i + 1])
        share = (x - float(self.edges[i])) / float(self.edges[i + 1] - self.edges[i])
        return before * (after / before) ** share if after > 0.0 else before * (1.0 - share)

    def held_until(self, x: float) -> float:
        """E[min(gap, x)]: the mean seconds held when the blocks are given up after `x` seconds."""
        i = self.edge_before(x)
        beyond = x - float(self.edges[i])
        before, at = float(self.survival[i]), self.survival_at(x)
        if before - at <= 1e-9 * before:
            return float(self.held[i]) + (before * beyond if before > 0.0 else 0.0)
        return float(self.held[i]) + beyond * (before - at) / math.log(before / max(at, 1e-300))

    def within(self, x: float, age: float = 0.0) -> float:
        """P(returns within `x` more seconds | idle for `age`); 0 where nobody stays away that long."""
        still_away = self.survival_at(age)
        return 1.0 - self.survival_at(age + x) / still_away if still_away > 0.0 else 0.0

    def quantile(self, p: float) -> float:
        """The gap that a share `p` (0 to 1) of all sessions stay within; infinite when fewer ever return."""
        if not 0.0 <= p <= 1.0:
            raise ConfigError(f"p: {p!r} is not a share from 0 to 1")
        i = bisect_left(self.returned, p)
        if i >= len(self.edges):
            return math.inf
        if i == 0:
            return 0.0
        low, high = float(self.edges[i - 1]), float(self.edges[i])
        before, after = float(self.survival[i - 1]), float(self.survival[i])
        wanted = 1.0 - p
        if after <= 0.0 or wanted <= 0.0:
            return high
        return low + (high - low) * math.log(before / wanted) / math.log(before / after)
