"""The table that `kvopt sweep` prints: means over seeds, a row for each policy, scheduler, capacity and rate."""

from __future__ import annotations

import math
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.text import Text

from kvopt.cli.console import new_table, print_table
from kvopt.cli.simulate_table import percent, seconds
from kvopt.metrics import Confidence, confidence

if TYPE_CHECKING:
    from rich.console import Console

    from kvopt.simulator.sweep import SweepOutcome

_SHARES = (("token_hit", "token hit"), ("recomputed_share", "recomputed"))
_SECONDS = (
    ("ttft_mean", "TTFT s"),
    ("ttft_p99", "p99"),
    ("time_per_token_mean", "per token s"),
    ("job_completion_mean", "job s"),
    ("job_completion_p90", "job p90"),
)
_SPARE = ("job p90", "per token s", "preempted", "p99", "recomputed")


def print_sweep(console: Console, outcome: SweepOutcome, output: Path) -> None:
    """Print the means over seeds, with half the 95 % interval after ± where there are several, and what was written."""
    table = new_table(console)
    table.add_column("capacity", justify="right")
    table.add_column("scheduler")
    table.add_column("rate", justify="right")
    table.add_column("policy")
    for _, header in (*_SHARES, *_SECONDS):
        table.add_column(header, justify="right")
    table.add_column("preempted", justify="right")
    refuses = any(row["refused"] for row in outcome.rows)
    if refuses:
        table.add_column("refused", justify="right")
    groups: dict[tuple[Any, ...], list[dict[str, Any]]] = {}
    for row in outcome.rows:
        key = tuple(row[name] for name in ("capacity", "scheduler", "rate", "policy"))
        groups.setdefault(key, []).append(row)
    last = None
    for (capacity, scheduler, rate, policy), rows in groups.items():
        if last not in (None, (capacity, scheduler, rate)):
            table.add_section()
        last = (capacity, scheduler, rate)
        cells = [f"{capacity:,}", scheduler, f"{rate:g}", policy]
        cells += [percent(_over_seeds(rows, name)) for name, _ in _SHARES]
        cells += [seconds(_over_seeds(rows, name)) for name, _ in _SECONDS]
        cells.append(f"{_over_seeds(rows, 'preemptions').mean:,.0f}")
        if refuses:
            cells.append(f"{_over_seeds(rows, 'refused').mean:,.0f}")
        table.add_row(*map(Text, cells))
    print_table(console, table, spare=_SPARE)
    console.print()
    before = f", {outcome.resumed} of them from before" if outcome.resumed else ""
    runs = f"{len(outcome.rows)} run{'s' if len(outcome.rows) > 1 else ''}"
    console.print(Text(f"wrote {output}: {runs} of {outcome.trace.name}{before}"))


def _over_seeds(rows: list[dict[str, Any]], name: str) -> Confidence:
    return confidence([math.nan if row[name] is None else float(row[name]) for row in rows])
