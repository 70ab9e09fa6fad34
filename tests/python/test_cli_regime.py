"""The sentences that `kvopt compare` ends with."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from command_line import succeeds
from kvopt.cli.regime_sentences import regime_sentences
from kvopt.simulator import regime_report
from made_results import MadeCurve, UnknownCurve, made_bounds, made_result
from made_traces import SMALL_TRACE, write_mooncake

CURVE = MadeCurve(slope=0.001, most=0.8)


def paragraphs(text: str) -> list[str]:
    """Each paragraph as one line."""
    return [" ".join(paragraph.split()) for paragraph in text.strip().split("\n\n")]


USE = """
At 100 blocks use lhd: 16.0 points of prefill cost over lru, 53% of the gap to the optimum, as much as lru with
260 blocks; reuse is predictable. 10% more blocks would bring lru 1.0 and lhd about 0.3 points of prefill cost,
memory without limit 70.0.

At 200 blocks use lhd: 8.0 points of prefill cost over lru, 27% of the gap to the optimum, as much as lru with
280 blocks; reuse is partly predictable. 10% more blocks would bring lru 2.0 points of prefill cost, memory without
limit 60.0.

For the whole trace memory is slack from 795 blocks on.
"""

KEEP = """
At 100 blocks keep lru: no online policy compared saves more, and the optimum 30.0 points of prefill cost; reuse is
hardly predictable for them. 10% more blocks would bring lru 1.0 points of prefill cost, memory without limit 70.0.

From 800 to 900 blocks memory is slack: lru is within 0.5 points of a cache without limit, and neither another policy
nor more memory gains more than that.

For the whole trace memory is slack from 795 blocks on.
"""

ALONE = """
At 100 blocks the optimum is 30.0 points of prefill cost above lru; no other online policy was compared, so whether
reuse is predictable is not known. 10% more blocks would bring lru 1.0 points of prefill cost, memory without limit
70.0.

For the whole trace memory is slack from 795 blocks on.
"""

NO_GAP = """
At 100 blocks keep lru: the optimum is no better. 10% more blocks would bring lru 1.0 points of prefill cost, memory
without limit 70.0.

At 200 blocks lru saves 20.0%; without min, the gap to the optimum is not known. 10% more blocks would bring lru 2.0
points of prefill cost, memory without limit 60.0.

At 300 blocks use lfu: 10.0 points of prefill cost over lru, as much as lru with 400 blocks. 10% more blocks would
bring lru 3.0 points of prefill cost, memory without limit 50.0.

For the whole trace memory is slack from 795 blocks on.
"""

BOUND = """
At 100 blocks (25.0 GiB) use lhd: 9.0 points of prefill cost over lru, 30% of the gap to the optimum (15% of that to
the bound), as much as lru with 190 blocks (47.5 GiB); reuse is partly predictable. One more GiB (4 blocks) would
bring lru 0.4 points of prefill cost, memory without limit 70.0.

For the whole trace memory is slack from 795 blocks (198.8 GiB) on.
"""

FLAT = """
At 100 blocks keep lru: no online policy compared hits more, and the optimum 20.0 points of hit ratio; reuse is hardly
predictable for them. Memory without limit would bring lru 70.0 points of hit ratio.
"""


@pytest.mark.parametrize(
    ("saved", "text"),
    [
        ({100: {"lru": 0.1, "lhd": 0.26, "min": 0.4}, 200: {"lru": 0.2, "lhd": 0.28, "min": 0.5}}, USE),
        (
            {
                100: {"lru": 0.1, "lfu": 0.05, "min": 0.4},
                800: {"lru": 0.8, "lfu": 0.5, "min": 0.8},
                900: {"lru": 0.8, "lfu": 0.6, "min": 0.8},
            },
            KEEP,
        ),
        ({100: {"lru": 0.1, "min": 0.4}}, ALONE),
        (
            {100: {"lru": 0.1, "lhd": 0.1, "min": 0.1}, 200: {"lru": 0.2, "lfu": 0.1}, 300: {"lru": 0.3, "lfu": 0.4}},
            NO_GAP,
        ),
    ],
    ids=["use", "keep and slack", "lru alone", "no gap known"],
)
def test_what_to_do_at_each_capacity(saved: dict[int, dict[str, float]], text: str) -> None:
    assert regime_sentences(regime_report(made_result(saved), CURVE)) == paragraphs(text)


def test_capacities_that_no_request_fits() -> None:
    report = regime_report(made_result({1: {"lru": 0.0, "min": 0.0}, 2: {"lru": 0.0, "min": 0.0}}, skipped=10), CURVE)
    assert regime_sentences(report)[0] == "From 1 to 2 blocks no request fits."
    report = regime_report(made_result({1: {"lru": 0.0, "min": 0.0}}, skipped=10), CURVE)
    assert regime_sentences(report)[0] == "At 1 block no request fits."


def test_with_a_bound_and_the_size_of_a_block() -> None:
    result = made_result({100: {"lru": 0.1, "lhd": 0.19, "min": 0.4}})
    report = regime_report(result, CURVE, bounds=made_bounds({100: 0.7}), more_blocks=4)
    assert regime_sentences(report, 2**28) == paragraphs(BOUND)


def test_under_the_flat_rule() -> None:
    result = made_result({100: {"lru": 0.1, "lfu": 0.05, "min": 0.3}}, flat=True)
    assert regime_sentences(regime_report(result, UnknownCurve(0.001, 0.8))) == paragraphs(FLAT)


def test_compare_prints_what_it_writes(tmp_path: Path) -> None:
    requests = [
        (1000.0 * number, 2048, [number % 5, 100 + number % 5, 200 + number, 300 + number]) for number in range(60)
    ]
    trace = write_mooncake(tmp_path / "trace.jsonl", requests)
    arguments = ["--policy", "lfu", "--capacity", "8,2000", "--model", "llama-3.1-8b", "--bound"]
    printed = succeeds("compare", trace, *arguments, "--json", tmp_path / "out.json").splitlines()
    document = json.loads((tmp_path / "out.json").read_text())
    report = document["report"]
    assert printed[-len(report["sentences"]) :] == report["sentences"]
    assert [regime["capacity"] for regime in report["regimes"]] == [8, 2000]
    assert [regime["slack"] for regime in report["regimes"]] == [False, True]
    first = report["regimes"][0]
    assert first["more_blocks"] == 16  # 512 tokens of 131,072 bytes a block
    assert [standing["policy"] for standing in first["policies"]] == ["lfu", "lru", "min"]
    assert first["bound"] == next(row["bound"] for row in document["bounds"] if row["metric"] == "cost_saved")
    assert "GiB" in report["sentences"][0]


def test_the_flat_rule_has_a_report(tmp_path: Path) -> None:
    trace = write_mooncake(tmp_path / "trace.jsonl", SMALL_TRACE)
    succeeds("compare", trace, "--rule", "flat", "--capacity", "4,5", "--json", tmp_path / "out.json")
    report = json.loads((tmp_path / "out.json").read_text())["report"]
    assert report["metric"] == "block_hit"
    assert report["slack_from"] is None
