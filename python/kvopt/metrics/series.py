"""What changes over time, in a bounded number of points."""

from __future__ import annotations

from collections.abc import Sequence

from kvopt import _core
from kvopt.errors import ConfigError


class TimeSeries:
    """Gauges (means over time) and counts in equal buckets from second 0; the bucket doubles when they run out.

    Memory is fixed by `points`. Gauges are given as constant over an interval. `native` is what holds them, to which
    the core adds too.
    """

    def __init__(self, gauges: Sequence[str], counts: Sequence[str], points: int = 400) -> None:
        if points < 2:
            raise ConfigError(f"points: {points} is below 2")
        self._gauges, self._counts = tuple(gauges), tuple(counts)
        self.native = _core.TimeSeries(len(gauges), len(counts), points)

    def hold(self, begin: float, end: float, *values: float) -> None:
        """Say that the gauges had these values from `begin` to `end` (seconds); intervals may come in any order."""
        self.native.hold(begin, end, values)

    def count(self, time: float, name: str, amount: float = 1) -> None:
        """Add to a count at a time in seconds."""
        self.native.count(time, self._counts.index(name), amount)

    def to_dict(self) -> dict[str, object]:
        """``{"bucket_s": width, "begin_s": [...], gauge: [...], count: [...]}``; a gauge without data is None."""
        columns, covered = self.native.sums.T.tolist(), self.native.covered.tolist()
        gauges = {
            name: [value / seconds if seconds > 0 else None for value, seconds in zip(column, covered, strict=True)]
            for name, column in zip(self._gauges, columns, strict=False)
        }
        counts = dict(zip(self._counts, columns[len(self._gauges) :], strict=True))
        width = self.native.width
        begins = [index * width for index in range(len(covered))]
        return {"bucket_s": width, "begin_s": begins, **gauges, **counts}
