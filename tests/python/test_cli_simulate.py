from __future__ import annotations

import json
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from command_line import fails, succeeds

SCHEDULER = """
from kvopt.scheduler import OrderedScheduler


class LongestFirst(OrderedScheduler):
    def rank(self, request):
        return -request.prompt_tokens
"""


def test_table_and_sentence(small_trace_file: Path) -> None:
    lines = succeeds(
        "simulate", small_trace_file, "--capacity", "10,100", "--policy", "lru,fifo", "--profile", "k0=1000"
    ).splitlines()
    assert lines[0] == "small: 7 requests, 12 unique blocks of 512 tokens"
    assert lines[1] == "closed loop, rate 1, k0=1000; arrivals of the trace"
    rows = [line.split() for line in lines if line.startswith(("10 ", "100 ")) or line.lstrip().startswith("10")]
    assert [(row[0], row[1], row[2]) for row in rows] == [
        ("10", "fifo", "lru"),
        ("10", "fifo", "fifo"),
        ("100", "fifo", "lru"),
        ("100", "fifo", "fifo"),
    ]
    assert lines[-1].startswith("At 10 blocks jobs end soonest under")


def test_one_row_has_nothing_to_compare(small_trace_file: Path) -> None:
    lines = succeeds("simulate", small_trace_file, "--capacity", 100, "--policy", "lru", "--profile", "k0=1000")
    # Every step takes a second; each answer has 10 tokens, and nobody waits for a place.
    assert lines.splitlines()[-1].startswith("At 100 blocks jobs take 10 s on average.")


def test_files(small_trace_file: Path, tmp_path: Path) -> None:
    result, log = tmp_path / "result.json", tmp_path / "events.parquet"
    succeeds(
        "simulate", small_trace_file, "--capacity", 10, "--policy", "lru", "--seeds", 2, "--clients", "open",
        "--rate", 2, "--token-budget", 512, "--bounded", "--json", result, "--events", log,
    )  # fmt: skip
    document = json.loads(result.read_text())
    assert [run["seed"] for run in document["runs"]] == [1, 2]
    assert document["setup"]["clients"]["rate"] == 2.0
    assert document["setup"]["options"]["limits"] == {"token_budget": 512, "max_sequences": 512}
    assert document["setup"]["options"]["exact"] is False
    assert document["summary"][0]["figures"]["ttft_mean"]["runs"] == 2
    table = pq.read_table(log)
    assert set(table.column("seed").to_pylist()) == {1, 2}
    assert table.column("event").to_pylist().count("arrived") == 14


def test_memory_of_a_model(small_trace_file: Path) -> None:
    lines = succeeds(
        "simulate", small_trace_file, "--memory", "1GiB", "--model", "llama-3.1-8b", "--policy", "lru"
    ).splitlines()
    assert "memory GiB" in lines[3]
    assert lines[4].split()[:2] == ["16", "1.00"]


def test_a_scheduler_in_python(small_trace_file: Path, tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text(SCHEDULER)
    output = succeeds(
        "simulate", small_trace_file, "--capacity", 10, "--policy", "lru",
        "--scheduler", f"fifo,cache-aware:bound=3,{tmp_path / 'mine.py'}:LongestFirst",
    )  # fmt: skip
    assert "LongestFirst" in output
    assert "cache-aware:bound=3" in output


def test_retention_is_in_the_file(small_trace_file: Path, tmp_path: Path) -> None:
    result = tmp_path / "result.json"
    succeeds(
        "simulate", small_trace_file, "--capacity", 10, "--policy", "lru", "--scheduler", "continuum:bound=3",
        "--retention", "fixed:seconds=3,leases=always", "--json", result,
    )  # fmt: skip
    document = json.loads(result.read_text())
    assert document["runs"][0]["scheduler"] == "continuum:bound=3"
    assert document["setup"]["options"]["retention"] == {
        "rule": "fixed:seconds=3", "leases": "always", "lease_share": 0.9, "last_turn": False,
    }  # fmt: skip


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--policy", "min"], "min knows the future"),
        (["--policy", "lruu"], "no policy is called 'lruu'"),
        (["--scheduler", "fifoo"], "did you mean 'fifo'"),
        (["--scheduler", "{folder}/none.py:Mine"], "there is no file"),
        (["--scheduler", "{folder}/mine.py:Nobody"], "defines no class under the name 'Nobody'"),
        (["--scheduler", "{folder}/mine.py:dict"], "no subclass of kvopt.scheduler.Scheduler"),
        (["--scheduler", "{folder}/broken.py:Mine"], "broken.py: line 1: ZeroDivisionError"),
        (["--profile", "h100"], "profile 'h100': write a model and a chip"),
        (["--kv-dtype", "fp8"], "--kv-dtype needs --model"),
        (["--tier", "blocks=3"], "block_ms is missing"),
        (["--retention", "indx"], "did you mean 'index'"),
        (["--retention", "index:lease_share=2"], "lease_share is 2.0"),
        (["--rate", "0"], "rate: 0.0"),
        (["--sessions", "2", "--clients", "open"], "do not wait"),
        (["--seeds", "0"], "seeds: 0"),
        (["--token-budget", "0"], "token_budget: 0"),
        (["--max-sequences", "9000"], "above the token budget"),
        (["--memory", "1GiB"], "--memory needs --model"),
        (["--capacity", "1"], "at least 2"),
        (["--events", "{folder}/none/events.parquet"], "there is no folder"),
        (["--json", "{folder}/small.jsonl"], "would overwrite the input"),
    ],
)
def test_errors(small_trace_file: Path, tmp_path: Path, arguments: list[str], message: str) -> None:
    (tmp_path / "mine.py").write_text(SCHEDULER + "\ndict = dict\n")
    (tmp_path / "broken.py").write_text("1 / 0\n")
    filled = [argument.replace("{folder}", str(tmp_path)) for argument in arguments]
    assert message in fails("simulate", str(small_trace_file), *filled)
