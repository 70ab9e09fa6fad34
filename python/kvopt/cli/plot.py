"""`kvopt plot`: a result file as a figure."""

from __future__ import annotations

from pathlib import Path

import click

from kvopt.cli.values import check_outputs


@click.command(short_help="Draw a result file as SVG or PNG.")
@click.argument("result", metavar="FILE.json", type=click.Path(path_type=Path))
@click.option(
    "-o",
    "--output",
    required=True,
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="Figure to write; .svg or .png by its suffix.",
)
@click.pass_context
def plot(ctx: click.Context, /, result: Path, output: Path) -> None:
    """Draw hit ratio and cost saved by capacity, for all policies of FILE.json.

    FILE.json is what kvopt compare or kvopt mrc wrote with --json.
    """
    from kvopt.cli.figure import check_figure, write_figure
    from kvopt.cli.result_file import read_result

    check_outputs(ctx, result, {"--output": output})
    check_figure(output)
    write_figure(read_result(result), output)
    click.echo(f"wrote {output}")
