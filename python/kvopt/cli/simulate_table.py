"""The table that `kvopt simulate` prints, and the sentence below it."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from rich.text import Text

from kvopt.cli.console import new_table, print_table

if TYPE_CHECKING:
    from rich.console import Console

    from kvopt.cost import ModelGeometry
    from kvopt.metrics import Confidence
    from kvopt.simulator.simulation_result import SimulationResult, SimulationSummary
    from kvopt.workload.base import Trace

_SHARES = (("token_hit", "token hit"), ("recomputed_share", "recomputed"))
_SECONDS = (
    ("ttft_mean", "TTFT s"),
    ("ttft_p50", "p50"),
    ("ttft_p99", "p99"),
    ("time_per_token_mean", "per token s"),
    ("job_completion_mean", "job s"),
    ("job_completion_p90", "job p90"),
)
_SPARE = ("p50", "job p90", "per token s", "preempted", "p99", "vs lru")


def print_simulation(
    console: Console, trace: Trace, result: SimulationResult, model: ModelGeometry | None = None
) -> None:
    """Print the trace and the server in a line each, a row for each policy, scheduler and capacity, and a sentence.

    With several seeds the figures are means, with half the width of their 95 % interval after ±.
    """
    setup = result.setup
    console.print(
        Text(
            f"{trace.name}: {trace.requests:,} requests, {trace.unique_blocks:,} unique blocks of "
            f"{trace.block_tokens} tokens"
        )
    )
    seeds = setup["seeds"]
    drawn = "arrivals of the trace" if seeds == 1 else f"arrivals drawn by {seeds} seeds, mean ± 95% interval"
    console.print(
        Text(f"{setup['clients']['mode']} loop, rate {setup['clients']['rate']:g}, {setup['profile']['name']}; {drawn}")
    )
    table = new_table(console)
    table.add_column("capacity", justify="right")
    if model is not None:
        table.add_column("memory GiB", justify="right")
    table.add_column("scheduler")
    table.add_column("policy")
    for _, header in (*_SHARES, *_SECONDS):
        table.add_column(header, justify="right")
    table.add_column("vs lru", justify="right")
    table.add_column("preempted", justify="right")
    refuses = any(run.totals.refused for run in result.runs)
    if refuses:
        table.add_column("refused", justify="right")
    summaries = result.summaries()
    group = None
    for summary in summaries:
        if group not in (None, (summary.capacity, summary.scheduler)):
            table.add_section()
        group = (summary.capacity, summary.scheduler)
        cells = [f"{summary.capacity:,}"]
        if model is not None:
            cells.append(f"{summary.capacity * model.bytes_per_block(trace.block_tokens) / 2**30:,.2f}")
        cells += [summary.scheduler, summary.policy]
        cells += [percent(summary.figures[name]) for name, _ in _SHARES]
        cells += [seconds(summary.figures[name]) for name, _ in _SECONDS]
        cells += [_against_lru(summary, summaries), f"{summary.figures['preemptions'].mean:,.0f}"]
        if refuses:
            cells.append(f"{summary.figures['refused'].mean:,.0f}")
        table.add_row(*map(Text, cells))
    console.print()
    print_table(console, table, spare=_SPARE)
    console.print()
    console.print(Text(verdict(summaries)))


def verdict(summaries: tuple[SimulationSummary, ...]) -> str:
    """One sentence: at each capacity, where jobs end soonest on average, and by how much sooner than under lru."""
    parts = []
    for capacity in dict.fromkeys(summary.capacity for summary in summaries):
        level = [summary for summary in summaries if summary.capacity == capacity]
        known = [summary for summary in level if not math.isnan(_job(summary))]
        if not known:
            parts.append(f"at {capacity:,} blocks no session is answered")
            continue
        best = min(known, key=_job)
        several = len({summary.scheduler for summary in level}) > 1
        name = f"{best.policy} with {best.scheduler}" if several else best.policy
        lru = _counterpart(best, summaries)
        gain = 0.0 if lru is None or _job(lru) <= 0 else 1 - _job(best) / _job(lru)
        if len(level) == 1:
            parts.append(f"at {capacity:,} blocks jobs take {_job(best):,.4g} s on average")
        elif gain < 0.0005:
            parts.append(f"at {capacity:,} blocks jobs end soonest under {name}")
        else:
            parts.append(f"at {capacity:,} blocks jobs end soonest under {name}, {gain:.1%} sooner than under lru")
    text = "; ".join(parts)
    return f"{text[0].upper()}{text[1:]}."


def _job(summary: SimulationSummary) -> float:
    return summary.figures["job_completion_mean"].mean


def _counterpart(summary: SimulationSummary, summaries: tuple[SimulationSummary, ...]) -> SimulationSummary | None:
    for other in summaries:
        if (other.policy, other.scheduler, other.capacity) == ("lru", summary.scheduler, summary.capacity):
            return other
    return None


def _against_lru(summary: SimulationSummary, summaries: tuple[SimulationSummary, ...]) -> str:
    lru = _counterpart(summary, summaries)
    if lru is None or not _job(lru) > 0:
        return "-"
    return f"{100 * (_job(summary) / _job(lru) - 1):+z.1f}%"


def percent(value: Confidence) -> str:
    """A share with its interval; "-" where there is none."""
    if math.isnan(value.mean):
        return "-"
    around = "" if math.isnan(value.half_width) else f" ±{100 * value.half_width:.1f}"
    return f"{value.mean:.1%}{around}"


def seconds(value: Confidence) -> str:
    """Seconds with their interval; "-" where there are none."""
    if math.isnan(value.mean):
        return "-"
    around = "" if math.isnan(value.half_width) else f" ±{value.half_width:,.2g}"
    return f"{value.mean:,.3g}{around}" if value.mean < 1000 else f"{value.mean:,.0f}{around}"
