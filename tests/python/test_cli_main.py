from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

import kvopt
from command_line import KVOPT, fails
from kvopt.cli.main import COMMANDS, main


def test_version() -> None:
    run = subprocess.run([*KVOPT, "--version"], capture_output=True, text=True, check=True)
    assert run.stdout == f"kvopt {kvopt.__version__}\n"


def test_version_and_help_load_nothing_heavy() -> None:
    code = """
import sys
from kvopt.cli.main import main
main(["--version"], standalone_mode=False)
main(["--help"], standalone_mode=False)
print(sorted({"numpy", "rich", "pyarrow", "msgspec", "matplotlib"} & set(sys.modules)))
"""
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert run.stdout.splitlines()[-1] == "[]"


@pytest.mark.parametrize("name", sorted(COMMANDS))
def test_every_command_has_help(name: str) -> None:
    result = CliRunner().invoke(main, [name, "--help"])
    assert result.exit_code == 0, result.output
    assert result.output.startswith(f"Usage: kvopt {name}" if result.output.startswith("Usage: kvopt") else "Usage: ")


def test_no_command_shows_help() -> None:
    result = CliRunner().invoke(main, [])
    assert result.exit_code == 2
    assert "Commands:" in result.stderr


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["cmpare"], "no such command 'cmpare': did you mean 'compare'?"),
        (["zzz"], "no such command 'zzz': there are compare,"),
        (["compare", "--polcy", "lru"], "--policy"),
        (["--nonsense"], "--nonsense"),
        (["plot"], "FILE.json"),
    ],
)
def test_usage_errors(arguments: list[str], message: str) -> None:
    assert message in fails(*arguments)


@pytest.mark.parametrize(
    ("error", "message"),
    [
        (PermissionError(13, "Permission denied", "/secret"), "kvopt: error: /secret: Permission denied\n"),
        (OSError("odd"), "kvopt: error: odd\n"),
        (kvopt.KvoptError("first line\n  second line"), "kvopt: error: first line second line\n"),
    ],
)
def test_expected_errors_are_one_line(monkeypatch: pytest.MonkeyPatch, error: Exception, message: str) -> None:
    def broken(*_: object, **__: object) -> None:
        raise error

    monkeypatch.setattr("kvopt.cli.compare.load_trace", broken)
    assert fails("compare") == message


def test_a_bug_is_not_hidden(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: object, **__: object) -> None:
        raise ZeroDivisionError

    monkeypatch.setattr("kvopt.cli.compare.load_trace", broken)
    assert isinstance(CliRunner().invoke(main, ["compare"]).exception, ZeroDivisionError)


def heed_interrupts() -> None:
    """Also where these tests run in the background of a shell, which makes its children ignore them."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


def test_interrupt_leaves_quietly(tmp_path: Path) -> None:
    pipe, figure = tmp_path / "result.json", tmp_path / "figure.svg"
    os.mkfifo(pipe)
    process = subprocess.Popen(
        [*KVOPT, "plot", str(pipe), "-o", str(figure)],
        stderr=subprocess.PIPE,
        text=True,
        preexec_fn=heed_interrupts,
    )
    with pipe.open("wb"):  # opens once the command is reading, and keeps it waiting
        process.send_signal(signal.SIGINT)
        _, errors = process.communicate(timeout=60)
    assert process.returncode == 130
    assert "Traceback" not in errors
    assert not figure.exists()


def test_a_broken_pipe_is_quiet() -> None:
    reader, writer = os.pipe()
    os.close(reader)
    run = subprocess.run([*KVOPT, "policies"], stdout=writer, stderr=subprocess.PIPE, text=True, check=False)
    os.close(writer)
    assert run.returncode == 1
    assert run.stderr == ""
