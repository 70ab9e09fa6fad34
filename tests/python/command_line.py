"""Running the `kvopt` command in tests."""

from __future__ import annotations

import sys

from click.testing import CliRunner

from kvopt.cli.main import main

KVOPT = [sys.executable, "-m", "kvopt"]


def succeeds(*arguments: object) -> str:
    """Run a command that must succeed; return what it prints."""
    result = CliRunner().invoke(main, [str(argument) for argument in arguments])
    assert result.exit_code == 0, result.output
    assert result.stderr == ""
    return result.stdout


def fails(*arguments: object) -> str:
    """Run a command that must fail as a user expects it to; return its one line."""
    result = CliRunner().invoke(main, [str(argument) for argument in arguments])
    assert result.exit_code == 2, result.output
    assert result.stdout == ""
    assert result.stderr.startswith("kvopt: error: ")
    assert result.stderr.count("\n") == 1
    return result.stderr
