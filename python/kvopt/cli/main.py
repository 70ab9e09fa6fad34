"""The `kvopt` command group: subcommands loaded on demand, and errors as one line with exit code 2."""

from __future__ import annotations

import difflib
import importlib
import os
import sys
import threading
from collections.abc import Sequence
from typing import Any

import click

import kvopt
from kvopt.errors import KvoptError

COMMANDS = {
    "compare": "Compare eviction policies on a trace.",
    "explain": "What a policy would evict next, and why.",
    "learn": "Save what a policy learns of a trace.",
    "mrc": "LRU's miss ratio at every capacity.",
    "simulate": "Waits, hits and recomputation of a server.",
    "sweep": "Simulate a grid, on many cores.",
    "advise": "The least memory and best policy for an SLO.",
    "report": "Results of simulate as one HTML page.",
    "bound": "What no policy can exceed on a trace.",
    "plot": "Draw a result file as SVG or PNG.",
    "policies": "List the policies, or describe one.",
    "cost": "What prefill, cache and reload of a model cost.",
    "trace": "Inspect, convert, merge and generate traces.",
    "vllm": "Examine and record a vLLM server.",
}
"""Subcommand to its one-line help; command NAME is the object NAME of module kvopt.cli.NAME."""

EXIT_ERROR = 2
EXIT_BROKEN_PIPE = 1
EXIT_INTERRUPTED = 130


class CommandGroup(click.Group):
    """A group that imports a subcommand when it is called and reports every expected error in one line."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """The subcommands, without importing them."""
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Import a subcommand; None when there is none of this name."""
        if cmd_name not in COMMANDS:
            return None
        command = getattr(importlib.import_module(f"kvopt.cli.{cmd_name}"), cmd_name)
        assert isinstance(command, click.Command)
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Find the subcommand; the error for a misspelt one names the nearest."""
        name = args[0]
        if name in COMMANDS or name.startswith("-"):
            return super().resolve_command(ctx, args)
        near = difflib.get_close_matches(name, COMMANDS, n=1)
        hint = f"did you mean {near[0]!r}?" if near else f"there are {', '.join(COMMANDS)}"
        raise click.UsageError(f"no such command {name!r}: {hint}", ctx)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """List the subcommands without importing them."""
        with formatter.section("Commands"):
            formatter.write_dl(list(COMMANDS.items()))

    def main(
        self,
        args: Sequence[str] | None = None,
        prog_name: str | None = None,
        complete_var: str | None = None,
        standalone_mode: bool = True,
        **extra: Any,
    ) -> Any:
        """Run the command line; in standalone mode exit with 0, 1 (broken pipe), 2 (error) or 130 (interrupted)."""
        if not standalone_mode:
            return super().main(args, prog_name, complete_var, standalone_mode=False, **extra)
        try:
            result = super().main(args, prog_name, complete_var, standalone_mode=False, **extra)
            sys.stdout.flush()
            code = result if isinstance(result, int) else 0
        except click.exceptions.NoArgsIsHelpError as error:
            error.show()
            code = EXIT_ERROR
        except (click.Abort, KeyboardInterrupt):
            code = EXIT_INTERRUPTED
            _leave_running_replays(code)
        except click.ClickException as error:
            code = _report(error.format_message())
        except BrokenPipeError:
            code = EXIT_BROKEN_PIPE
            _silence_stdout()
        except OSError as error:
            code = _report(f"{error.filename}: {error.strerror}" if error.filename else str(error))
        except KvoptError as error:
            code = _report(str(error))
        sys.exit(code)


def _report(message: str) -> int:
    click.echo(f"kvopt: error: {' '.join(message.split())}", err=True)
    return EXIT_ERROR


def _silence_stdout() -> None:
    # What is still buffered would raise again when the interpreter closes the stream.
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _leave_running_replays(code: int) -> None:
    # A native replay cannot be interrupted, and the interpreter would wait for its thread.
    if any(thread.name.startswith("kvopt-replay") for thread in threading.enumerate()):
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)


@click.group(cls=CommandGroup, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(kvopt.__version__, prog_name="kvopt", message="%(prog)s %(version)s")
def main() -> None:
    """Decide which KV-cache blocks an LLM server keeps: compare policies on real traces."""
