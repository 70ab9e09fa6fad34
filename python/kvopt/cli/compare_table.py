"""The table that `kvopt compare` prints, and the sentence below it."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from rich.text import Text

from kvopt import _core
from kvopt.cli.console import new_table, print_table

if TYPE_CHECKING:
    from rich.console import Console

    from kvopt.cost import ModelGeometry
    from kvopt.simulator.result import ReplayResult, ReplayRow
    from kvopt.simulator.upper_bound import UpperBounds
    from kvopt.workload.base import Trace

LEAST_GAP = 0.0005
"""A difference in worth below this is called none: it would show as 0.0 points."""

LEAST_SHARE = 0.005
"""Nor does a smaller share of the gap to the optimum count: it would show as 0%."""

_COLUMNS = ("block hit", "token hit", "cost saved", "vs lru", "gap closed", "evictions")


@dataclass(frozen=True, slots=True)
class Standing:
    """The rows of one capacity, set against lru and min.

    What a row is worth is the share of the prefill cost that it saves or, under the flat rule, its block hit ratio.
    """

    capacity: int
    rows: tuple[ReplayRow, ...]
    offline: frozenset[str]
    flat: bool = False

    @property
    def online(self) -> list[ReplayRow]:
        """The rows of policies that do not know the future."""
        return [row for row in self.rows if row.policy not in self.offline]

    @property
    def best(self) -> ReplayRow:
        """The online row that is worth the most; lru where none is visibly better."""
        best = max(self.online, key=self.worth)
        closed = self.gap_closed(best)
        visible = self.over_lru(best) >= LEAST_GAP and (closed is None or closed >= LEAST_SHARE)
        return best if visible else self._of("lru")

    @property
    def fits_nothing(self) -> bool:
        """No request is smaller than the capacity."""
        return all(row.skipped == row.requests for row in self.rows)

    @property
    def slack(self) -> bool:
        """No online policy ever evicts."""
        return all(row.evictions == 0 for row in self.online)

    def worth(self, row: ReplayRow) -> float:
        """What rows are compared by."""
        return row.block_hit if self.flat else row.cost_saved

    def over_lru(self, row: ReplayRow) -> float:
        """What a row is worth beyond lru."""
        return self.worth(row) - self.worth(self._of("lru"))

    def gap_closed(self, row: ReplayRow) -> float | None:
        """Share of the way from lru to min; None where there is no gap."""
        gap = self.over_lru(self._of("min"))
        return self.over_lru(row) / gap if gap >= LEAST_GAP else None

    def _of(self, policy: str) -> ReplayRow:
        return next(row for row in self.rows if row.policy == policy)


def standings(result: ReplayResult) -> list[Standing]:
    """The result by capacity; it must hold lru and min at each."""
    offline_names = {policy.name for policy in _core.policies() if policy.offline}
    offline = frozenset(name for name in result.policies if name.partition(":")[0] in offline_names)
    flat = result.trace.get("rule") == "flat"
    return [
        Standing(capacity, tuple(row for row in result.rows if row.capacity == capacity), offline, flat)
        for capacity in result.capacities
    ]


def print_comparison(
    console: Console,
    trace: Trace,
    result: ReplayResult,
    model: ModelGeometry | None,
    bounds: Sequence[UpperBounds] = (),
) -> None:
    """Print the trace in a line, the table, and what it says in a sentence.

    `bounds` hold block hit and cost saved at each capacity of the result, and become a row each.
    """
    console.print(
        Text(
            f"{trace.name}: {trace.requests:,} requests, {trace.block_references:,} block references, "
            f"{trace.unique_blocks:,} unique blocks of {trace.block_tokens} tokens"
        )
    )
    table = new_table(console)
    table.add_column("capacity", justify="right")
    if model is not None:
        table.add_column("memory GiB", justify="right")
    table.add_column("policy")
    skips = any(row.skipped for row in result.rows)
    for name in (*_COLUMNS, "skipped", "time s") if skips else (*_COLUMNS, "time s"):
        table.add_column(name, justify="right")
    levels = standings(result)
    for level in levels:
        size = [] if model is None else [_gibibytes(level.capacity * model.bytes_per_block(trace.block_tokens))]
        for row in level.rows:
            style = "dim" if row.policy in level.offline else "bold" if row is level.best else ""
            skipped = [f"{row.skipped:,}"] if skips else []
            figures = (*_figures(level, row), *skipped, f"{row.seconds:.3f}")
            table.add_row(f"{row.capacity:,}", *size, *map(Text, figures), style=style)
        for bound in bounds:
            table.add_row(f"{level.capacity:,}", *size, *map(Text, _bound_figures(level, bound, skips)), style="dim")
        table.add_section()
    console.print()
    print_table(console, table, spare=("time s", "evictions", "token hit", "gap closed", "vs lru"))
    console.print()
    console.print(Text(verdict(levels)))


def verdict(levels: list[Standing]) -> str:
    """One sentence: the best online policy by capacity, how much of lru's gap it closes, where memory is slack.

    Levels are by rising capacity.
    """
    parts: list[str] = []
    for kind, group in _runs(levels):
        where = _where(group)
        if kind == "nothing":
            parts.append(f"{where} no request fits")
        elif kind == "slack":
            parts.append(f"{where} memory is slack: nothing is evicted")
        elif kind == "lru":
            parts.append(f"{where} lru is the best online policy{_left(group)}")
        else:
            verb = "hits" if group[0].flat else "saves"
            parts.append(f"{where} {kind[1:]} {verb} the most of the online policies{_closed(group)}")
    text = "; ".join(parts)
    return f"{text[0].upper()}{text[1:]}."


def _figures(level: Standing, row: ReplayRow) -> list[str]:
    closed = level.gap_closed(row)
    return [
        row.policy,
        f"{row.block_hit:.2%}",
        f"{row.token_hit:.2%}",
        "-" if math.isnan(row.cost_saved) else f"{row.cost_saved:.2%}",
        f"{100 * level.over_lru(row):+z.2f}",
        "-" if closed is None or closed < 0 else f"{closed:.0%}",
        f"{row.evictions:,}",
    ]


def _bound_figures(level: Standing, bounds: UpperBounds, skips: bool) -> list[str]:
    hit, saved = (bounds.row(metric, level.capacity) for metric in ("block_hit", "cost_saved"))
    return [
        "bound-bypass" if bounds.trace["bypass"] else "bound",
        f"{hit.bound:.2%}",
        "-",
        f"{saved.bound:.2%}",
        f"{100 * (saved.bound - level._of('lru').cost_saved):+z.2f}",
        "-",
        "-",
        *([f"{saved.skipped:,}"] if skips else []),
        f"{hit.seconds + saved.seconds:.3f}",
    ]


def _runs(levels: list[Standing]) -> list[tuple[str, list[Standing]]]:
    runs: list[tuple[str, list[Standing]]] = []
    for level in levels:
        best = level.best.policy
        kind = "nothing" if level.fits_nothing else "slack" if level.slack else "lru" if best == "lru" else f"={best}"
        if runs and runs[-1][0] == kind:
            runs[-1][1].append(level)
        else:
            runs.append((kind, [level]))
    return runs


def _where(group: list[Standing]) -> str:
    first, last = group[0].capacity, group[-1].capacity
    return f"at {first:,} blocks" if len(group) == 1 else f"from {first:,} to {last:,} blocks"


def _left(group: list[Standing]) -> str:
    gaps = [100 * level.over_lru(level._of("min")) for level in group]
    if max(gaps) < 100 * LEAST_GAP:
        return ", with nothing left to gain"
    what = "hit ratio" if group[0].flat else "prefill cost"
    return f", {_span(gaps, '.1f')} points of {what} below the optimum"


def _closed(group: list[Standing]) -> str:
    closed = [level.gap_closed(level.best) for level in group]
    shares = [100 * share for share in closed if share is not None]
    return f" and closes {_span(shares, 'z.0f')}% of lru's gap to the optimum" if shares else ""


def _span(values: list[float], form: str) -> str:
    low, high = format(min(values), form), format(max(values), form)
    return low if low == high else f"{low} to {high}"


def _gibibytes(size: float) -> str:
    return f"{size / 2**30:,.2f}"
