"""`kvopt vllm` where no vLLM is installed, and what it starts."""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

from command_line import KVOPT, fails
from kvopt.cli.main import main


@pytest.mark.skipif(importlib.util.find_spec("vllm") is not None, reason="vLLM is installed here")
def test_doctor_without_vllm(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("KVOPT_CONFIG", raising=False)
    file = tmp_path / "found.json"
    result = CliRunner().invoke(main, ["vllm", "doctor", "--json", str(file)])
    assert result.exit_code == 1
    found = {entry["subject"]: entry for entry in json.loads(file.read_text())}
    assert found["vLLM"] == {"subject": "vLLM", "state": "problem", "found": "not installed in this environment"}
    assert found["configuration"]["state"] == "note"
    assert "not installed" in result.stdout


def test_doctor_names_a_bad_option(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KVOPT_CONFIG", "")
    result = CliRunner().invoke(main, ["vllm", "doctor", "--config", '{"polcy": "lru"}'])
    assert result.exit_code == 1
    assert "did you mean 'policy'?" in result.stdout


def test_doctor_runs_a_policy_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KVOPT_CONFIG", "")
    config = tmp_path / "kvopt.toml"
    config.write_text(f'policy = "{tmp_path}/gone.py:Policy"\n')
    result = CliRunner().invoke(main, ["vllm", "doctor", "--config", str(config)])
    assert "there is no file" in result.stdout


def test_record_starts_the_server_with_its_configuration(tmp_path: Path) -> None:
    program = "import os, sys; print(os.environ['KVOPT_CONFIG']); print(sys.argv[1:])"
    environment = {name: value for name, value in os.environ.items() if name != "KVOPT_CONFIG"}
    command = [*KVOPT, "vllm", "record", str(tmp_path / "t.parquet"), "--limit", "1MiB", "--"]
    run = subprocess.run(
        [*command, sys.executable, "-c", program, "serve", "--port", "1"],
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
        env=environment,
    )
    options, arguments = run.stdout.splitlines()
    assert json.loads(options) == {
        "pool": "off",
        "record": str((tmp_path / "t.parquet").resolve()),
        "record_limit": "1MiB",
    }
    assert arguments == "['serve', '--port', '1']"


def test_record_refuses_before_it_starts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("KVOPT_CONFIG", raising=False)
    target = tmp_path / "t.parquet"
    assert "no folder" in fails("vllm", "record", tmp_path / "gone" / "t.parquet", "--", "true")
    assert "no command" in fails("vllm", "record", target, "--", "kvopt-no-such-command")
    assert "no number of bytes" in fails("vllm", "record", target, "--limit", "much", "--", "true")
    assert "already" in fails("vllm", "record", target, "--", "true", "--additional-config", '{"kvopt": {}}')
