"""`kvopt vllm`: what would run inside a vLLM server, recording one, and hooks in vLLM's own sources."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path
from typing import Any

import click

from kvopt.cli.console import new_table, output_console, print_table
from kvopt.errors import ConfigError
from kvopt.output_file import check_output, write_output
from kvopt.simulator.result import json_bytes

PROBLEMS = 1
"""Exit code of a doctor that found any."""


@click.group()
def vllm() -> None:
    """KVopt inside a vLLM server: what would run, recording, and a patched vLLM."""


@vllm.command()
@click.option(
    "--config", metavar="JSON|FILE", help="Options, as in KVOPT_CONFIG, which is what is looked at otherwise."
)
@click.option("--json", "json_file", type=click.Path(path_type=Path), help="Write the findings to this file.")
def doctor(config: str | None, json_file: Path | None) -> int:
    """Say what is installed, what would be hooked, and what falls back and why. Exit code 1 when there is a problem."""
    from kvopt.vllm.doctor import PROBLEM, examine

    if json_file is not None:
        check_output(json_file)
    findings = examine(given=config)
    if json_file is not None:
        write_output(
            json_file, json_bytes([{"subject": f.subject, "state": f.state, "found": f.found} for f in findings])
        )
    console = output_console()
    table = new_table(console)
    for header in ("what", "state", "found"):
        table.add_column(header)
    for finding in findings:
        table.add_row(finding.subject, finding.state, finding.found)
    print_table(console, table)
    return PROBLEMS if any(finding.state == PROBLEM for finding in findings) else 0


@vllm.command(context_settings={"ignore_unknown_options": True})
@click.argument("trace", metavar="OUT.parquet", type=click.Path(path_type=Path))
@click.argument("command", metavar="-- COMMAND...", nargs=-1, required=True, type=click.UNPROCESSED)
@click.option("--limit", default="256MiB", show_default=True, help="Stop recording after so many bytes.")
def record(trace: Path, command: tuple[str, ...], limit: str) -> None:
    """Run a vLLM server and record its requests: hashes and lengths, never tokens or text.

    kvopt vllm record trace.parquet -- vllm serve MODEL

    The trace is complete when the server ends in order; after a crash `kvopt trace convert OUT.parquet.journal` makes
    it of what was written. The server's own block pool and order are not touched.
    """
    from kvopt.vllm.config import ENVIRONMENT, KEY, parse_config

    target = check_output(trace).resolve()
    options: dict[str, Any] = {"pool": "off", "record": str(target), "record_limit": limit}
    parse_config(options, "record")
    if any(f'"{KEY}"' in argument for argument in command) or os.environ.get(ENVIRONMENT):
        raise ConfigError(f'record: this server has a KVopt configuration already; add "record": "{target}" to it')
    program = shutil.which(command[0])
    if program is None:
        raise ConfigError(f"record: there is no command {command[0]!r}")
    os.execve(program, list(command), os.environ | {ENVIRONMENT: json.dumps(options)})


@vllm.command()
@click.argument("tree", metavar="SOURCE_TREE_OR_SITE_PACKAGES", type=click.Path(path_type=Path))
@click.option(
    "--check", is_flag=True, help="Change nothing: say what it is, and what would be done. Exit code 1 if nothing can."
)
@click.option("--revert", is_flag=True, help="Take the hooks out again: every file is what it was, byte for byte.")
def patch(tree: Path, check: bool, revert: bool) -> int:
    """Put KVopt's hooks into vLLM's own sources, so that it runs without the plugin.

    kvopt vllm patch "$(python -c 'import sysconfig; print(sysconfig.get_path("purelib"))')"

    The patched vLLM builds KVopt's scheduler, block pool and hashes itself where the same configuration asks for them,
    and its own where none does. Only files exactly as released are patched; otherwise nothing is changed.
    """
    from kvopt.vllm.patching import State, apply_patch, examine_patch, revert_patch

    if check and revert:
        raise ConfigError("patch: --check and --revert exclude each other")
    found = (examine_patch if check else revert_patch if revert else apply_patch)(tree)
    console = output_console()
    table = new_table(console)
    for header in ("file", "state"):
        table.add_column(header)
    for path, state in found.files.items():
        table.add_row(path, state)
    if found.files:
        print_table(console, table)
    problem = found.problem()
    next_steps = {
        State.RELEASED: f"; {found.patch} fits" if check else ", byte for byte",
        State.PATCHED: "; --revert takes the hooks out",
        State.PARTLY: ", by a run that was killed; --revert puts it back",
    }
    click.echo(problem or f"{found.name}: {found.state}{next_steps[found.state]}")
    return PROBLEMS if problem is not None or found.state == State.PARTLY else 0
