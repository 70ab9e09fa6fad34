"""The table that `kvopt compare` prints, and the sentences below it."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

from rich.text import Text

from kvopt.cli.console import new_table, print_table
from kvopt.cli.regime_sentences import GIB

if TYPE_CHECKING:
    from rich.console import Console

    from kvopt.cli.comparison_files import BoundLine
    from kvopt.cost import ModelGeometry
    from kvopt.simulator.regime import Regime, RegimeReport
    from kvopt.simulator.result import ReplayResult, ReplayRow
    from kvopt.workload.base import Trace

_COLUMNS = ("block hit", "token hit", "cost saved", "vs lru", "gap closed", "evictions")


def print_comparison(
    console: Console,
    trace: Trace,
    result: ReplayResult,
    model: ModelGeometry | None,
    report: RegimeReport,
    sentences: Sequence[str],
    bounds: Sequence[BoundLine] = (),
) -> None:
    """Print the trace in a line, the table, and what it says in `sentences`.

    `report` is of the result, which must hold lru; `bounds` become a row each.
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
    for regime in report.regimes:
        capacity = regime.capacity
        size = [] if model is None else [f"{capacity * model.bytes_per_block(trace.block_tokens) / GIB:,.2f}"]
        for row in (row for row in result.rows if row.capacity == capacity):
            offline = regime.standing(row.policy).offline
            style = "dim" if offline else "bold" if row.policy == regime.best else ""
            skipped = [f"{row.skipped:,}"] if skips else []
            cells = (*_figures(regime, row), *skipped, f"{row.seconds:.3f}")
            table.add_row(f"{capacity:,}", *size, *map(Text, cells), style=style)
        for line in (line for line in bounds if line.capacity == capacity):
            table.add_row(f"{capacity:,}", *size, *map(Text, _bound_figures(regime, line, skips)), style="dim")
        table.add_section()
    console.print()
    print_table(console, table, spare=("time s", "evictions", "token hit", "gap closed", "vs lru"))
    console.print()
    for sentence in sentences:
        console.print(Text(sentence))


def _figures(regime: Regime, row: ReplayRow) -> list[str]:
    standing = regime.standing(row.policy)
    closed = standing.gap_closed
    return [
        row.policy,
        f"{row.block_hit:.2%}",
        f"{row.token_hit:.2%}",
        "-" if math.isnan(row.cost_saved) else f"{row.cost_saved:.2%}",
        f"{100 * standing.over_lru:+z.2f}",
        "-" if closed is None or closed < 0 else f"{closed:.0%}",
        f"{row.evictions:,}",
    ]


def _bound_figures(regime: Regime, line: BoundLine, skips: bool) -> list[str]:
    return [
        line.policy,
        f"{line.block_hit:.2%}",
        "-",
        f"{line.cost_saved:.2%}",
        f"{100 * (line.cost_saved - regime.lru):+z.2f}",
        "-",
        "-",
        *([f"{line.skipped:,}"] if skips else []),
        f"{line.seconds:.3f}",
    ]
