"""The README is true: its commands run, its examples work, and its figures are those of the built-in workload."""

from __future__ import annotations

import gzip
import json
import re
import shlex
import shutil
import subprocess
import sys
import tarfile
from pathlib import Path

import pytest

from command_line import succeeds
from kvopt.workload import CodingAgents, write_parquet
from made_traces import SMALL_TRACE, write_mooncake

ROOT = Path(__file__).resolve().parents[2]
TEXT = (ROOT / "README.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"^```(\w*)\n(.*?)^```$", TEXT, re.MULTILINE | re.DOTALL)
PYTHON = [code for language, code in BLOCKS if language == "python"]
POLICY_FILE = re.compile(r"# (\w+\.py)\n")
MODEL_CONFIG = {
    "model_type": "mistral",
    "hidden_size": 4096,
    "intermediate_size": 14_336,
    "num_hidden_layers": 32,
    "num_attention_heads": 32,
    "num_key_value_heads": 8,
    "sliding_window": 4096,
    "vocab_size": 32_000,
}
SESSIONS = Path(__file__).parent / "data" / "kv_cache_tester"


def commands() -> list[str]:
    """The `kvopt ...` lines of the shell blocks, in order, without their comments."""
    lines = [line for language, code in BLOCKS if language == "" for line in code.splitlines()]
    return [
        shlex.join(shlex.split(line, comments=True))
        for line in lines
        if line.startswith("kvopt ") and not line.startswith("kvopt vllm ")  # those need a vLLM; tests/vllm has them
    ]


@pytest.fixture
def workplace(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with every file that the README's lines read, in small."""
    monkeypatch.chdir(tmp_path)
    plain = write_mooncake(tmp_path / "trace.jsonl", SMALL_TRACE)
    (tmp_path / "trace.jsonl.gz").write_bytes(gzip.compress(plain.read_bytes()))
    with tarfile.open(tmp_path / "sessions.tar.xz", "w:xz") as archive:
        archive.add(SESSIONS, arcname="sessions")
    (tmp_path / "config.json").write_text(json.dumps(MODEL_CONFIG))
    steps = [(q, s, 5 + q / 50 + s / 5000 + q * s / 1e6) for q in (128, 512, 2048) for s in (0, 8000, 32_000)]
    (tmp_path / "steps.csv").write_text("q,s,ms\n" + "".join(f"{q},{s},{ms}\n" for q, s, ms in steps))
    for code in (code for language, code in BLOCKS if language == "toml"):
        (tmp_path / code.splitlines()[0].removeprefix("# ")).write_text(code, encoding="utf-8")
    for name in ("a", "b"):
        write_parquet(CodingAgents(sessions=2).load(), tmp_path / f"{name}.parquet")
    for code in PYTHON:
        if named := POLICY_FILE.match(code):
            (tmp_path / named[1]).write_text(code, encoding="utf-8")
    return tmp_path


def test_every_command_runs_in_order(workplace: Path) -> None:
    found = commands()
    assert {line.split()[1] for line in found} >= {"compare", "cost", "mrc", "plot", "trace"}
    for line in found:
        assert succeeds(*shlex.split(line)[1:]), line
    for made in (
        "result.json",
        "result.svg",
        "cost.svg",
        "agents.parquet",
        "both.parquet",
        "report.html",
        "sweep.parquet",
    ):
        assert (workplace / made).stat().st_size > 0


def test_the_example_policy_is_short_and_saves_what_is_said(workplace: Path) -> None:
    (code,) = (code for code in PYTHON if POLICY_FILE.match(code))
    assert len(code.splitlines()) <= 20
    (line,) = (line for line in commands() if "PatientWithDepth" in line)
    succeeds(*shlex.split(line)[1:], "--json", "saved.json")
    rows = json.loads((workplace / "saved.json").read_text())["rows"]
    saved = {row["policy"]: f"{row['cost_saved']:.1%}" for row in rows}
    quoted = re.search(
        r"saves ([\d.]+%) of the prefill cost where `lru` saves ([\d.]+%) and the optimum ([\d.]+%)", TEXT
    )
    assert quoted is not None
    assert quoted.groups() == (saved["PatientWithDepth"], saved["lru"], saved["min"])


@pytest.mark.parametrize("code", [code for code in PYTHON if not POLICY_FILE.match(code)])
def test_the_python_examples_run(workplace: Path, code: str) -> None:
    run = subprocess.run([sys.executable, "-c", code], cwd=workplace, capture_output=True, text=True, check=False)
    assert (run.returncode, run.stderr) == (0, "")
    assert run.stdout


def test_the_cpp_example_compiles(tmp_path: Path) -> None:
    compiler = shutil.which("c++")
    if compiler is None:
        pytest.skip("there is no C++ compiler")
    (code,) = (code for language, code in BLOCKS if language == "cpp")
    source = tmp_path / "example.cpp"
    source.write_text(code)
    command = [compiler, "-std=c++20", "-fsyntax-only", "-Wall", "-Wextra", "-Werror", f"-I{ROOT / 'csrc/include'}"]
    run = subprocess.run([*command, str(source)], capture_output=True, text=True, check=False)
    assert (run.returncode, run.stderr) == (0, "")


def test_links_lead_somewhere() -> None:
    targets = re.findall(r"\]\((?!https?:)([^)#]+)\)", TEXT)
    assert targets
    assert [target for target in targets if not (ROOT / target).exists()] == []
