"""The flat rule: every block of a request is referenced by itself."""

from __future__ import annotations

import json
import math
from collections import OrderedDict
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from command_line import fails, succeeds
from kvopt.errors import ConfigError
from kvopt.policies import Policy, RequestInfo
from kvopt.policies.base import RunIds
from kvopt.simulator import ReplayRow, replay
from made_traces import SMALL_TRACE, make_trace


class PythonLru(Policy):
    """Exact under the flat rule, where no run is ever split."""

    def __init__(self) -> None:
        self._order: dict[int, None] = {}

    def on_referenced(self, runs: RunIds) -> None:
        del self._order[int(runs[0])]

    def on_evictable(self, runs: RunIds, info: RequestInfo) -> None:
        self._order[int(runs[0])] = None

    def choose(self, wanted: int, now: float) -> int:
        return next(iter(self._order))


def textbook_lru(chains: list[list[int]], capacity: int) -> tuple[int, int]:
    """Hits and evictions."""
    cache: OrderedDict[int, None] = OrderedDict()
    hits = evictions = 0
    for block in (block for chain in chains for block in chain):
        if block in cache:
            hits += 1
            cache.move_to_end(block)
            continue
        if len(cache) == capacity:
            cache.popitem(last=False)
            evictions += 1
        cache[block] = None
    return hits, evictions


def test_lru_by_hand() -> None:
    row = replay(make_trace(SMALL_TRACE), "lru", 4, rule="flat").rows[0]
    # Only the first two blocks of the third request are hit; the other 17 references need 13 evictions.
    assert (row.requests, row.skipped, row.block_references, row.evictions) == (7, 0, 19, 13)
    assert row.block_hit == 2 / 19
    assert row.token_hit == 1024 / sum(tokens for _, tokens, _ in SMALL_TRACE)
    assert math.isnan(row.cost_saved)


def test_hits_may_be_any_blocks_and_count_no_more_tokens_than_the_input() -> None:
    # Of the third request, block 1 is gone and the partial block 2 is there.
    trace = make_trace([(0, 600, [1, 2]), (1000, 512, [3]), (2000, 600, [1, 2])])
    assert replay(trace, "lru", 2, rule="flat").rows[0].block_hit == 0
    row = replay(trace, "min", 2, rule="flat").rows[0]
    assert (row.block_hit, row.token_hit) == (1 / 5, 512 / 1712)
    again = make_trace([(0, 600, [1, 2]), (1000, 600, [1, 2])])
    assert replay(again, "lru", 2, rule="flat").rows[0].token_hit == 600 / 1200


@given(st.lists(st.lists(st.integers(1, 3), min_size=1, max_size=4), min_size=1, max_size=30), st.integers(1, 8))
def test_lru_is_the_textbooks(paths: list[list[int]], capacity: int) -> None:
    # A block's id is the path that leads to it, as in a prefix tree.
    chains = [[int("".join(map(str, path[: i + 1]))) for i in range(len(path))] for path in paths]
    trace = make_trace([(1000 * i, 512 * len(chain), chain) for i, chain in enumerate(chains)])
    hits, evictions = textbook_lru(chains, capacity)
    result = replay(trace, ["lru", PythonLru, "min"], [capacity], rule="flat")
    for row in result.rows[:2]:
        assert row.evictions == evictions
        assert row.block_hit == pytest.approx(hits / row.block_references)
    assert result.rows[2].block_hit >= result.rows[0].block_hit


def test_the_result_says_its_rule() -> None:
    trace = make_trace(SMALL_TRACE)
    assert replay(trace, "lru", 4).trace["rule"] == "prefix"
    assert replay(trace, "lru", 4, rule="flat").trace["rule"] == "flat"


@pytest.mark.parametrize("rule", ["Flat", "", None, 1])
def test_a_bad_rule_is_refused(rule: Any) -> None:
    with pytest.raises(ConfigError, match=r"rule: .* is neither 'prefix' nor 'flat'"):
        replay(make_trace(SMALL_TRACE), "lru", 4, rule=rule)


def test_compare_shows_a_dash_for_cost_and_compares_hits(small_trace_file: Path, tmp_path: Path) -> None:
    files = ["--json", tmp_path / "out.json", "--csv", tmp_path / "out.csv"]
    output = succeeds("compare", small_trace_file, "--rule", "flat", "--policy", "lru,fifo", "--capacity", 4, *files)
    (lru,) = (line.split() for line in output.splitlines() if " lru " in line and line.lstrip().startswith("4"))
    assert lru[:7] == ["4", "lru", f"{2 / 19:.2%}", f"{1024 / 9368:.2%}", "-", "+0.00", "0%"]
    assert "skipped" not in output
    assert "points of hit ratio" in output.splitlines()[-1]
    document = json.loads((tmp_path / "out.json").read_text())
    assert document["trace"]["rule"] == "flat"
    assert [row["cost_saved"] for row in document["rows"]] == [None, None]
    lines = (tmp_path / "out.csv").read_text().splitlines()
    assert lines[0].split(",") == list(ReplayRow.__dataclass_fields__)
    assert [line.split(",")[4] for line in lines[1:]] == ["nan", "nan"]


def test_a_flat_result_can_be_drawn(small_trace_file: Path, tmp_path: Path) -> None:
    pytest.importorskip("matplotlib", reason="matplotlib is not installed (it comes with kvopt[plot])")
    succeeds("compare", small_trace_file, "--rule", "flat", "--capacity", "4,9", "--json", tmp_path / "out.json")
    succeeds("plot", tmp_path / "out.json", "-o", tmp_path / "out.svg")
    assert (tmp_path / "out.svg").stat().st_size > 0


def test_an_unknown_rule_is_named(small_trace_file: Path) -> None:
    assert "'round' is not one of 'prefix', 'flat'" in fails("compare", small_trace_file, "--rule", "round")
