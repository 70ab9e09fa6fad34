"""What changes over time, in a bounded number of points."""

from __future__ import annotations

from collections.abc import Sequence

from kvopt.errors import ConfigError


class TimeSeries:
    """Gauges (means over time) and counts in equal buckets from second 0; the bucket doubles when they run out.

    Memory is fixed by `points`. Gauges are given as constant over an interval.
    """

    def __init__(self, gauges: Sequence[str], counts: Sequence[str], points: int = 400) -> None:
        if points < 2:
            raise ConfigError(f"points: {points} is below 2")
        self._gauges = tuple(gauges)
        self._counts = {name: len(gauges) + index for index, name in enumerate(counts)}
        self._points = points
        self._columns = len(gauges) + len(counts)
        self._width = 1.0
        self._end = points * self._width
        self._sums: list[list[float]] = []
        self._covered: list[float] = []

    def hold(self, begin: float, end: float, *values: float) -> None:
        """Say that the gauges had these values from `begin` to `end` (seconds); intervals may come in any order."""
        if end <= begin:
            return
        self._reach(end)
        width = self._width
        first, last = int(begin / width), int(end / width)
        if first == last:
            self._put(first, end - begin, values)
            return
        self._put(first, (first + 1) * width - begin, values)
        for index in range(first + 1, last):
            self._put(index, width, values)
        self._put(last, end - last * width, values)

    def count(self, time: float, name: str, amount: float = 1) -> None:
        """Add to a count at a time in seconds."""
        self._reach(time)
        index = int(time / self._width)
        self._grow(index)
        self._sums[index][self._counts[name]] += amount

    def to_dict(self) -> dict[str, object]:
        """``{"bucket_s": width, "begin_s": [...], gauge: [...], count: [...]}``; a gauge without data is None."""
        gauges = {
            name: [sums[column] / covered if covered > 0 else None for sums, covered in zip(*self._rows(), strict=True)]
            for column, name in enumerate(self._gauges)
        }
        counts = {name: [sums[column] for sums in self._sums] for name, column in self._counts.items()}
        begins = [index * self._width for index in range(len(self._sums))]
        return {"bucket_s": self._width, "begin_s": begins, **gauges, **counts}

    def _rows(self) -> tuple[list[list[float]], list[float]]:
        return self._sums, self._covered

    def _put(self, index: int, seconds: float, values: Sequence[float]) -> None:
        if seconds <= 0:
            return
        if index >= len(self._sums):
            self._grow(index)
        sums = self._sums[index]
        for column, value in enumerate(values):
            sums[column] += value * seconds
        self._covered[index] += seconds

    def _grow(self, index: int) -> None:
        while len(self._sums) <= index:
            self._sums.append([0.0] * self._columns)
            self._covered.append(0.0)

    def _reach(self, time: float) -> None:
        while time >= self._end:
            pairs = range(0, len(self._sums), 2)
            odd = len(self._sums) % 2
            self._sums += [[0.0] * self._columns] * odd
            self._covered += [0.0] * odd
            self._sums = [[a + b for a, b in zip(self._sums[at], self._sums[at + 1], strict=True)] for at in pairs]
            self._covered = [self._covered[at] + self._covered[at + 1] for at in pairs]
            self._width *= 2
            self._end = self._points * self._width
