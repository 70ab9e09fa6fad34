"""Axes of charts: where values lie on them, and their ticks."""

from __future__ import annotations

import math
from dataclasses import dataclass

_STEPS = (1.0, 2.0, 2.5, 5.0, 10.0)


@dataclass(frozen=True, slots=True)
class Axis:
    """Maps values from `low` to `high`, on a logarithmic scale where `log`, onto `begin` to `end` of the picture."""

    low: float
    high: float
    begin: float
    end: float
    log: bool = False

    def place(self, value: float) -> float:
        """Where a value lies; what is beyond an end lies there."""
        value = min(max(value, self.low), self.high)
        if self.log:
            share = math.log(value / self.low) / math.log(self.high / self.low)
        else:
            share = (value - self.low) / (self.high - self.low)
        return self.begin + share * (self.end - self.begin)

    def ticks(self, most: int = 5) -> list[float]:
        """Round values on the axis, about as many as `most`."""
        return _log_ticks(self.low, self.high, most) if self.log else _linear_ticks(self.low, self.high, most)


def linear_axis(high: float, begin: float, end: float) -> Axis:
    """From 0 to the first round value from `high` up."""
    if not high > 0:
        return Axis(0.0, 1.0, begin, end)
    step = _step(high, 5)
    return Axis(0.0, math.ceil(high / step - 1e-9) * step, begin, end)


def log_axis(low: float, high: float, begin: float, end: float) -> Axis:
    """At least from `low` to `high`, and never narrower than a factor of two."""
    if high < 2 * low:
        middle = math.sqrt(low * high)
        low, high = middle / 1.5, middle * 1.5
    return Axis(low, high, begin, end, log=True)


def short(value: float) -> str:
    """A value for a tick: three digits, thousands as k, millions as M, billions as G."""
    for limit, letter in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if abs(value) >= limit:
            return f"{value / limit:.3g}{letter}"
    return f"{value:.3g}"


def _step(span: float, most: int) -> float:
    rough = span / most
    power = 10.0 ** math.floor(math.log10(rough))
    return next(step * power for step in _STEPS if step * power >= rough * (1 - 1e-9))


def _linear_ticks(low: float, high: float, most: int) -> list[float]:
    step = _step(high - low, most)
    first = math.ceil(low / step - 1e-9)
    return [index * step for index in range(first, math.floor(high / step + 1e-9) + 1)]


def _log_ticks(low: float, high: float, most: int) -> list[float]:
    first, last = math.ceil(math.log10(low) - 1e-9), math.floor(math.log10(high) + 1e-9)
    if last - first >= 1:
        stride = max(1, math.ceil((last - first + 1) / most))
        return [10.0**power for power in range(first, last + 1, stride)]
    digits = [digit * 10.0**power for power in range(first - 1, last + 1) for digit in (1, 2, 3, 5, 7)]
    return [value for value in digits if low * (1 - 1e-9) <= value <= high * (1 + 1e-9)]
