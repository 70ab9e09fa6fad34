"""`kvopt report`: results of simulations as one page."""

from __future__ import annotations

from pathlib import Path

import click

from kvopt.cli.replay_options import OUTPUT
from kvopt.cli.values import check_outputs


@click.command(short_help="Results of simulate as one HTML page.")
@click.argument("files", nargs=-1, required=True, metavar="FILE.json...", type=click.Path(path_type=Path))
@click.option("-o", "--output", required=True, type=OUTPUT, metavar="FILE.html", help="Page to write.")
@click.option("--title", default="KV cache report", show_default=True, help="Its heading.")
@click.pass_context
def report(ctx: click.Context, /, files: tuple[Path, ...], output: Path, title: str) -> None:
    """Write a page that compares the runs of what kvopt simulate wrote with --json.

    A table, distributions of latency, hits and memory over time, and what each policy wasted. Results of one trace and
    one setup are put together. The page is one file that needs no network, in dark and light, on a phone and on paper.
    """
    from kvopt.cli.report_page import report_page
    from kvopt.cli.simulation_file import read_scenarios
    from kvopt.output_file import write_output

    for file in files:
        check_outputs(ctx, file, {"--output": output})
    write_output(output, report_page(read_scenarios(files), title))
    click.echo(f"wrote {output}")
