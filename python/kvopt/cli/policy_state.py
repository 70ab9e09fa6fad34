"""Files of what policies have learned, as options of commands."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import click

from kvopt.cli.values import AnyCommand
from kvopt.errors import PolicyStateError


def policy_state_option(command: AnyCommand) -> AnyCommand:
    """Add --policy-state, as a path that `read_state` takes."""
    return click.option(
        "--policy-state",
        "state_file",
        type=click.Path(exists=True, dir_okay=False, path_type=Path),
        metavar="FILE",
        help="What policies that learn go on from: a file of kvopt learn, or of a server.",
    )(command)


def read_state(path: Path | None) -> bytes | None:
    """The bytes of a file of learned state; None without one."""
    return None if path is None else path.read_bytes()


@contextmanager
def naming_state(path: Path | None) -> Iterator[None]:
    """Let a refusal of the state name its file."""
    try:
        yield
    except PolicyStateError as error:
        raise error if path is None else PolicyStateError(f"{path}: {error}") from None
