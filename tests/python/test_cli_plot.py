from __future__ import annotations

import json
import sys
import xml.etree.ElementTree as ET
from pathlib import Path
from typing import Any

import pytest

from command_line import fails, succeeds
from kvopt.cli.figure import short_count

ROW = {"policy": "lru", "capacity": 10, "block_hit": 0.5, "cost_saved": 0.4}
BOUND = {"metric": "block_hit", "capacity": 10, "bound": 0.9}


def document(**change: Any) -> dict[str, Any]:
    rows = [ROW | {"policy": policy, "capacity": capacity} for policy in ("lru", "min", "$x$") for capacity in (10, 30)]
    return {"trace": {"name": "made", "block_tokens": 64}, "rows": rows} | change


def plot(source: Path, out: Path) -> None:
    assert succeeds("plot", source, "-o", out) == f"wrote {out}\n"


@pytest.fixture
def source(tmp_path: Path) -> Path:
    path = tmp_path / "result.json"
    path.write_text(json.dumps(document()))
    return path


def test_svg_draws_both_metrics_with_a_line_a_policy(source: Path, tmp_path: Path) -> None:
    plot(source, tmp_path / "out.svg")
    root = ET.parse(tmp_path / "out.svg").getroot()
    ids = [element.get("id", "") for element in root.iter()]
    assert {"axes_1", "axes_2", "legend_1"} <= set(ids)
    assert "axes_3" not in ids


def test_the_same_result_gives_the_same_svg(source: Path, tmp_path: Path) -> None:
    plot(source, tmp_path / "one.svg")
    plot(source, tmp_path / "two.svg")
    assert (tmp_path / "one.svg").read_bytes() == (tmp_path / "two.svg").read_bytes()


def lines_of_the_legend(path: Path) -> int:
    (legend,) = (element for element in ET.parse(path).getroot().iter() if element.get("id") == "legend_1")
    return sum(element.get("id", "").startswith("line2d") for element in legend.iter())


def test_bounds_are_lines_where_both_metrics_are_known(source: Path, tmp_path: Path) -> None:
    bounds = [BOUND | {"metric": metric, "capacity": c} for metric in ("block_hit", "cost_saved") for c in (10, 30)]
    plot(source, tmp_path / "without.svg")
    source.write_text(json.dumps(document(bounds=[*bounds, BOUND | {"bypass": True}])))
    plot(source, tmp_path / "with.svg")
    # A line and its markers each; the bypass bound lacks the cost saved.
    assert lines_of_the_legend(tmp_path / "with.svg") == lines_of_the_legend(tmp_path / "without.svg") + 1


def test_png(source: Path, tmp_path: Path) -> None:
    plot(source, tmp_path / "out.PNG")
    assert (tmp_path / "out.PNG").read_bytes().startswith(b"\x89PNG\r\n")


@pytest.mark.parametrize(
    "rows",
    [
        [ROW],
        [{"policy": "min", "capacity": 1, "block_hit": 0}],
        [ROW | {"policy": str(number)} for number in range(20)],
        [ROW | {"policy": "_Mine", "capacity": 1, "requests": 9, "skipped": 9}, ROW | {"policy": "_Mine"}],
        [ROW | {"capacity": capacity, "requests": 9, "skipped": 9} for capacity in (1, 2)],
    ],
)
def test_one_point_zeros_and_many_policies_can_be_drawn(tmp_path: Path, rows: list[Any]) -> None:
    path = tmp_path / "result.json"
    path.write_text(json.dumps({"trace": {}, "rows": rows}))
    plot(path, tmp_path / "out.svg")


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "not a JSON result"),
        (b'{"trace": {}, "rows": [{"policy": "lru"', "not a JSON result"),
        (b"\xff\xfe{}", "not a JSON result"),
        (b"[" * 100_000, "not a JSON result"),
        (b"[1, 2]", "Expected `object`, got `array`"),
        (b'{"rows": [], "trace": {}}', "$.rows"),
        (b'{"hello": "world"}', "missing required field `trace`"),
        (json.dumps(document(rows="x")).encode(), "Expected `array`, got `str` - at `$.rows`"),
        (json.dumps(document(rows=[ROW, ROW])).encode(), "rows[1]: policy 'lru' at capacity 10 comes twice"),
        (json.dumps(document(rows=[ROW | {"capacity": 0}])).encode(), "$.rows[0].capacity"),
        (json.dumps(document(rows=[ROW | {"capacity": 1.5}])).encode(), "$.rows[0].capacity"),
        (json.dumps(document(rows=[ROW, ROW | {"block_hit": 1.5}])).encode(), "$.rows[1].block_hit"),
        (json.dumps(document(rows=[ROW | {"policy": 3}])).encode(), "$.rows[0].policy"),
        (json.dumps(document(rows=[{"policy": "lru"}])).encode(), "missing required field `capacity`"),
        (json.dumps(document(bounds=[BOUND | {"metric": "speed"}])).encode(), "$.bounds[0].metric"),
        (json.dumps(document(bounds=[BOUND, BOUND])).encode(), "bounds[1]: block_hit at capacity 10 comes twice"),
    ],
)
def test_foreign_and_corrupt_files(tmp_path: Path, content: bytes, message: str) -> None:
    path, out = tmp_path / "result.json", tmp_path / "out.svg"
    path.write_bytes(content)
    line = fails("plot", str(path), "-o", str(out))
    assert f"{path}: " in line
    assert message in line
    assert not out.exists()


@pytest.mark.parametrize(
    ("out", "message"),
    [
        ("out.pdf", "written as .svg or .png, not '.pdf'"),
        ("out", "not ''"),
        ("none/out.svg", "there is no folder"),
        ("result.json", "would overwrite the input"),
    ],
)
def test_bad_outputs(source: Path, tmp_path: Path, out: str, message: str) -> None:
    assert message in fails("plot", str(source), "-o", str(tmp_path / out))
    assert [path.name for path in tmp_path.iterdir()] == ["result.json"]


def test_a_missing_result_is_named(tmp_path: Path) -> None:
    line = fails("plot", str(tmp_path / "none.json"), "-o", str(tmp_path / "out.svg"))
    assert f"{tmp_path / 'none.json'}: No such file or directory" in line


def test_missing_matplotlib_says_what_to_install(source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    assert "pip install 'kvopt[plot]'" in fails("plot", str(source), "-o", str(tmp_path / "out.svg"))


@pytest.mark.parametrize(
    ("value", "text"), [(1, "1"), (999, "999"), (1000, "1k"), (2500, "2.5k"), (1e6, "1M"), (1.25e7, "12.5M")]
)
def test_axis_labels(value: float, text: str) -> None:
    assert short_count(value) == text
