from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from command_line import fails, succeeds


def test_table_and_sentence(small_trace_file: Path) -> None:
    arguments = ["bound", small_trace_file, "--capacity", "100,4", "--metric", "block_hit", "--no-bypass"]
    lines = succeeds(*arguments).splitlines()
    heads = ["capacity", "metric", "bound", "one price", "optimum", "reaches", "lru", "skipped", "steps", "time s"]
    assert re.split(r" {2,}", lines[0].strip()) == heads
    hit = {4: f"{6 / 13:.2%}", 100: f"{7 / 19:.2%}"}
    assert [line.split()[:4] for line in lines[1:3]] == [
        ["4", "block", "hit", hit[4]],
        ["100", "block", "hit", hit[100]],
    ]
    assert lines[2].split()[3:9] == [hit[100], hit[100], "min", hit[100], hit[100], "0"]
    assert lines[-1] == "With the requests in this order no policy is above its bound; min is 0.0 points below."


def test_each_bound_stands_beside_its_own_optimum(small_trace_file: Path) -> None:
    arguments = ["bound", small_trace_file, "--capacity", 4, "--window", 2, "--steps", 0]
    both = [line.split() for line in succeeds(*arguments).splitlines()[1:5]]
    assert [(row[1], row[5]) for row in both] == [
        ("block", "min"),
        ("block", "min-bypass"),
        ("cost", "min"),
        ("cost", "min-bypass"),
    ]
    alone = [line.split() for line in succeeds(*arguments, "--bypass").splitlines()[1:3]]
    assert [(row[0], row[5]) for row in alone] == [("4", "min-bypass")] * 2


def test_files(small_trace_file: Path, tmp_path: Path) -> None:
    files = ["--json", tmp_path / "out.json", "--csv", tmp_path / "out.csv"]
    succeeds("bound", small_trace_file, "--capacity", "4", *files)
    document = json.loads((tmp_path / "out.json").read_text())
    assert [(row["metric"], row["capacity"], row["bypass"]) for row in document["bounds"]] == [
        ("block_hit", 4, False),
        ("block_hit", 4, True),
        ("cost_saved", 4, False),
        ("cost_saved", 4, True),
    ]
    assert document["bounds"][0]["bound"] == 6 / 13
    assert len((tmp_path / "out.csv").read_text().splitlines()) == 5


def test_compare_shows_it_on_request(small_trace_file: Path, tmp_path: Path) -> None:
    arguments = ["compare", small_trace_file, "--capacity", 4, "--json", tmp_path / "out.json"]
    plain = succeeds(*arguments, "--policy", "lru")
    assert "bound" not in plain
    assert list(json.loads((tmp_path / "out.json").read_text())) == ["trace", "rows", "report"]
    rows = [line.split() for line in succeeds(*arguments, "--policy", "lru,min-bypass", "--bound").splitlines()]
    bounds = {row[1]: row[2] for row in rows if row[1:2] and row[1].startswith("bound")}
    assert bounds["bound"] == f"{6 / 13:.2%}"
    assert bounds.keys() == {"bound", "bound-bypass"}
    written = json.loads((tmp_path / "out.json").read_text())["bounds"]
    assert [(row["metric"], row["bypass"]) for row in written] == [
        ("block_hit", False),
        ("cost_saved", False),
        ("block_hit", True),
        ("cost_saved", True),
    ]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--capacity", "0"], "is not from 1"),
        (["--metric", "token_hit"], "'token_hit' is not one of"),
        (["--window", "0"], "--window"),
        (["--steps", "-1"], "--steps"),
        (["--json", "{folder}/none/out.json"], "there is no folder"),
    ],
)
def test_errors(small_trace_file: Path, tmp_path: Path, arguments: list[str], message: str) -> None:
    filled = [argument.replace("{folder}", str(tmp_path)) for argument in arguments]
    assert message in fails("bound", str(small_trace_file), *filled)
