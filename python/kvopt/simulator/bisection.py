"""The least capacity that passes a test, where more memory should help but need not.

Bisection on the logarithm of the capacity finds a place where failing turns into passing. It would be misled by a test
that passes, fails again and passes: so the largest gaps above that place are tested too, and where one fails the search
goes on above it. The answer is the least tested capacity from which on every tested one passes.
"""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass, field


@dataclass(slots=True)
class LeastCapacity:
    """One search from `low` to `high` blocks, to within `tolerance` (a share), with so many checks above the answer.

    Call `next()` for a capacity to test and `tell()` its outcome, until there is none left.
    """

    low: int
    high: int
    tolerance: float = 0.05
    checks: int = 2
    tested: dict[int, bool] = field(default_factory=dict)
    _checked: set[int] = field(default_factory=set)

    def next(self) -> int | None:
        """The next capacity to test; None when the search is over."""
        if self.high not in self.tested:
            return self.high
        if not self.tested[self.high]:
            return None
        if self.low not in self.tested:
            return self.low
        answer, below = self._bracket()
        if below is not None and answer > max(below + 1, math.floor(below * (1 + self.tolerance))):
            return _between(below, answer)
        return self._check(answer)

    def tell(self, capacity: int, passed: bool) -> None:
        """Note whether a capacity passes."""
        self.tested[capacity] = passed
        if not passed:
            self._checked.clear()  # what lies above the new answer is checked again

    @property
    def answer(self) -> int | None:
        """The least tested capacity from which on every tested one passes; None when the largest fails."""
        if not self.tested.get(self.high, False):
            return None
        return self._bracket()[0]

    @property
    def monotone(self) -> bool:
        """Whether no tested capacity fails above one that passes."""
        outcomes = [self.tested[capacity] for capacity in sorted(self.tested)]
        return outcomes == sorted(outcomes)

    def _bracket(self) -> tuple[int, int | None]:
        failed = [capacity for capacity, passed in self.tested.items() if not passed]
        below = max(failed, default=None)
        passing = [capacity for capacity in self.tested if below is None or capacity > below]
        return min(passing), below

    def _check(self, answer: int) -> int | None:
        above = sorted(capacity for capacity in self.tested if capacity >= answer)
        gaps = [(upper / lower, lower, upper) for lower, upper in itertools.pairwise(above) if upper > lower + 1]
        width, lower, upper = max(gaps, default=(0.0, 0, 0))
        if len(self._checked) >= self.checks or width <= 1 + self.tolerance:
            return None
        middle = _between(lower, upper)
        self._checked.add(middle)
        return middle


def _between(lower: int, upper: int) -> int:
    return min(max(round(math.sqrt(lower * upper)), lower + 1), upper - 1)
