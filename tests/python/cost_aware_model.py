"""The index of cost-aware as plain Python: sums over lists, every horizon tried, no merging and no queues.

Ages are in units. Bins of age are as in csrc/core/reuse_model.hpp: one below 1/16, then some of equal width an octave.
"""

from __future__ import annotations

import bisect
import itertools
from collections.abc import Sequence

BINS_AN_OCTAVE = 2
BINS = 32

_OCTAVE = [1 + part / BINS_AN_OCTAVE for part in range(BINS_AN_OCTAVE)]

EDGES = [0.0, *(2.0 ** (octave - 4) * part for octave in range(BINS) for part in _OCTAVE)][:BINS]
"""Lower edges of the bins."""

_WEIGHTS = (1, 4, 6, 4, 1)  # of a bin and its neighbours


def bin_of(age: float) -> int:
    return bisect.bisect_right(EDGES, age) - 1


def counted(ages: Sequence[float]) -> list[int]:
    """How many ages are in each bin."""
    counts = [0] * BINS
    for age in ages:
        counts[bin_of(age)] += 1
    return counts


def last_look(age: float) -> float:
    """The age at which what waits is counted: twice the power of four seconds that it has reached, with 1 s a unit."""
    mark = 1.0
    while 4 * mark <= age:
        mark *= 4
    return 2 * mark if age >= 1 else 0.0


def widths() -> list[float]:
    return [*(high - low for low, high in itertools.pairwise(EDGES)), EDGES[-1]]


def smoothed(counts: Sequence[float]) -> list[float]:
    """Each bin with its neighbours; the last ones stand for what would be beyond them."""
    wide = [counts[0], counts[0], *counts, counts[-1], counts[-1]]
    return [sum(w * x for w, x in zip(_WEIGHTS, wide[b:], strict=False)) / 16 for b in range(BINS)]


def curve(returned: Sequence[float], ended: Sequence[float]) -> tuple[list[float], list[float]]:
    """Of one that begins to wait, by bin: the chance that it returns there, and how long it is there.

    The hazard of a bin is its returns over the time of all that were there, where what left it left in its middle.
    """
    here = [a + b for a, b in zip(returned, ended, strict=True)]
    at_risk = [(sum(here[b + 1 :]) + here[b] / 2) * width for b, width in enumerate(widths())]
    waiting = 1.0
    chances, times = [], []
    for returns, time, width in zip(smoothed(returned), smoothed(at_risk), widths(), strict=True):
        hazard = returns / time if time > 0 else 0.0
        after = waiting / (1 + hazard * width)
        chances.append(waiting - after)
        times.append(after * width)
        waiting = after
    return chances, times


def gittins(returned: Sequence[float], ended: Sequence[float]) -> list[float]:
    """At the lower edge of each bin: the most returns for the time at risk, over all horizons that end with a bin."""
    chances, times = curve(returned, ended)
    best = []
    for b in range(BINS):
        sums = [(sum(chances[b : end + 1]), sum(times[b : end + 1])) for end in range(b, BINS)]
        best.append(max((returns / time for returns, time in sums if time > 0), default=0.0))
    return best


def hit_density(returned: Sequence[float], ended: Sequence[float]) -> list[float]:
    """LHD (Beckmann et al., NSDI 2018): hits to come for the time to come, without end."""
    chances, times = curve(returned, ended)
    return [sum(chances[b:]) / sum(times[b:]) if sum(times[b:]) > 0 else 0.0 for b in range(BINS)]


def at(index: Sequence[float], age: float) -> float:
    """The index at this age, in proportion between the lower edges of two bins; one per cent less a bin."""
    index = [value * 0.99**b for b, value in enumerate(index)]
    b = bin_of(age)
    if b in (0, BINS - 1):
        return index[b]
    return index[b] + (index[b + 1] - index[b]) * (age - EDGES[b]) / (EDGES[b + 1] - EDGES[b])
