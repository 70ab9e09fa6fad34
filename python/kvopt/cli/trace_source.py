"""The TRACE argument and the reader options that commands share."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

if TYPE_CHECKING:
    from kvopt.cli.console import Progress
    from kvopt.workload.base import Trace

AnyCommand = TypeVar("AnyCommand", bound=Callable[..., Any])

_DECORATORS = (
    click.argument("trace", required=False, type=click.Path(path_type=Path)),
    click.option("--format", "trace_format", default="auto", help="Format of TRACE; told from the file if not given."),
    click.option("--drop-partial", is_flag=True, help="Leave out the last, partial block of each request (Mooncake)."),
    click.option(
        "--arrival-gap", type=float, default=30.0, show_default=True, help="Mean seconds between session starts."
    ),
    click.option("--seed", type=int, default=1, show_default=True, help="Seed of the session starts."),
    click.option("--share-prefix", is_flag=True, help="Sessions of one model share their tool and system prompt."),
)

_READER_OPTIONS = {
    "trace_format": "--format",
    "drop_partial": "--drop-partial",
    "arrival_gap": "--arrival-gap",
    "seed": "--seed",
    "share_prefix": "--share-prefix",
}


def trace_source(command: AnyCommand) -> AnyCommand:
    """Add TRACE and the reader options; the command takes them as the keywords of `load_trace`."""
    for decorate in reversed(_DECORATORS):
        command = decorate(command)
    return command


def load_trace(
    trace: Path | None,
    *,
    trace_format: str,
    drop_partial: bool,
    arrival_gap: float,
    seed: int,
    share_prefix: bool,
    progress: Progress | None = None,
) -> Trace:
    """Read TRACE, or make the built-in agent workload when there is none.

    Raises TraceError, ConfigError or OSError as `read_trace` does.
    """
    if trace is None:
        from kvopt.workload import default_workload

        return default_workload().load(progress)
    from kvopt.workload.open_trace import read_trace

    return read_trace(
        trace,
        format=trace_format,
        drop_partial=drop_partial,
        arrival_gap=arrival_gap,
        seed=seed,
        share_prefix=share_prefix,
        progress=progress,
    )


def check_trace(ctx: click.Context, trace: Path | None) -> None:
    """Before any work: TRACE exists, or no reader option is given without it. Raises UsageError."""
    if trace is not None:
        if not trace.exists():
            raise click.UsageError(f"{trace}: no such file or folder", ctx)
        return
    for name, option in _READER_OPTIONS.items():
        if ctx.get_parameter_source(name) is click.core.ParameterSource.COMMANDLINE:
            raise click.UsageError(f"{option} says how to read a TRACE, but no TRACE is given", ctx)
