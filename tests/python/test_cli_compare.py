from __future__ import annotations

import csv
import json
import os
import re
import subprocess
import sys
from dataclasses import asdict
from pathlib import Path

import pytest

from command_line import KVOPT, fails, succeeds
from kvopt.cli.compare import default_capacities
from kvopt.simulator import replay
from made_traces import SMALL_TRACE, make_trace

COLUMNS = [
    "policy",
    "capacity",
    "block_hit",
    "token_hit",
    "cost_saved",
    "evictions",
    "requests",
    "skipped",
    "block_references",
    "seconds",
]


def table(output: str) -> list[list[str]]:
    """The cells of the rows below the header."""
    lines = output.splitlines()
    header = next(number for number, line in enumerate(lines) if line.lstrip().startswith("capacity"))
    end = next(number for number, line in enumerate(lines[header:], header) if not line)
    return [line.split() for line in lines[header + 1 : end]]


def test_json_has_exactly_the_promised_shape_and_figures(small_trace_file: Path, tmp_path: Path) -> None:
    succeeds("compare", small_trace_file, "--policy", "lru,min", "--capacity", "4,9", "--json", tmp_path / "out.json")
    document = json.loads((tmp_path / "out.json").read_text())
    assert list(document) == ["trace", "rows", "report"]
    assert [list(row) for row in document["rows"]] == [COLUMNS] * 4
    assert [(row["policy"], row["capacity"]) for row in document["rows"]] == [
        ("lru", 4),
        ("min", 4),
        ("lru", 9),
        ("min", 9),
    ]
    expected = replay(make_trace(SMALL_TRACE), ["lru", "min"], [4, 9])
    for row, other in zip(document["rows"], expected.rows, strict=True):
        assert row | {"seconds": 0} == asdict(other) | {"seconds": 0}
        assert row["seconds"] >= 0
    assert document["trace"]["requests"] == 7
    assert document["trace"]["block_references"] == 19
    assert document["trace"]["unique_blocks"] == 12
    assert document["trace"]["p_star"] == 28_600


def test_csv_has_the_same_columns_and_rows(small_trace_file: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    succeeds("compare", small_trace_file, "--capacity", "9", "--json", f"{out}.json", "--csv", f"{out}.csv")
    with Path(f"{out}.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    document = json.loads(Path(f"{out}.json").read_text())
    assert rows == [{column: str(row[column]) for column in COLUMNS} for row in document["rows"]]
    assert [row["policy"] for row in rows] == ["lru", "lfu", "cost-aware", "min"]


def test_table_compares_with_lru_and_the_optimum_though_files_hold_what_was_asked_for(
    small_trace_file: Path, tmp_path: Path
) -> None:
    output = succeeds("compare", small_trace_file, "--policy", "fifo", "--capacity", "4", "--csv", tmp_path / "out.csv")
    assert [cells[1] for cells in table(output)] == ["fifo", "lru", "min"]
    assert [line.split(",")[0] for line in (tmp_path / "out.csv").read_text().splitlines()] == ["policy", "fifo"]


def test_figures_of_the_table(small_trace_file: Path) -> None:
    output = succeeds("compare", small_trace_file, "--policy", "lru", "--capacity", "4")
    assert output.splitlines()[0] == ("small: 7 requests, 19 block references, 12 unique blocks of 512 tokens")
    cells = table(output)[0]
    assert cells[:5] == ["4", "lru", f"{6 / 13:.2%}", f"{3048 / 6296:.2%}", cells[4]]
    assert cells[5] == "+0.00"
    assert cells[7:9] == ["3", "1"]


def test_what_to_do_ends_the_output(small_trace_file: Path) -> None:
    first, second, last = succeeds("compare", small_trace_file, "--capacity", "1,100").splitlines()[-3:]
    assert first == "At 1 block no request fits."
    assert second.startswith("At 100 blocks memory is slack: lru is within 0.5 points of a cache without limit, ")
    assert last == "For the whole trace memory is slack from 8 blocks on."


def test_bounds_are_lines_of_the_csv_by_capacity(small_trace_file: Path, tmp_path: Path) -> None:
    files = ["--csv", tmp_path / "out.csv", "--json", tmp_path / "out.json"]
    succeeds("compare", small_trace_file, "--policy", "lru,min-bypass", "--capacity", "4,9", "--bound", *files)
    with (tmp_path / "out.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    names = ["lru", "min-bypass", "bound", "bound-bypass"]
    assert [(row["policy"], row["capacity"]) for row in rows] == [(name, c) for c in ("4", "9") for name in names]
    assert list(rows[0]) == COLUMNS
    bounds = json.loads((tmp_path / "out.json").read_text())["bounds"]
    for row in (row for row in rows if row["policy"].startswith("bound")):
        same = {
            bound["metric"]: bound["bound"]
            for bound in bounds
            if bound["capacity"] == int(row["capacity"]) and bound["bypass"] == row["policy"].endswith("bypass")
        }
        assert (float(row["block_hit"]), float(row["cost_saved"])) == (same["block_hit"], same["cost_saved"])
        assert (row["token_hit"], row["evictions"]) == ("", "")
    assert [row["block_references"] for row in rows if row["policy"] == "bound"] == ["13", "19"]


def test_capacities_with_suffixes_lists_and_repeats(small_trace_file: Path, tmp_path: Path) -> None:
    out = tmp_path / "out.json"
    capacities = ["--capacity", "1k,0.5k", "--capacity", "1_000", "--capacity", "0.002m"]
    succeeds("compare", small_trace_file, "--policy", "lru", *capacities, "--json", out)
    assert [row["capacity"] for row in json.loads(out.read_text())["rows"]] == [500, 1000, 2000]


def test_memory_of_a_model_is_a_capacity(small_trace_file: Path) -> None:
    memory = ["--memory", "1GiB,600MB", "--model", "Llama-3.1-8B"]
    rows = table(succeeds("compare", small_trace_file, "--policy", "lru", *memory))
    # One block is 512 tokens of 131,072 bytes, 64 MiB.
    assert [(cells[0], cells[1]) for cells in rows if cells[2] == "lru"] == [("8", "0.50"), ("16", "1.00")]


def test_default_capacities_hold_the_longest_request() -> None:
    assert default_capacities(182_790, 247) == [1800, 3700, 7300, 15000, 29000]
    assert default_capacities(12, 6) == [7]
    assert default_capacities(2_009_660, 50_000) == [80_000, 160_000, 320_000]


def test_p_star_reaches_the_cost(small_trace_file: Path, tmp_path: Path) -> None:
    saved = []
    for p_star in (100, 1e9):
        succeeds("compare", small_trace_file, "--capacity", 4, "--p-star", p_star, "--json", tmp_path / "out.json")
        saved.append(json.loads((tmp_path / "out.json").read_text())["rows"][0]["cost_saved"])
    assert saved[0] < saved[1] == pytest.approx(3 * 1024 / 6656, rel=1e-4)


def test_no_escape_codes_in_a_pipe_even_if_colour_is_forced(small_trace_file: Path) -> None:
    command = [*KVOPT, "compare", str(small_trace_file), "--capacity", "4"]
    environment = os.environ | {"FORCE_COLOR": "1", "TTY_COMPATIBLE": "1", "COLUMNS": "20"}
    result = subprocess.run(command, capture_output=True, text=True, check=True, env=environment)
    assert "\x1b" not in result.stdout
    assert result.stderr == ""
    assert [len(cells) for cells in table(result.stdout)] == [10] * 4
    assert all(line == line.rstrip() for line in result.stdout.splitlines())


def test_without_a_trace_the_built_in_workload_is_compared(tmp_path: Path) -> None:
    output = succeeds("compare", "--policy", "lru", "--json", tmp_path / "out.json")
    document = json.loads((tmp_path / "out.json").read_text())
    assert output.startswith(f"{document['trace']['name']}: ")
    assert document["trace"]["block_references"] > 1_000_000
    assert len({row["capacity"] for row in document["rows"]}) >= 3


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--policy", "lrv"], "lru"),
        (["--policy", "lru,"], "policy"),
        (["--capacity", "0"], "--capacity': capacity: 0 is not from 1"),
        (["--capacity", "-5"], "'-5' is not a whole number"),
        (["--capacity", "1.5"], "'1.5' is not a whole number"),
        (["--capacity", "10x"], "'10x' is not a whole number"),
        (["--capacity", "4,,9"], "'' is not a whole number"),
        (["--capacity", "9999m"], "is not from 1 to 4294967294"),
        (["--memory", "40G", "--model", "llama-3.1-8b"], "40GiB"),
        (["--memory", "40GiB"], "--memory needs --model"),
        (["--bound", "--rule", "flat"], "--bound holds under the prefix rule"),
        (["--memory", "1MiB", "--model", "llama-3.1-8b"], "hold no block"),
        (["--memory", "1GiB", "--model", "llama-3.1-9b"], "did you mean 'llama-3.1-8b'"),
        (["--p-star", "0"], "--p-star': p_star: 0.0"),
        (["--p-star", "nan"], "p_star: nan"),
        (["--threads", "0"], "--threads"),
        (["--format", "nonsense"], "nonsense"),
        (["--share-prefix"], "does not apply"),
        (["--csv", "{folder}/missing/out.csv"], "there is no folder"),
        (["--csv", "{folder}"], "is a folder"),
        (["--csv", "{folder}/out.json"], "would overwrite --json"),
        (["--csv", "{folder}/small.jsonl"], "would overwrite the input"),
    ],
)
def test_errors_are_one_line_and_leave_no_file(
    small_trace_file: Path, tmp_path: Path, arguments: list[str], message: str
) -> None:
    filled = [argument.replace("{folder}", str(tmp_path)) for argument in arguments]
    assert message in fails("compare", str(small_trace_file), "--json", str(tmp_path / "out.json"), *filled)
    assert [path.name for path in tmp_path.iterdir()] == ["small.jsonl"]


def test_a_missing_trace_is_named(tmp_path: Path) -> None:
    assert f"{tmp_path / 'none.jsonl'}: no such file" in fails("compare", str(tmp_path / "none.jsonl"))


def test_reader_options_need_a_trace() -> None:
    assert "--seed says how to read a TRACE" in fails("compare", "--seed", "1")


def test_a_corrupt_trace_is_named_by_line_without_a_file_left(small_trace_file: Path, tmp_path: Path) -> None:
    with small_trace_file.open("a") as file:
        file.write('{"timestamp": 13000, "input_length": 512,')
    message = fails("compare", str(small_trace_file), "--json", str(tmp_path / "out.json"))
    assert "small.jsonl: line 8" in message
    assert [path.name for path in tmp_path.iterdir()] == ["small.jsonl"]


def test_a_real_process_exits_with_two_and_one_line(small_trace_file: Path) -> None:
    command = [sys.executable, "-m", "kvopt", "compare", str(small_trace_file), "--policy", "fifoo"]
    result = subprocess.run(command, capture_output=True, text=True, check=False)
    assert result.returncode == 2
    assert result.stdout == ""
    assert re.fullmatch(r"kvopt: error: [^\n]*fifoo[^\n]*fifo[^\n]*\n", result.stderr)
