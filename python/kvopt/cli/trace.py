"""`kvopt trace`: inspect, convert, merge and generate traces."""

from __future__ import annotations

from dataclasses import MISSING, fields
from pathlib import Path
from typing import Any

import click

from kvopt.cli.console import new_table, output_console, print_table, progress_bar
from kvopt.cli.trace_source import check_trace, load_trace, reader_options, trace_source
from kvopt.output_file import check_output, write_output
from kvopt.simulator.result import json_bytes
from kvopt.workload import (
    CodingAgents,
    MultiTurnChat,
    OneOffRequests,
    SharedPrompts,
    Trace,
    Workload,
    default_workload,
    merge_traces,
    read_lengths,
    read_trace,
    write_parquet,
)
from kvopt.workload.parameters import limits_of


def check_target(ctx: click.Context, param: click.Parameter, value: Path) -> Path:
    """The file to write, refused before any work when it cannot be written or is not named as Parquet."""
    if value.suffix != ".parquet":
        raise click.BadParameter(f"{value}: traces are written as Parquet; name a file *.parquet", ctx, param)
    return check_output(value)


OUTPUT: dict[str, Any] = {"type": click.Path(path_type=Path), "required": True, "callback": check_target}
_output_option = click.option("-o", "--output", metavar="OUT.parquet", help="The file to write.", **OUTPUT)


@click.group()
def trace() -> None:
    """Inspect, convert, merge and generate traces."""


@trace.command()
@trace_source
@click.option("--json", "json_file", type=click.Path(path_type=Path), help="Write the figures to this file.")
@click.pass_context
def info(ctx: click.Context, /, trace: Path | None, json_file: Path | None, **reader: Any) -> None:
    """Show counts, lengths, gaps and sessions of TRACE; without TRACE, of the built-in agent workload."""
    check_trace(ctx, trace)
    if json_file is not None:
        check_output(json_file)
    with progress_bar() as progress:
        figures = load_trace(trace, **reader, progress=progress).summary()
    if json_file is not None:
        write_output(json_file, json_bytes(figures))
    _print_figures(figures)


@trace.command()
@click.argument("source", metavar="IN", type=click.Path(path_type=Path))
@click.argument("target", metavar="OUT.parquet", **OUTPUT)
@reader_options
def convert(source: Path, target: Path, **reader: Any) -> None:
    """Read a trace of any format and write it as Parquet."""
    with progress_bar() as progress:
        loaded = load_trace(source, **reader, progress=progress)
    _write(loaded, target)


@trace.command()
@click.argument("sources", metavar="TRACE...", nargs=-1, required=True, type=click.Path(path_type=Path))
@_output_option
@reader_options
def merge(sources: tuple[Path, ...], output: Path, **reader: Any) -> None:
    """Merge traces by time, keeping their sessions and blocks apart. Reader options hold for every TRACE."""
    with progress_bar() as progress:
        loaded = [read_trace(source, progress=progress, **reader) for source in sources]
    _write(merge_traces(loaded), output)


@trace.group()
def generate() -> None:
    """Generate a trace; the same options give the same trace."""


def _add_kind(kind: str, workload: type[Workload], summary: str) -> None:
    def command(output: Path, **parameters: Any) -> None:
        if parameters.get("arrivals") is not None:
            parameters["arrivals"] = read_lengths(parameters["arrivals"])
        _generate(workload(**parameters), output)

    output = click.Option(["-o", "--output"], metavar="OUT.parquet", help="The file to write.", **OUTPUT)
    options: list[click.Parameter] = [output]
    for which in fields(workload):  # type: ignore[arg-type]
        limits = limits_of(which)
        option = f"--{which.name.replace('_', '-')}"
        if limits is None:
            meaning = "take times and lengths from this BurstGPT or Azure CSV file"
            options.append(click.Option([option], type=click.Path(path_type=Path), help=f"{meaning}."))
            continue
        assert which.default is not MISSING
        meaning = limits.meaning[0].upper() + limits.meaning[1:]
        options.append(
            click.Option(
                [option], type=type(which.default), default=which.default, show_default=True, help=f"{meaning}."
            )
        )
    generate.add_command(click.Command(kind, callback=command, params=options, help=summary))


_add_kind("agents", CodingAgents, "Coding agents: tool calls, people, long contexts, sub-agents.")
_add_kind("chat", MultiTurnChat, "Multi-turn chats under a few system prompts.")
_add_kind("prompts", SharedPrompts, "Single requests with shared system prompts; takes the arrivals of a CSV trace.")
_add_kind("scans", OneOffRequests, "One-off requests that share nothing.")


@generate.command()
@_output_option
@click.option("--seed", type=int, default=1, show_default=True, help="Seed of all draws.")
def default(output: Path, seed: int) -> None:
    """The built-in workload: coding agents beside one-off chats."""
    _generate(default_workload(seed), output)


def _generate(workload: Workload, output: Path) -> None:
    with progress_bar() as progress:
        made = workload.load(progress)
    _write(made, output)


def _write(made: Trace, output: Path) -> None:
    write_parquet(made, output)
    click.echo(
        f"{output}: {made.requests} requests, {made.block_references} block references, {made.unique_blocks} blocks of "
        f"{made.block_tokens} tokens"
    )


def _print_figures(figures: dict[str, Any]) -> None:
    console = output_console()
    table = new_table(console)
    table.add_column("figure")
    table.add_column("value")
    for name, value in figures.items():
        if value is not None and name != "source":
            table.add_row(name.replace("_", " "), _shown(value))
    print_table(console, table)


def _shown(value: Any) -> str:
    if isinstance(value, dict):
        parts = (f"{key.replace('_', ' ')} {_shown(v)}" for key, v in value.items() if v is not None)
        return ", ".join(f"({part})" if ", " in part else part for part in parts)
    if isinstance(value, float):
        return f"{value:,.3f}".rstrip("0").rstrip(".")
    return f"{value:,}" if isinstance(value, int) else str(value)
