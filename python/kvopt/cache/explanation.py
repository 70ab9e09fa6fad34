"""Why the next victim is the next victim: what a policy thinks of all that it could evict."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from kvopt._core import BlockPool, BlockValue

_FIELDS = (
    "run",
    "blocks",
    "depth",
    "covered",
    "hits",
    "priority",
    "value",
    "rate",
    "cost",
    "favour",
    "age",
    "usual_gap",
    "group",
    "order",
)


@dataclass(frozen=True, slots=True)
class Explanation:
    """All runs of cached blocks that nobody holds, at one time, in the order in which they would go."""

    now: float
    """Seconds on the pool's clock."""
    values: tuple[BlockValue, ...]
    """Possible victims, the next one first; then runs with something cached behind them."""

    @classmethod
    def of(cls, pool: BlockPool, now: float) -> Explanation:
        """Ask a pool. Raises ConfigError when its policy explains nothing, PoolError when `now` goes back."""
        return cls(now, tuple(pool.explain(now=now)))

    @property
    def candidates(self) -> tuple[BlockValue, ...]:
        """The possible victims, the next one first."""
        return tuple(value for value in self.values if not value.covered)

    @property
    def victim(self) -> BlockValue | None:
        """What goes next; None when nothing can be evicted."""
        return next(iter(self.candidates), None)

    @property
    def runner_up(self) -> BlockValue | None:
        """What would go if the victim were gone; None when there is no other."""
        return next(iter(self.candidates[1:]), None)

    @property
    def queues(self) -> dict[str, tuple[BlockValue, ...]]:
        """The possible victims by class, the oldest of each first; classes by their next victim."""
        queues: dict[str, list[BlockValue]] = {}
        for value in self.candidates:
            queues.setdefault(value.group, []).append(value)
        return {group: tuple(sorted(queue, key=lambda value: -value.age)) for group, queue in queues.items()}

    @property
    def reason(self) -> str:
        """Why the victim is chosen, as a sentence."""
        victim, runner_up = self.victim, self.runner_up
        if victim is None:
            return "Nothing can be evicted: requests or leases hold all that is cached."
        said = f"Run {victim.run} goes next ({_describe(victim)})"
        if runner_up is None:
            return f"{said}: it is the only candidate."
        return f"{said}; then run {runner_up.run} ({_describe(runner_up)}). What decides: {victim.order}."

    def to_dict(self) -> dict[str, Any]:
        """`now`, `reason` and `values`, as plain Python values."""
        return {"now": self.now, "reason": self.reason, "values": [to_dict(value) for value in self.values]}


def to_dict(value: BlockValue) -> dict[str, Any]:
    """The fields of a BlockValue, as plain Python values."""
    return {field: getattr(value, field) for field in _FIELDS}


def _describe(value: BlockValue) -> str:
    favour = "" if value.favour == 1 else f" x {value.favour:.3g} of priority"
    worth = f"{value.rate:.3g} returns/s x {value.cost:.4g} of prefill{favour}"
    return f"value {value.value:.3g}, idle {value.age:.4g} s, {worth}, {value.group}"
