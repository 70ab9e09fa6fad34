"""In what regime a cache works, capacity by capacity: who closes how much of the gap between LRU and the optimum,
whether memory is slack, whether reuse is predictable, and what a little more memory would bring.

Every share is what policies are compared by: the prefill cost saved or, under the flat rule, the block hit ratio.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, Literal, Protocol, TypeAlias

from kvopt import _core

if TYPE_CHECKING:
    from kvopt.simulator.result import ReplayResult
    from kvopt.simulator.upper_bound import Metric, UpperBounds

SLACK = 0.005
"""Memory is slack where LRU is within this share of a cache without limit: another hour of traffic moves it more."""

LEAST_GAIN = 0.0005
"""A difference below this is called none: it would show as 0.0 points."""

LEAST_CLOSED = 0.005
"""Nor does a smaller share of the gap to the optimum count: it would show as 0%."""

PREDICTABLE = 0.5
"""Reuse is predictable where the best online policy closes this share of the gap between LRU and the optimum."""

PARTLY_PREDICTABLE = 0.2
"""Below this it hardly is."""

MORE = 0.1
"""How many more blocks "a little more memory" is, as a share, where the size of a GiB is not known."""

Predictability: TypeAlias = Literal["predictable", "partly", "hardly"]


class Curve(Protocol):
    """What LRU reaches at any capacity; `LruCurve` is one, and says more."""

    def worth(self, capacity: int, fits: int) -> float | None:
        """LRU with so many blocks, over the requests that fit into `fits` blocks."""

    def unlimited(self, fits: int) -> float:
        """A cache that never evicts."""

    def reaching(self, worth: float, above: int, fits: int) -> int | None:
        """The least number of blocks with which LRU is worth so much."""

    def slack_from(self, tolerance: float) -> int | None:
        """The least number of blocks with which LRU misses at most `tolerance`."""


@dataclass(frozen=True, slots=True)
class Standing:
    """One policy at one capacity, set against lru and the optimum."""

    policy: str
    offline: bool
    """Whether it knows the future."""
    worth: float
    """Share, 0 to 1."""
    over_lru: float
    """`worth` less lru's."""
    gap_closed: float | None
    """Share of the way from lru to min, the offline optimum of hits; None where there is no way or no min."""
    bound_closed: float | None
    """Share of the way from lru to the certified bound; None where there is no way or no bound."""


@dataclass(frozen=True, slots=True)
class Regime:
    """One capacity. Every share is over the `requests - skipped` requests that fit."""

    capacity: int
    """Blocks."""
    requests: int
    skipped: int
    policies: tuple[Standing, ...]
    """In the order of the result."""
    best: str
    """The online policy that is worth the most; lru where none is visibly better."""
    lru: float
    optimum: float | None
    """What min is worth, if it was replayed."""
    bound: float | None
    """What no policy exceeds, if it was asked for."""
    unlimited: float
    """What a cache that never evicts is worth."""
    slack: bool
    """Whether lru is within SLACK of `unlimited`."""
    predictability: Predictability | None
    """By the share of the gap that `best` closes; None where no gap is known or no other online policy was compared."""
    as_lru_with: int | None
    """Blocks with which lru would be worth what `best` is; None where `best` is lru, and where that is not known."""
    more_blocks: int
    """What "a little more memory" is."""
    more_lru: float | None
    """What so many more blocks add to lru's worth; None where that is not known."""
    more_best: float | None
    """The same for `best`, interpolated between capacities of the result; None after the last, unless it is lru."""

    @property
    def fits_nothing(self) -> bool:
        """No request is smaller than the capacity."""
        return self.skipped == self.requests

    def standing(self, policy: str) -> Standing:
        """The standing of a policy that was replayed. Raises StopIteration for another."""
        return next(standing for standing in self.policies if standing.policy == policy)


@dataclass(frozen=True, slots=True)
class RegimeReport:
    """Regimes by rising capacity."""

    metric: Metric
    """What a share is of: "cost_saved", or "block_hit" under the flat rule."""
    regimes: tuple[Regime, ...]
    slack_from: int | None
    """Blocks from which on memory is slack for the whole trace; None where that is not known."""

    def to_dict(self) -> dict[str, Any]:
        """Every field as plain Python values, and the SLACK that was used."""
        return asdict(self) | {"slack_within": SLACK}


def regime_report(
    result: ReplayResult, curve: Curve, *, bounds: UpperBounds | None = None, more_blocks: int | None = None
) -> RegimeReport:
    """What a replay says about each of its capacities.

    `curve` is LRU's on the same trace, rule and p*. Where `result` lacks lru, its worth is taken from there; without
    min nothing is said about the gap. `bounds` hold the metric at each capacity. `more_blocks` are the blocks of one
    more GiB; a tenth of the capacity unless given. Raises ConfigError for bounds that lack a capacity.
    """
    metric: Metric = "block_hit" if result.trace.get("rule") == "flat" else "cost_saved"
    regimes = []
    for capacity in sorted(result.capacities):
        bound = None if bounds is None else bounds.row(metric, capacity).bound
        more = max(1, round(MORE * capacity)) if more_blocks is None else more_blocks
        regimes.append(_regime(result, capacity, metric, curve, bound, more))
    return RegimeReport(metric, tuple(regimes), curve.slack_from(SLACK))


def _regime(
    result: ReplayResult, capacity: int, metric: Metric, curve: Curve, bound: float | None, more_blocks: int
) -> Regime:
    rows = [row for row in result.rows if row.capacity == capacity]
    worth = {row.policy: float(getattr(row, metric)) for row in rows}
    lru = worth.get("lru", curve.worth(capacity, capacity))
    lru = math.nan if lru is None else lru
    optimum = worth.get("min")
    offline = _offline(worth)
    standings = tuple(
        Standing(
            policy, policy in offline, share, share - lru, _closed(share, lru, optimum), _closed(share, lru, bound)
        )
        for policy, share in worth.items()
    )
    best = _best(standings)
    unlimited = curve.unlimited(capacity)
    more = curve.worth(capacity + more_blocks, capacity)
    more_lru = _interpolated(result, "lru", capacity, more_blocks, metric) if more is None else more - lru
    return Regime(
        capacity=capacity,
        requests=rows[0].requests,
        skipped=rows[0].skipped,
        policies=standings,
        best="lru" if best is None else best.policy,
        lru=lru,
        optimum=optimum,
        bound=bound,
        unlimited=unlimited,
        slack=unlimited - lru <= SLACK,
        predictability=_predictability(standings, best),
        as_lru_with=None if best is None else curve.reaching(best.worth, capacity, capacity),
        more_blocks=more_blocks,
        more_lru=more_lru,
        more_best=more_lru if best is None else _interpolated(result, best.policy, capacity, more_blocks, metric),
    )


def _offline(policies: Iterable[str]) -> frozenset[str]:
    names = {policy.name for policy in _core.policies() if policy.offline}
    return frozenset(policy for policy in policies if policy.partition(":")[0] in names)


def _closed(share: float, lru: float, reference: float | None) -> float | None:
    if reference is None or not reference - lru >= LEAST_GAIN:
        return None
    return (share - lru) / (reference - lru)


def _best(standings: Sequence[Standing]) -> Standing | None:
    # None: lru.
    online = [standing for standing in standings if not standing.offline]
    best = max(online, key=lambda standing: standing.worth, default=None)
    if best is None or not best.over_lru >= LEAST_GAIN:
        return None
    return best if best.gap_closed is None or best.gap_closed >= LEAST_CLOSED else None


def _predictability(standings: Sequence[Standing], best: Standing | None) -> Predictability | None:
    gaps = [s.gap_closed for s in standings if not s.offline and s.policy != "lru"]
    if not gaps or gaps[0] is None:
        return None
    closed = 0.0 if best is None or best.gap_closed is None else best.gap_closed
    return "predictable" if closed >= PREDICTABLE else "partly" if closed >= PARTLY_PREDICTABLE else "hardly"


def _interpolated(result: ReplayResult, policy: str, capacity: int, more: int, metric: Metric) -> float | None:
    # On a logarithmic axis, where hit ratios are nearly straight; only between rows over the same requests.
    rows = sorted((row for row in result.rows if row.policy == policy), key=lambda row: row.capacity)
    here = next((row for row in rows if row.capacity == capacity), None)
    after = next((row for row in rows if row.capacity >= capacity + more), None)
    if here is None or after is None or after.skipped != here.skipped:
        return None
    before = next(row for row in reversed(rows) if row.capacity < capacity + more)
    low, high = (float(getattr(row, metric)) for row in (before, after))
    way = math.log((capacity + more) / before.capacity) / math.log(after.capacity / before.capacity)
    return low + way * (high - low) - float(getattr(here, metric))
