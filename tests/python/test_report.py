"""The page of `kvopt report` stands alone, says what its figures are, and trusts no name in a result."""

from __future__ import annotations

import json
import re
from collections import Counter
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest

from command_line import fails, succeeds
from kvopt.cli.report_page.axes import linear_axis, log_axis, short
from kvopt.cli.report_page.curves import distributions
from kvopt.cli.simulation_file import read_scenarios
from made_traces import SMALL_TRACE, write_mooncake

HOSTILE = "\"><script>alert('x')</script><img src=http://203.0.113.1/x onerror=alert(1)>&amp;"
VOID = {"meta", "br", "link", "img", "input"}


class Page(HTMLParser):
    """The elements of a page, which must be balanced."""

    def __init__(self, text: str) -> None:
        super().__init__(convert_charrefs=True)
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.texts: list[str] = []
        self._open: list[str] = []
        self.feed(text)
        self.close()
        assert self._open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))
        if tag not in VOID:
            self._open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))

    def handle_endtag(self, tag: str) -> None:
        assert self._open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.texts.append(data)

    def all(self, tag: str) -> list[dict[str, str | None]]:
        return [attributes for name, attributes in self.elements if name == tag]


def simulated(folder: Path, name: str, *options: object) -> Path:
    trace, result = write_mooncake(folder / "small.jsonl", SMALL_TRACE), folder / name
    succeeds("simulate", trace, "--profile", "k0=1000", "--json", result, *options)
    return result


def page_of(folder: Path, *files: Path) -> str:
    out = folder / "report.html"
    assert succeeds("report", *files, "-o", out) == f"wrote {out}\n"
    return out.read_text(encoding="utf-8")


@pytest.fixture
def result(tmp_path: Path) -> Path:
    return simulated(tmp_path, "result.json", "--capacity", "5,10,16", "--policy", "lru,fifo", "--seeds", 3)


def change(path: Path, **values: Any) -> dict[str, Any]:
    document: dict[str, Any] = json.loads(path.read_text())
    document.update(values)
    path.write_text(json.dumps(document))
    return document


def test_it_stands_alone_and_is_well_formed(tmp_path: Path, result: Path) -> None:
    text = page_of(tmp_path, result)
    page = Page(text)
    names = {tag for tag, _ in page.elements}
    assert names.isdisjoint({"script", "link", "img", "iframe", "object", "image", "use", "base", "form"})
    for _, attributes in page.elements:
        assert not {name for name in attributes if name.startswith("on") or name in ("src", "xlink:href", "srcset")}
        assert (attributes.get("href") or "#").startswith("#")
    assert re.findall(r"https?:|//|url\(|@import", text) == []
    ids = [attributes["id"] for _, attributes in page.elements if "id" in attributes]
    assert [name for name, count in Counter(ids).items() if count > 1] == []
    links = {attributes["href"] for attributes in page.all("a")}
    assert links
    assert {f"#{name}" for name in ids} >= links


def test_every_figure_has_a_title(tmp_path: Path, result: Path) -> None:
    page = Page(page_of(tmp_path, result))
    pictures = [attributes for attributes in page.all("svg") if attributes.get("role") == "img"]
    # Three capacities: three charts by capacity, and eight each.
    assert len(page.all("figure")) == len(page.all("figcaption")) == len(pictures) == 3 + 3 * 8
    ids = {attributes.get("id") for _, attributes in page.elements}
    assert {attributes["aria-labelledby"] for attributes in pictures} <= ids
    places = [index for index, (tag, attributes) in enumerate(page.elements) if attributes.get("role") == "img"]
    assert all(page.elements[index + 1][0] == "title" for index in places if page.elements[index][0] == "svg")


def test_table_has_a_row_for_each_run_with_its_interval(tmp_path: Path, result: Path) -> None:
    text = page_of(tmp_path, result)
    rows = re.findall(r"<tr.*?</tr>", text)
    assert len(rows) == 1 + 6
    assert sum('scope="row">lru<' in row for row in rows) == 3
    summary = json.loads(result.read_text())["summary"][0]["figures"]["ttft_mean"]
    assert f"<td>{summary['mean']:.3g}<small>±{summary['half_width']:.2g}</small></td>" in text.replace(
        ' class="best"', ""
    )


def test_names_are_escaped(tmp_path: Path, result: Path) -> None:
    document = change(result)
    document["trace"]["name"] = HOSTILE
    document["setup"]["profile"]["name"] = HOSTILE
    document["setup"]["clients"]["mode"] = HOSTILE
    for run in document["runs"]:
        run["policy"] += HOSTILE
        run["scheduler"] += HOSTILE
    change(result, **document)
    out = tmp_path / "report.html"
    succeeds("report", result, "-o", out, "--title", HOSTILE)
    page = Page(out.read_text())
    assert not page.all("script")
    assert not page.all("img")
    assert HOSTILE in page.texts
    assert any(text.startswith(f"lru{HOSTILE}"[:40]) for text in page.texts)


def test_results_of_one_scenario_are_joined(tmp_path: Path) -> None:
    one = simulated(tmp_path, "one.json", "--capacity", 16, "--policy", "lru")
    two = simulated(tmp_path, "two.json", "--capacity", 5, "--policy", "fifo,lru")
    again = simulated(tmp_path, "again.json", "--capacity", 16, "--policy", "lru,fifo")
    other = simulated(tmp_path, "other.json", "--capacity", 16, "--policy", "lru", "--rate", 2)
    scenarios = read_scenarios([one, two, again, other])
    assert [[(run.policy, run.capacity) for run in scenario.runs] for scenario in scenarios] == [
        [("lru", 5), ("fifo", 5), ("lru", 16), ("fifo", 16), ("lru (again)", 16)],
        [("lru", 16)],
    ]
    text = page_of(tmp_path, one, two, again, other)
    assert text.count("<section ") == 2


def test_distributions_pool_the_seeds(tmp_path: Path, result: Path) -> None:
    (scenario,) = read_scenarios([result])
    runs = [run for run in scenario.runs if (run.policy, run.capacity) == ("lru", 16)]
    (line,) = distributions([(0, runs)], "ttft")
    shares = [share for _, share in line.points if share is not None]
    assert len(runs) == 3
    assert shares[0] == 0.0
    assert shares == sorted(shares)
    assert shares[-1] == pytest.approx(1.0)
    at_two_seconds = sum(
        count
        for run in runs
        for edge, count in zip(run.latency_histogram["ttft"].edge[1:], run.latency_histogram["ttft"].count, strict=True)
        if edge <= 2.0
    ) / sum(sum(run.latency_histogram["ttft"].count) for run in runs)
    below = [share for seconds, share in line.points if seconds <= 2.0 and share is not None]
    assert max(below, default=0.0) == pytest.approx(at_two_seconds)


def test_a_run_without_answers_can_be_reported(tmp_path: Path) -> None:
    empty = simulated(tmp_path, "empty.json", "--capacity", 2, "--policy", "lru")
    assert json.loads(empty.read_text())["runs"][0]["figures"]["ttft_mean"] is None
    text = page_of(tmp_path, empty)
    assert "no data" in text
    assert "<td>–</td>" in text


def test_the_same_results_give_the_same_page(tmp_path: Path, result: Path) -> None:
    assert page_of(tmp_path, result) == page_of(tmp_path, result)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "not a JSON result of kvopt simulate"),
        (b"\xff", "not a JSON result"),
        (b"[" * 100_000, "not a JSON result"),
        (b'{"kind": "kvopt-advice"}', "$.kind"),
        (b'{"kind": "kvopt-simulation", "format_version": 2}', "$.format_version"),
    ],
)
def test_foreign_files(tmp_path: Path, content: bytes, message: str) -> None:
    path, out = tmp_path / "result.json", tmp_path / "out.html"
    path.write_bytes(content)
    line = fails("report", path, "-o", out)
    assert str(path) in line
    assert message in line
    assert not out.exists()


def test_damaged_results(tmp_path: Path, result: Path) -> None:
    good = json.loads(result.read_text())
    out = tmp_path / "out.html"
    good["runs"][1]["series"]["held_blocks"] = [1.0]
    change(result, **good)
    assert "held_blocks has not as many values as begin_s - at `$.runs[1].series`" in fails("report", result, "-o", out)
    change(result, runs=[])
    assert "$.runs" in fails("report", result, "-o", out)
    change(result, runs=[good["runs"][0], good["runs"][0]])
    assert "comes twice" in fails("report", result, "-o", out)
    assert "would overwrite the input" in fails("report", result, "-o", result)
    assert "Missing argument" in fails("report", "-o", out)


def test_axes() -> None:
    axis = linear_axis(7.3, 0.0, 100.0)
    assert (axis.low, axis.high, axis.ticks()) == (0.0, 8.0, [0.0, 2.0, 4.0, 6.0, 8.0])
    assert axis.place(2.0) == 25.0
    assert axis.place(99.0) == 100.0
    logarithmic = log_axis(0.02, 300.0, 0.0, 100.0)
    assert logarithmic.ticks() == pytest.approx([0.1, 1.0, 10.0, 100.0])
    assert logarithmic.place(0.02) == 0.0
    assert log_axis(5.0, 5.0, 0.0, 1.0).place(5.0) == pytest.approx(0.5)
    assert linear_axis(0.0, 0.0, 1.0).ticks()
    assert [short(value) for value in (0.001, 0.25, 12.0, 2500.0, 1.5e6, 3e9)] == [
        "0.001", "0.25", "12", "2.5k", "1.5M", "3G",
    ]  # fmt: skip
