"""The table of `kvopt compare` on terminals of several widths."""

from __future__ import annotations

import io
import re

import pytest
from rich.console import Console

from kvopt.cli.compare_table import print_comparison
from kvopt.cli.regime_sentences import regime_sentences
from kvopt.cost import MODELS
from kvopt.simulator import LruCurve, ReplayResult, regime_report, replay
from made_traces import SMALL_TRACE, make_trace

WIDE = [
    "capacity",
    "policy",
    "block hit",
    "token hit",
    "cost saved",
    "vs lru",
    "gap closed",
    "evictions",
    "skipped",
    "time s",
]


@pytest.fixture(scope="module")
def result() -> ReplayResult:
    return replay(make_trace(SMALL_TRACE), ["lru", "lfu", "min"], [4, 9])


def shown(result: ReplayResult, width: int, model: str | None = None) -> list[str]:
    out = io.StringIO()
    console = Console(file=out, force_terminal=True, no_color=True, width=width, highlight=False, legacy_windows=False)
    trace = make_trace(SMALL_TRACE)
    report = regime_report(result, LruCurve(trace))
    print_comparison(console, trace, result, MODELS[model] if model else None, report, regime_sentences(report))
    return [line.rstrip() for line in re.sub(r"\x1b\[[0-9;]*m", "", out.getvalue()).split("\n")]


@pytest.mark.parametrize("width", [50, 60, 80, 120])
@pytest.mark.parametrize("model", [None, "llama-3.1-8b"])
def test_no_line_is_wider_than_the_terminal_and_no_figure_is_cut(
    result: ReplayResult, width: int, model: str | None
) -> None:
    lines = shown(result, width, model)
    assert max(map(len, lines)) <= width
    text = "\n".join(lines)
    for row in result.rows:
        assert f"{row.cost_saved:.2%}" in text
    assert "…" not in text


def test_a_wide_terminal_shows_every_column(result: ReplayResult) -> None:
    header = next(line for line in shown(result, 120) if line.startswith("capacity"))
    assert re.split(r"  +", header) == WIDE
    assert not any("wider terminal" in line for line in shown(result, 120))


def test_a_narrow_terminal_leaves_out_what_matters_least_and_says_so(result: ReplayResult) -> None:
    assert "A wider terminal also shows: time s, evictions." in shown(result, 70)
    assert "A wider terminal also shows: time s, evictions, token hit." in shown(result, 60)
