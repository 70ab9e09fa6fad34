from __future__ import annotations

import json
from pathlib import Path

import pytest

from command_line import fails, succeeds


def test_table_and_sentence(small_trace_file: Path) -> None:
    lines = succeeds("mrc", small_trace_file, "--capacity", "4,100").splitlines()
    assert [line.split() for line in lines[1:3]] == [
        ["4", f"{7 / 13:.2%}", f"{6 / 13:.2%}", f"{3048 / 6296:.2%}", lines[1].split()[4], "1", "replay"],
        ["100", f"{12 / 19:.2%}", f"{7 / 19:.2%}", f"{3560 / 9368:.2%}", lines[2].split()[4], "0", "distances"],
    ]
    assert lines[-1] == "LRU hits 36.8% of the blocks at 100 blocks, the largest capacity shown."


def test_the_sentence_says_where_the_curve_flattens(small_trace_file: Path) -> None:
    assert succeeds("mrc", small_trace_file, "--capacity", "12,20,100").splitlines()[-1] == (
        "LRU hits 36.8% of the blocks at 100 blocks, and from 12 on less than one point below that."
    )


def test_files(small_trace_file: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    succeeds(
        "mrc",
        small_trace_file,
        "--capacity",
        "4,100",
        "--json",
        f"{out}.json",
        "--csv",
        f"{out}.csv",
        "-o",
        f"{out}.svg",
    )
    rows = json.loads(Path(f"{out}.json").read_text())["rows"]
    assert [(row["policy"], row["capacity"], row["replayed"]) for row in rows] == [
        ("lru", 4, True),
        ("lru", 100, False),
    ]
    assert len(Path(f"{out}.csv").read_text().splitlines()) == 3
    assert Path(f"{out}.svg").read_text().lstrip().startswith("<?xml")


def test_its_json_can_be_plotted(small_trace_file: Path, tmp_path: Path) -> None:
    succeeds("mrc", small_trace_file, "--json", tmp_path / "curve.json")
    succeeds("plot", tmp_path / "curve.json", "-o", tmp_path / "curve.png")
    assert (tmp_path / "curve.png").read_bytes().startswith(b"\x89PNG")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--capacity", "0"], "is not from 1"),
        (["-o", "{folder}/out.pdf"], "written as .svg or .png, not '.pdf'"),
        (["-o", "{folder}/none/out.svg"], "there is no folder"),
        (["--json", "{folder}/small.jsonl"], "would overwrite the input"),
    ],
)
def test_errors(small_trace_file: Path, tmp_path: Path, arguments: list[str], message: str) -> None:
    filled = [argument.replace("{folder}", str(tmp_path)) for argument in arguments]
    assert message in fails("mrc", str(small_trace_file), *filled)
    assert [path.name for path in tmp_path.iterdir()] == ["small.jsonl"]
