"""A snapshot of what a pool holds: how full, how deep, how old, and which prefixes are of most use."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from kvopt._core import BlockPool, RunTable
from kvopt.errors import ConfigError

AGE_STARTS = (0.0, 1.0, 10.0, 60.0, 600.0, 3600.0)
"""Where the bands of `CacheState.by_age` begin, in seconds."""

DEFAULT_TOP = 10


@dataclass(frozen=True, slots=True)
class Band:
    """How many blocks lie from `start` up to, not including, `end` (infinite for the last band of ages)."""

    start: float
    end: float
    blocks: int


@dataclass(frozen=True, slots=True)
class PrefixUse:
    """A run of cached blocks with the same history; see RunTable."""

    run: int
    """Its id in the pool's RunTable, until it is evicted."""
    depth: int
    """Blocks of its prefix in front of it."""
    blocks: int
    """Its own blocks."""
    hits: int
    """Requests that found it cached."""
    holders: int
    """Requests and leases that hold it now."""
    idle_s: float | None
    """Seconds since a request let go of it; None while it is held."""

    @property
    def hit_blocks(self) -> int:
        """Blocks that need not be computed because it was cached."""
        return self.hits * self.blocks


@dataclass(frozen=True, slots=True)
class CacheState:
    """A pool at one moment. `empty` + `evictable` + `referenced` + `leased` = `capacity`, all in blocks."""

    now: float
    capacity: int
    empty: int
    evictable: int
    referenced: int
    leased: int
    requests: int | None
    """Requests that hold blocks; None when not known."""
    hit_ratio: float | None
    """Hit blocks / blocks asked for, over all allocations so far; None when not known, 0 before the first."""
    runs: int
    by_depth: tuple[Band, ...]
    """Blocks that carry a key, by how many blocks of their prefix are in front: 0, 1, 2 and 3, 4 to 7, and so on."""
    by_age: tuple[Band, ...]
    """Evictable blocks, by the seconds since a request let go of them."""
    top_prefixes: tuple[PrefixUse, ...]
    """What saved the most blocks, the best first; nothing that was never hit."""

    @classmethod
    def of(
        cls,
        pool: BlockPool,
        now: float,
        *,
        requests: int | None = None,
        queried_blocks: int | None = None,
        top: int = DEFAULT_TOP,
    ) -> Self:
        """The state of `pool` at `now` (seconds on the pool's clock), with at most `top` prefixes.

        `queried_blocks` is how many blocks were asked for so far, which the pool does not count.
        Raises ConfigError when `now` is before a release that the pool saw or not finite, or `top` is negative.
        """
        if top < 0:
            raise ConfigError(f"top: {top} is below 0")
        stats = pool.stats()
        table = pool.runs
        live = np.flatnonzero(table.live)
        held = table.references[live] > 0
        age = _ages(table, live[~held], now)
        return cls(
            now=now,
            capacity=stats["capacity"],
            empty=stats["empty"],
            evictable=stats["evictable"],
            referenced=stats["referenced"],
            leased=stats["leased"],
            requests=requests,
            hit_ratio=None if queried_blocks is None else stats["hit_blocks"] / max(1, queried_blocks),
            runs=stats["runs"],
            by_depth=_by_depth(table, live),
            by_age=_by_age(age, table.length[live[~held]]),
            top_prefixes=_top_prefixes(table, live, now, top),
        )

    def to_dict(self) -> dict[str, Any]:
        """JSON values under the names of the fields; the end of the last band of ages is None."""
        told = asdict(self)
        for band in told["by_age"]:
            band["end"] = None if math.isinf(band["end"]) else band["end"]
        return {name: list(value) if isinstance(value, tuple) else value for name, value in told.items()}


def _ages(table: RunTable, runs: NDArray[np.intp], now: float) -> NDArray[np.float64]:
    if not math.isfinite(now):
        raise ConfigError(f"now: {now} is not a finite number of seconds")
    last_use = table.last_use[runs]
    if last_use.size and now < last_use.max():
        raise ConfigError(f"now: {now} is before {float(last_use.max())}, when a request last let go of blocks")
    return now - last_use


def _by_depth(table: RunTable, runs: NDArray[np.intp]) -> tuple[Band, ...]:
    first = table.depth[runs].astype(np.int64)
    last = first + table.length[runs]
    bands = []
    start, end = 0, 1
    while start < last.max(initial=0):
        blocks = np.clip(np.minimum(last, end) - np.maximum(first, start), 0, None).sum()
        bands.append(Band(start, end, int(blocks)))
        start, end = end, 2 * end
    return tuple(bands)


def _by_age(age: NDArray[np.float64], blocks: NDArray[np.uint32]) -> tuple[Band, ...]:
    band = np.searchsorted(AGE_STARTS, age, side="right") - 1
    counted = np.bincount(band, weights=blocks, minlength=len(AGE_STARTS))
    ends = (*AGE_STARTS[1:], math.inf)
    return tuple(Band(start, end, int(n)) for start, end, n in zip(AGE_STARTS, ends, counted, strict=True))


def _top_prefixes(table: RunTable, runs: NDArray[np.intp], now: float, top: int) -> tuple[PrefixUse, ...]:
    saved = table.hits[runs].astype(np.int64) * table.length[runs]
    best = np.argsort(-saved, kind="stable")[:top]
    return tuple(
        PrefixUse(
            run=run,
            depth=int(table.depth[run]),
            blocks=int(table.length[run]),
            hits=int(table.hits[run]),
            holders=int(table.references[run]),
            idle_s=None if table.references[run] else now - float(table.last_use[run]),
        )
        for run in runs[best[saved[best] > 0]].tolist()
    )
