"""The smallest policy that keeps every duty."""

from __future__ import annotations

from kvopt._core import RequestInfo
from kvopt.policies.base import Policy, RunIds


class DummyPolicy(Policy):
    """Evicts a leaf of no particular order: the one that became evictable last. A start for a policy of your own."""

    def __init__(self) -> None:
        self._leaves: dict[int, None] = {}

    def on_referenced(self, runs: RunIds) -> None:
        """Take runs out; interior ones were never in."""
        for run in runs.tolist():
            self._leaves.pop(run, None)

    def on_evictable(self, runs: RunIds, info: RequestInfo) -> None:
        """Put the leaves in: under the prefix rule only the deepest run of a request can be one."""
        for run in runs[self.runs.children[runs] == 0].tolist():
            self._leaves[run] = None

    def on_uncovered(self, run: int) -> None:
        """Put a run in that has become a leaf."""
        self._leaves[run] = None

    def choose(self, wanted: int, now: float) -> int:
        """Name the leaf that came last."""
        return next(reversed(self._leaves))
