"""The TRACE argument and the reader options that commands share."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from kvopt.workload.open_trace import DEFAULTS, FORMATS, read_trace

if TYPE_CHECKING:
    from kvopt.cli.console import Progress
    from kvopt.workload.base import Trace

AnyCommand = TypeVar("AnyCommand", bound=Callable[..., Any])

_READER_OPTIONS = (
    click.option(
        "--format",
        type=click.Choice(("auto", *FORMATS)),
        default="auto",
        show_default=True,
        help="Format of TRACE; auto tells it from the file.",
    ),
    click.option("--drop-partial", is_flag=True, help="Leave out the partial last block (mooncake, qwen-bailian)."),
    click.option(
        "--arrival-gap",
        type=float,
        default=DEFAULTS["arrival_gap"],
        show_default=True,
        help="Mean seconds between session starts (kv-cache-tester).",
    ),
    click.option(
        "--seed", type=int, default=DEFAULTS["seed"], show_default=True, help="Of those starts (kv-cache-tester)."
    ),
    click.option("--share-prefix", is_flag=True, help="Sessions of one model share their prompt (kv-cache-tester)."),
)


def reader_options(command: AnyCommand) -> AnyCommand:
    """Add the options of :func:`kvopt.workload.read_trace`; the command takes them as its keywords."""
    for decorate in reversed(_READER_OPTIONS):
        command = decorate(command)
    return command


def trace_source(command: AnyCommand) -> AnyCommand:
    """Add TRACE, which may be left out, and the reader options; the command takes them as `load_trace` does."""
    return click.argument("trace", required=False, type=click.Path(path_type=Path))(reader_options(command))


def load_trace(trace: Path | None, *, progress: Progress | None = None, **reader: Any) -> Trace:
    """Read TRACE, or make the built-in agent workload when there is none.

    Raises TraceError, ConfigError or OSError as `read_trace` does.
    """
    if trace is None:
        from kvopt.workload.builtin import default_workload

        return default_workload().load(progress)
    return read_trace(trace, progress=progress, **reader)


def check_trace(ctx: click.Context, trace: Path | None) -> None:
    """Before any work: TRACE exists, or no reader option is given without it. Raises UsageError."""
    if trace is not None:
        if not trace.exists():
            raise click.UsageError(f"{trace}: no such file or folder", ctx)
        return
    for name in ("format", *DEFAULTS):
        if ctx.get_parameter_source(name) is click.core.ParameterSource.COMMANDLINE:
            option = f"--{name.replace('_', '-')}"
            raise click.UsageError(f"{option} says how to read a TRACE, but no TRACE is given", ctx)
