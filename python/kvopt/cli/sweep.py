"""`kvopt sweep`: a grid of simulations over many cores, into one Parquet file."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from kvopt.cli.replay_options import OUTPUT
from kvopt.cli.values import check_outputs

if TYPE_CHECKING:
    from kvopt.scheduler import Scheduler


@click.command(short_help="Simulate a grid, on many cores.")
@click.argument("spec", metavar="SPEC.toml", type=click.Path(path_type=Path))
@click.option("-o", "--output", required=True, type=OUTPUT, metavar="FILE.parquet", help="One row a run.")
@click.option("--jobs", type=click.IntRange(min=1), metavar="N", help="Processes.  [default: one a core]")
@click.option(
    "--ray",
    is_flag=False,
    flag_value="",
    metavar="[ADDRESS]",
    help="Run on a Ray cluster: the one at ADDRESS, or a local one. Needs pip install 'kvopt[ray]'.",
)
@click.pass_context
def sweep(ctx: click.Context, /, spec: Path, output: Path, jobs: int | None, ray: str | None) -> None:
    """Simulate every policy, capacity, scheduler, rate and seed that SPEC.toml lists; docs/sweep.md has its keys.

    A sweep that was stopped, however, goes on where it was when it is started again: cells that are finished are not
    run again. The file is the same, byte by byte, on one core, many, or a cluster.
    """
    from kvopt.cli.console import output_console, progress_bar
    from kvopt.cli.sweep_table import print_sweep
    from kvopt.policies.python_file import load_policy
    from kvopt.simulator.sweep import Loaders, read_spec, run_sweep

    if ray is not None and jobs is not None:
        raise click.UsageError("--jobs is the number of local processes; it does not go with --ray", ctx)
    check_outputs(ctx, spec, {"--output": output})
    grid = read_spec(spec)
    with progress_bar() as progress:
        outcome = run_sweep(
            grid,
            output,
            jobs=jobs,
            ray=False if ray is None else ray or True,
            loaders=Loaders(load_policy, load_scheduler),
            progress=progress,
        )
    print_sweep(output_console(), outcome, output)


def load_scheduler(spec: str) -> str | type[Scheduler]:
    """A scheduler's class where the spec names one in a Python file, else the spec."""
    from kvopt.errors import SchedulerError
    from kvopt.policies.python_file import load_class
    from kvopt.scheduler import Scheduler

    return load_class(spec, "scheduler", Scheduler, SchedulerError)  # type: ignore[type-abstract]
