"""`kvopt bound`: what no policy can exceed on a trace."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from kvopt.cli.replay_options import capacity_option, cost_and_threads, result_files
from kvopt.cli.trace_source import check_trace, load_trace, trace_source
from kvopt.cli.values import check_outputs

if TYPE_CHECKING:
    from rich.console import Console

    from kvopt.simulator import ReplayResult, UpperBounds
    from kvopt.simulator.upper_bound import Metric

METRICS = ("block_hit", "cost_saved")


@click.command(short_help="What no policy can exceed on a trace.")
@trace_source
@capacity_option("1 to 16% of all blocks")
@click.option(
    "--metric",
    "metrics",
    type=click.Choice(METRICS),
    multiple=True,
    default=METRICS,
    show_default="both",
    help="Share of the blocks hit, or of the prefill cost saved. Repeatable.",
)
@click.option("--bypass", is_flag=True, help="A request's own blocks need no place while it runs, as in min-bypass.")
@click.option(
    "--window", type=click.IntRange(min=1), default=1, show_default=True, help="Requests that share a price of memory."
)
@click.option(
    "--steps",
    type=click.IntRange(min=0),
    default=1000,
    show_default=True,
    help="At most so many steps to better prices.",
)
@cost_and_threads
@result_files("bounds")
@click.pass_context
def bound(
    ctx: click.Context,
    /,
    capacities: list[int],
    metrics: tuple[Metric, ...],
    bypass: bool,
    window: int,
    steps: int,
    p_star: float,
    threads: int | None,
    json_file: Path | None,
    csv_file: Path | None,
    trace: Path | None,
    **reader: Any,
) -> None:
    """Prove how much of TRACE any policy could save, even one that knows the future.

    Without a TRACE, the built-in agent workload. The bound is conditional on the schedule: it holds for the requests in
    the order of the trace. Beside it stand the bound from one price alone, and what lru and the optimum of hits reach.
    """
    from kvopt.cli.compare import default_capacities
    from kvopt.cli.console import output_console, progress_bar
    from kvopt.simulator import replay, upper_bound

    check_trace(ctx, trace)
    check_outputs(ctx, trace, {"--json": json_file, "--csv": csv_file})
    optimum = "min-bypass" if bypass else "min"
    with progress_bar() as progress:
        loaded = load_trace(trace, **reader, progress=progress)
        sizes = sorted(set(capacities)) or default_capacities(loaded.unique_blocks, loaded.prefix.longest_request)
        reached = replay(loaded, ["lru", optimum], sizes, p_star=p_star, threads=threads, progress=progress)
        bounds = upper_bound(
            loaded,
            sizes,
            metrics,
            bypass=bypass,
            window=window,
            steps=steps,
            p_star=p_star,
            threads=threads,
            progress=progress,
        )
    if json_file is not None:
        bounds.write_json(json_file)
    if csv_file is not None:
        bounds.write_csv(csv_file)
    _print_bounds(output_console(), bounds, reached, optimum)


def _print_bounds(console: Console, bounds: UpperBounds, reached: ReplayResult, optimum: str) -> None:
    from rich.text import Text

    from kvopt.cli.console import new_table, print_table

    table = new_table(console)
    for name in ("capacity", "metric", "bound", "one price", optimum, "lru", "skipped", "steps", "time s"):
        table.add_column(name, justify="left" if name == "metric" else "right")
    gaps = []
    for row in bounds.rows:
        best, lru = (getattr(reached.row(policy, row.capacity), row.metric) for policy in (optimum, "lru"))
        gaps.append(100 * (row.bound - best))
        table.add_row(
            f"{row.capacity:,}",
            row.metric.replace("_", " "),
            *(f"{share:.2%}" for share in (row.bound, row.uniform_bound, best, lru)),
            f"{row.skipped:,}",
            f"{row.steps:,}",
            f"{row.seconds:.3f}",
        )
    print_table(console, table, spare=("time s", "steps"))
    console.print()
    low, high = (f"{gap:.1f}" for gap in (min(gaps), max(gaps)))
    points = low if low == high else f"{low} to {high}"
    console.print(
        Text(f"With the requests in this order no policy is above the bound; {optimum} is {points} points below.")
    )
