"""`kvopt mrc`: LRU's miss ratio at every capacity."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from kvopt.cli.replay_options import OUTPUT, capacity_option, cost_and_threads, result_files
from kvopt.cli.trace_source import check_trace, load_trace, trace_source
from kvopt.cli.values import check_outputs

if TYPE_CHECKING:
    from rich.console import Console

    from kvopt.simulator import MissRatioCurve


@click.command(short_help="LRU's miss ratio at every capacity.")
@trace_source
@capacity_option("40 from 1 to the unique blocks")
@cost_and_threads
@result_files("points")
@click.option("-o", "--plot", "plot_file", type=OUTPUT, metavar="FILE", help="Also draw the curve, as .svg or .png.")
@click.pass_context
def mrc(
    ctx: click.Context,
    /,
    capacities: list[int],
    p_star: float,
    threads: int | None,
    json_file: Path | None,
    csv_file: Path | None,
    plot_file: Path | None,
    trace: Path | None,
    **reader: Any,
) -> None:
    """Show what LRU misses on TRACE at every capacity, from one pass over it.

    Without a TRACE, the built-in agent workload. A capacity that does not hold the longest request is replayed by
    itself, without the requests that do not fit.
    """
    from kvopt.cli.console import output_console, progress_bar
    from kvopt.simulator import miss_ratio_curve

    check_trace(ctx, trace)
    check_outputs(ctx, trace, {"--json": json_file, "--csv": csv_file, "--plot": plot_file})
    if plot_file is not None:
        from kvopt.cli.figure import check_figure

        check_figure(plot_file)
    with progress_bar() as progress:
        loaded = load_trace(trace, **reader, progress=progress)
        curve = miss_ratio_curve(loaded, capacities or None, p_star=p_star, threads=threads, progress=progress)
    if json_file is not None:
        curve.write_json(json_file)
    if csv_file is not None:
        curve.write_csv(csv_file)
    if plot_file is not None:
        from kvopt.cli.figure import write_figure
        from kvopt.cli.result_file import result_of

        write_figure(result_of(curve.to_dict()), plot_file)
    _print_curve(output_console(), curve)


def _print_curve(console: Console, curve: MissRatioCurve) -> None:
    from rich.text import Text

    from kvopt.cli.console import new_table, print_table

    table = new_table(console)
    for name in ("capacity", "miss ratio", "block hit", "token hit", "cost saved", "skipped", "found by"):
        table.add_column(name, justify="left" if name == "found by" else "right")
    for point in curve.points:
        table.add_row(
            f"{point.capacity:,}",
            f"{point.miss_ratio:.2%}",
            f"{point.block_hit:.2%}",
            f"{point.token_hit:.2%}",
            f"{point.cost_saved:.2%}",
            f"{point.skipped:,}",
            "replay" if point.replayed else "distances",
        )
    print_table(console, table)
    console.print()
    console.print(Text(_verdict(curve)))


def _verdict(curve: MissRatioCurve) -> str:
    last = curve.points[-1]
    enough = next(point for point in curve.points if point.skipped == last.skipped and _close(point, last))
    if enough is last:
        return f"LRU hits {last.block_hit:.1%} of the blocks at {last.capacity:,} blocks, the largest capacity shown."
    return (
        f"LRU hits {last.block_hit:.1%} of the blocks at {last.capacity:,} blocks, "
        f"and from {enough.capacity:,} on less than one point below that."
    )


def _close(point: Any, last: Any) -> bool:
    return bool(last.block_hit - point.block_hit < 0.01)
