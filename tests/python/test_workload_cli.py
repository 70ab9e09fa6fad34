"""`kvopt trace`: what it prints and writes, and its errors."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from kvopt.cli.main import main
from kvopt.workload import SharedPrompts, read_lengths, read_parquet, read_trace

DATA = Path(__file__).parent / "data"


def kvopt_trace(*arguments: object) -> Result:
    return CliRunner().invoke(main, ["trace", *map(str, arguments)])


def refused(result: Result) -> str:
    """The one line on standard error of a command that failed as it should."""
    assert result.exit_code == 2
    assert result.stderr.count("\n") == 1
    assert "Traceback" not in result.output
    return result.stderr


def test_info() -> None:
    result = kvopt_trace("info", DATA / "mooncake.jsonl")
    assert result.exit_code == 0
    rows = dict(line.split("  ", 1) for line in result.stdout.splitlines())
    assert {key: value.strip() for key, value in rows.items()}.items() >= {
        "name": "mooncake",
        "requests": "4",
        "block references": "10",
        "unique blocks": "5",
    }.items()


def test_info_as_json(tmp_path: Path) -> None:
    path = tmp_path / "figures.json"
    assert kvopt_trace("info", DATA / "kv_cache_tester", "--json", path, "--arrival-gap", 60).exit_code == 0
    figures = json.loads(path.read_text())
    assert figures == read_trace(DATA / "kv_cache_tester", arrival_gap=60.0).summary()
    assert figures["sessions"]["subagent_requests"] == 2


def test_convert_passes_the_reader_options(tmp_path: Path) -> None:
    path = tmp_path / "out.parquet"
    result = kvopt_trace("convert", DATA / "mooncake.jsonl", path, "--drop-partial")
    assert result.exit_code == 0
    assert "4 requests, 8 block references" in result.stdout
    assert read_parquet(path).block_references == 8


def test_merge(tmp_path: Path) -> None:
    one, two = tmp_path / "one.parquet", tmp_path / "two.parquet"
    assert kvopt_trace("convert", DATA / "mooncake.jsonl", one).exit_code == 0
    assert kvopt_trace("merge", one, one, "-o", two).exit_code == 0
    merged = read_parquet(two)
    assert (merged.requests, merged.block_references, merged.unique_blocks) == (8, 20, 10)


@pytest.mark.parametrize(
    ("kind", "options", "requests"),
    [
        ("scans", ["--requests", "30", "--seed", "5"], 30),
        ("prompts", ["--requests", "40", "--prompts", "3"], 40),
        ("chat", ["--sessions", "10", "--turns-mean", "1"], 10),
    ],
)
def test_generate(tmp_path: Path, kind: str, options: list[str], requests: int) -> None:
    path = tmp_path / "made.parquet"
    assert kvopt_trace("generate", kind, "-o", path, *options).exit_code == 0
    trace = read_parquet(path)
    assert trace.requests == requests
    assert trace.source["kind"] == kind


def test_generate_agents_and_default(tmp_path: Path) -> None:
    assert kvopt_trace("generate", "agents", "-o", tmp_path / "a.parquet", "--sessions", 3).exit_code == 0
    assert len(set(read_parquet(tmp_path / "a.parquet").session.tolist())) == 3
    assert kvopt_trace("generate", "default", "-o", tmp_path / "d.parquet").exit_code == 0
    assert read_parquet(tmp_path / "d.parquet").block_references > 5e6


def test_generate_prefixes_for_lengths(tmp_path: Path) -> None:
    path = tmp_path / "made.parquet"
    result = kvopt_trace("generate", "prompts", "-o", path, "--arrivals", DATA / "burstgpt.csv", "--prompts", 2)
    assert result.exit_code == 0
    expected = SharedPrompts(prompts=2, arrivals=read_lengths(DATA / "burstgpt.csv")).load()
    assert read_parquet(path).prefix.new_blocks.tolist() == expected.prefix.new_blocks.tolist()


def test_lengths_alone_are_refused() -> None:
    assert "arrivals and lengths only" in refused(kvopt_trace("info", DATA / "azure.csv"))


def test_damaged_input_leaves_no_output(tmp_path: Path) -> None:
    bad, out = tmp_path / "bad.jsonl", tmp_path / "out.parquet"
    bad.write_text((DATA / "mooncake.jsonl").read_text()[:-20])
    assert "bad.jsonl: line 4: not valid JSON" in refused(kvopt_trace("convert", bad, out))
    assert [p.name for p in tmp_path.iterdir()] == ["bad.jsonl"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["convert", "mooncake.jsonl", "OUT/x.jsonl"], "traces are written as Parquet"),
        (["convert", "mooncake.jsonl", "OUT/none/x.parquet"], "no folder"),
        (["convert", "missing.jsonl", "OUT/x.parquet"], "missing.jsonl"),
        (["convert", "mooncake.jsonl", "OUT/x.parquet", "--seed", "4"], "seed does not apply"),
        (["convert", "mooncake.jsonl", "OUT/x.parquet", "--format", "csv"], "'csv' is not one of"),
        (["convert", "mooncake.jsonl", "OUT/x.parquet", "--arrival-gap", "soon"], "'soon' is not a valid float"),
        (["merge", "-o", "OUT/x.parquet"], "Missing argument"),
        (["merge", "mooncake.jsonl", "qwen_bailian.jsonl", "-o", "OUT/x.parquet"], "blocks of different size"),
        (["generate", "chat", "-o", "OUT/x.parquet", "--sessions", "0"], "sessions 0 is not in 1"),
        (["generate", "chat", "-o", "OUT/x.parquet", "--bursts", "3"], "No such option"),
        (["generate", "chats", "-o", "OUT/x.parquet"], "No such command 'chats'"),
        (["info", "mooncake.jsonl", "--json", "OUT/none/x.json"], "no folder"),
    ],
)
def test_refused(tmp_path: Path, arguments: list[str], message: str) -> None:
    places = [
        a.replace("OUT", str(tmp_path)) if a.startswith("OUT") else str(DATA / a) if a.endswith(".jsonl") else a
        for a in arguments
    ]
    assert message in refused(kvopt_trace(*places))
    assert not list(tmp_path.iterdir())
