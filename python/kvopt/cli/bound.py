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
OPTIMUM = {False: "min", True: "min-bypass"}  # by whether a request's own blocks need no place


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
@click.option(
    "--bypass/--no-bypass",
    default=None,
    help="Whether a request's own blocks need no place while it runs, as in min-bypass.  [default: show both]",
)
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
    bypass: bool | None,
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
    the order of the trace, and, but for the rows of min-bypass, for policies under which a request fills its share of
    the capacity while it runs, as in every engine. Beside it stand the bound from one price alone, and what lru and the
    optimum of hits reach.
    """
    from kvopt.cli.compare import default_capacities
    from kvopt.cli.console import output_console, progress_bar
    from kvopt.simulator import UpperBounds, replay, upper_bound

    check_trace(ctx, trace)
    check_outputs(ctx, trace, {"--json": json_file, "--csv": csv_file})
    kinds = (False, True) if bypass is None else (bypass,)
    with progress_bar() as progress:
        loaded = load_trace(trace, **reader, progress=progress)
        sizes = sorted(set(capacities)) or default_capacities(loaded.unique_blocks, loaded.prefix.longest_request)
        policies = ["lru", *(OPTIMUM[kind] for kind in kinds)]
        reached = replay(loaded, policies, sizes, p_star=p_star, threads=threads, progress=progress)
        found = [
            upper_bound(
                loaded,
                sizes,
                metrics,
                bypass=kind,
                window=window,
                steps=steps,
                p_star=p_star,
                threads=threads,
                progress=progress,
            )
            for kind in kinds
        ]
    rows = sorted(
        (row for each in found for row in each.rows), key=lambda row: (row.capacity, metrics.index(row.metric))
    )
    bounds = UpperBounds(dict(found[0].trace) | {"bypass": bypass}, tuple(rows))
    if json_file is not None:
        bounds.write_json(json_file)
    if csv_file is not None:
        bounds.write_csv(csv_file)
    _print_bounds(output_console(), bounds, reached)


def _print_bounds(console: Console, bounds: UpperBounds, reached: ReplayResult) -> None:
    from rich.text import Text

    from kvopt.cli.console import new_table, print_table

    table = new_table(console)
    for name in ("capacity", "metric", "bound", "one price", "optimum", "reaches", "lru", "skipped", "steps", "time s"):
        table.add_column(name, justify="left" if name in ("metric", "optimum") else "right")
    gaps: dict[str, list[float]] = {}
    for row in bounds.rows:
        optimum = OPTIMUM[row.bypass]
        best, lru = (getattr(reached.row(policy, row.capacity), row.metric) for policy in (optimum, "lru"))
        gaps.setdefault(optimum, []).append(100 * (row.bound - best))
        table.add_row(
            f"{row.capacity:,}",
            row.metric.replace("_", " "),
            *(f"{share:.2%}" for share in (row.bound, row.uniform_bound)),
            optimum,
            *(f"{share:.2%}" for share in (best, lru)),
            f"{row.skipped:,}",
            f"{row.steps:,}",
            f"{row.seconds:.3f}",
        )
    print_table(console, table, spare=("time s", "steps"))
    console.print()
    points = " and ".join(f"{optimum} is {_span(each)} points" for optimum, each in gaps.items())
    console.print(Text(f"With the requests in this order no policy is above its bound; {points} below."))
    if OPTIMUM[True] in gaps:
        console.print(Text("The rows of min-bypass charge nothing for the blocks of the request that runs."))


def _span(points: list[float]) -> str:
    low, high = (f"{point:.1f}" for point in (min(points), max(points)))
    return low if low == high else f"{low} to {high}"
