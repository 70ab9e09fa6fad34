"""The index of cost-aware as plain Python: sums over lists, every horizon tried, no merging and no queues.

Ages are in units. Bins of age are as in csrc/core/reuse_model.hpp: one below 1/32, then some of equal width an octave.
"""

from __future__ import annotations

import bisect
import itertools
from collections.abc import Sequence

BINS_AN_OCTAVE = 4
OCTAVES = 19

_OCTAVE = [1 + part / BINS_AN_OCTAVE for part in range(BINS_AN_OCTAVE)]

EDGES = [0.0, *(2.0 ** (octave - 5) * part for octave in range(OCTAVES) for part in _OCTAVE)][:-1]
"""Lower edges of the bins."""


def bin_of(age: float) -> int:
    return bisect.bisect_right(EDGES, age) - 1


def counted(ages: Sequence[float]) -> list[int]:
    """How many ages are in each bin."""
    counts = [0] * len(EDGES)
    for age in ages:
        counts[bin_of(age)] += 1
    return counts


def widths() -> list[float]:
    return [*(high - low for low, high in itertools.pairwise(EDGES)), EDGES[-1]]


def time_at_risk(returned: Sequence[float], ended: Sequence[float]) -> list[float]:
    """By bin, how long all that reached it was in it; what left in it left in its middle."""
    here = [a + b for a, b in zip(returned, ended, strict=True)]
    return [(sum(here[b + 1 :]) + here[b] / 2) * width for b, width in enumerate(widths())]


def gittins(returned: Sequence[float], ended: Sequence[float]) -> list[float]:
    """By bin: the most returns for the time at risk, over all horizons that end with a bin."""
    at_risk = time_at_risk(returned, ended)
    best = []
    for b in range(len(EDGES)):
        sums = [(sum(returned[b : end + 1]), sum(at_risk[b : end + 1])) for end in range(b, len(EDGES))]
        best.append(max((returns / time for returns, time in sums if time > 0), default=0.0))
    return best


def hit_density(returned: Sequence[float], ended: Sequence[float]) -> list[float]:
    """LHD (Beckmann et al., NSDI 2018), event by event: hits to come for the time that all will still wait."""
    middle = [low + width / 2 for low, width in zip(EDGES, widths(), strict=True)]
    densities = []
    for b, low in enumerate(EDGES):
        hits = sum(returned[b:])
        time = sum((r + e) * (m - low) for r, e, m in zip(returned[b:], ended[b:], middle[b:], strict=True))
        densities.append(hits / time if time > 0 else 0.0)
    return densities
