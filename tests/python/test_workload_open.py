"""Telling the format of a trace, and options that do not belong to it."""

from __future__ import annotations

import gzip
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import kvopt.workload
from kvopt.errors import ConfigError, TraceError
from kvopt.workload import TraceFile, read_trace
from kvopt.workload.open_trace import detect_format

DATA = Path(__file__).parent / "data"


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("mooncake.jsonl", "mooncake"),
        ("qwen_bailian.jsonl", "qwen-bailian"),
        ("kv_cache_tester", "kv-cache-tester"),
        ("kv_cache_tester/a.json", "kv-cache-tester"),
        ("burstgpt.csv", "lengths"),
        ("azure.csv", "lengths"),
    ],
)
def test_detected(tmp_path: Path, name: str, expected: str) -> None:
    assert detect_format(DATA / name) == expected
    if (DATA / name).is_file():
        packed = tmp_path / f"{Path(name).name}.gz"
        packed.write_bytes(gzip.compress((DATA / name).read_bytes()))
        assert detect_format(packed) == expected


@pytest.mark.parametrize("name", ["mooncake.jsonl", "qwen_bailian.jsonl", "burstgpt.csv"])
def test_detected_without_a_suffix(tmp_path: Path, name: str) -> None:
    path = tmp_path / "trace"
    path.write_bytes((DATA / name).read_bytes())
    assert detect_format(path) == detect_format(DATA / name)


@pytest.mark.parametrize("content", [b"hello\n", b"\x00\x01\x02", b"[1]\n", b'{"a": 1}\n'])
def test_unknown_format(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "trace.dat"
    path.write_bytes(content)
    with pytest.raises(TraceError, match=r"trace\.dat: line 1: not a trace of a known format"):
        read_trace(path)


def test_empty_file(tmp_path: Path) -> None:
    path = tmp_path / "trace.dat"
    path.write_bytes(b"")
    with pytest.raises(TraceError, match="an empty file"):
        read_trace(path)


@pytest.mark.parametrize(
    ("name", "options", "message"),
    [
        (
            "mooncake.jsonl",
            {"arrival_gap": 3.0},
            "arrival_gap does not apply to a mooncake trace, only to kv-cache-tester",
        ),
        ("mooncake.jsonl", {"seed": 2}, "seed does not apply"),
        ("qwen_bailian.jsonl", {"share_prefix": True}, "share_prefix does not apply to a qwen-bailian trace"),
        (
            "kv_cache_tester",
            {"drop_partial": True},
            "drop_partial does not apply to a kv-cache-tester trace, only to moon",
        ),
        ("mooncake.jsonl", {"format": "moonshine"}, "format 'moonshine' is not one of auto, mooncake"),
    ],
)
def test_option_that_does_not_apply(name: str, options: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        read_trace(DATA / name, **options)


def test_format_given_is_believed() -> None:
    with pytest.raises(TraceError, match="missing required field `chat_id`"):
        read_trace(DATA / "mooncake.jsonl", format="qwen-bailian")


def test_missing_file(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        read_trace(tmp_path / "none.jsonl")


def test_trace_file_is_a_workload() -> None:
    workload = TraceFile(DATA / "mooncake.jsonl", drop_partial=True)
    assert workload.name == "mooncake"
    assert workload.load().block_references == 2 + 2 + 1 + 3


def test_public_names_exist() -> None:
    for name in kvopt.workload.__all__:
        assert getattr(kvopt.workload, name) is not None
    with pytest.raises(AttributeError, match="no attribute 'Workloads'"):
        kvopt.workload.Workloads  # noqa: B018


def test_json_and_parquet_load_only_with_their_readers() -> None:
    program = (
        "import sys; from kvopt.workload import Trace, default_workload; default_workload().load();"
        "print(sorted({'pyarrow', 'msgspec', 'rich', 'click'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
