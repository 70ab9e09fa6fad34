"""Advice names the least capacity that meets an SLO, with its evidence, also where more memory does not help."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from command_line import fails, succeeds
from kvopt.cli.advise_table import sentences
from kvopt.errors import ConfigError
from kvopt.simulator import load_profile, simulate
from kvopt.simulator.advise import Advice, advise, default_range
from kvopt.simulator.bisection import LeastCapacity
from kvopt.simulator.slo import Slo
from kvopt.simulator.sweep import ServerSetup, figure_names
from kvopt.workload import CodingAgents, Trace, write_parquet

PROFILE = "k0=5,k1=0.03"


@pytest.fixture(scope="module")
def agents() -> Trace:
    return CodingAgents(sessions=4, prompt_tokens=4000, requests_median=12, seed=3).load()


def search(low: int, high: int, passes: Callable[[int], bool], tolerance: float = 0.05) -> LeastCapacity:
    found = LeastCapacity(low, high, tolerance)
    while (capacity := found.next()) is not None:
        assert capacity not in found.tested
        assert low <= capacity <= high
        found.tell(capacity, passes(capacity))
    return found


@given(st.integers(2, 10**6), st.integers(0, 10**6), st.floats(0, 1.1), st.sampled_from([0.001, 0.05, 0.5]))
def test_bisection_finds_the_least_capacity(low: int, width: int, share: float, tolerance: float) -> None:
    """Of a monotone test: it passes at the answer, and fails no farther below than the tolerance."""
    high = low + width
    limit = low + math.ceil(width * share)
    found = search(low, high, lambda capacity: capacity >= limit, tolerance)
    assert found.monotone
    if limit > high:
        assert found.answer is None
        assert found.tested == {high: False}
        return
    assert found.answer is not None
    assert limit <= found.answer
    assert found.answer <= max(limit + 1, limit * (1 + tolerance) + 1)
    assert len(found.tested) <= 2 + math.log2(max(math.log(high / low) / math.log(1 + tolerance), 1) + 1) + 22


def test_a_hole_above_the_first_answer_moves_it() -> None:
    # 100 to 180 passes, 180 to 400 fails, 400 and more passes. Plain bisection of 10 to 1000 goes 100, 31, ..., 100.
    found = search(10, 1000, lambda capacity: 100 <= capacity < 180 or capacity >= 400)
    assert not found.monotone
    assert found.answer is not None
    assert 400 <= found.answer <= 421


@pytest.mark.parametrize(
    ("text", "figure", "limit"),
    [
        ("ttft_p99<2s", "ttft_p99", 2.0),
        (" ttft_p50 <= 200ms ", "ttft_p50", 0.2),
        ("job_completion_mean<1.5min", "job_completion_mean", 90.0),
        ("end_to_end_p99<1h", "end_to_end_p99", 3600.0),
        ("token_hit>60%", "token_hit", 0.6),
        ("recomputed_share<=0.25", "recomputed_share", 0.25),
        ("preemptions<1e2", "preemptions", 100.0),
        ("requests_per_s>=2", "requests_per_s", 2.0),
    ],
)
def test_slos(text: str, figure: str, limit: float) -> None:
    slo = Slo.parse(text)
    assert slo.figure == figure
    assert slo.limit == pytest.approx(limit)
    assert slo.met(slo.limit) == ("=" in text)
    assert not slo.met(math.nan)
    assert slo.met(limit * (1.1 if ">" in text else 0.9))
    assert not slo.met(limit * (0.9 if ">" in text else 1.1))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "write a figure, < or >, and a limit"),
        ("ttft_p99", "write a figure"),
        ("ttft_p99=2s", "write a figure"),
        ("ttft_p99<-2s", "write a figure"),
        ("ttft_p99<2s; x", "write a figure"),
        ("ttft_p95<2s", "no figure 'ttft_p95'; did you mean 'ttft_p99'? there are token_hit"),
        ("ttft_p99<2", "no unit; ttft_p99 is a time in us, ms, s, min, h"),
        ("ttft_p99<2%", "%; ttft_p99 is a time in"),
        ("ttft_p99<2d", "d; ttft_p99 is a time in"),
        ("ttft_p99<1.2.3s", "'1.2.3' is no number"),
        ("ttft_p99<1e999s", "not finite"),
        ("ttft_p99>2s", "ttft_p99 is better when it is lower; write ttft_p99<2s"),
        ("token_hit<60%", "token_hit is better when it is higher; write token_hit>60%"),
        ("token_hit>60", "token_hit is at most 1, or 100%"),
        ("token_hit>60s", "s; token_hit is a share"),
        ("preemptions<3s", "s; preemptions has no unit"),
    ],
)
def test_broken_slos(text: str, message: str) -> None:
    with pytest.raises(ConfigError) as caught:
        Slo.parse(text)
    assert message in str(caught.value)


def test_every_figure_can_be_an_slo() -> None:
    for name in figure_names():
        units = [
            Slo.parse(f"{name}{sign}0.5{unit}") for sign in "<>" for unit in ("", "s") if _parses(name, sign, unit)
        ]
        assert len(units) == 1, name


def _parses(name: str, sign: str, unit: str) -> bool:
    try:
        Slo.parse(f"{name}{sign}0.5{unit}")
    except ConfigError:
        return False
    return True


def advised(trace: Trace, *slos: str, **options: object) -> Advice:
    longest, _ = default_range(trace)
    return advise(
        trace, slos, ["lru", "fifo"], longest, 4 * longest, ServerSetup(load_profile(PROFILE)), **options  # type: ignore[arg-type]
    )  # fmt: skip


def test_the_answer_meets_the_slo_and_less_memory_does_not(agents: Trace) -> None:
    longest, _ = default_range(agents)
    ends = simulate(agents, "lru", [longest, 4 * longest], profile=PROFILE).runs
    low, high = (run.figures()["recomputed_share"] for run in ends)
    assert high < low  # or this test shows nothing
    slo = f"recomputed_share<={(low + 2 * high) / 3:.6f}"
    advice = advised(agents, slo, seeds=1)
    limit = advice.slos[0].limit
    for candidate in advice.candidates:
        assert candidate.capacity is not None
        sizes = [each.capacity for each in candidate.evidence]
        assert sizes == sorted(set(sizes))
        below = max(each.capacity for each in candidate.evidence if not each.met)
        assert below < candidate.capacity <= math.floor(below * 1.05) + 1
        for each in candidate.evidence:
            (run,) = simulate(agents, candidate.policy, each.capacity, profile=PROFILE).runs
            assert each.figures[0].mean == run.figures()["recomputed_share"]
            assert each.met == (run.figures()["recomputed_share"] <= limit and not run.totals.refused)
    first, second = (candidate.capacity for candidate in advice.candidates)
    assert first is not None
    assert second is not None
    assert first <= second
    assert advice.best == advice.candidates[0]


def test_with_seeds_the_far_end_of_the_interval_must_keep_the_limit(agents: Trace) -> None:
    advice = advised(agents, "ttft_mean<1h", "token_hit>10%", seeds=3)
    for each in advice.candidates[0].evidence:
        ttft, hit = each.figures
        assert (ttft.runs, hit.runs) == (3, 3)
        assert each.seeds_met[0] == 3
        assert each.met == (hit.mean - hit.half_width > 0.1)
    strict = advice.candidates[0].evidence[-1].figures[0]
    edge = strict.mean + strict.half_width / 2
    refused = advised(agents, f"ttft_mean<{edge:.9f}s", seeds=3)
    largest = next(each for candidate in refused.candidates for each in candidate.evidence[-1:])
    assert largest.figures[0].mean < edge
    assert not largest.met


def test_refusing_requests_meets_nothing(agents: Trace) -> None:
    setup = ServerSetup(load_profile(PROFILE))
    half = agents.prefix.longest_request // 2
    advice = advise(agents, ["ttft_p99<1h"], ["lru"], half, half, setup, seeds=1)
    assert advice.candidates[0].evidence[0].refused > 0
    assert advice.best is None
    allowed = advise(agents, ["ttft_p99<1h", "refused<1000"], ["lru"], half, half, setup, seeds=1)
    assert allowed.best is not None


def test_processes_change_no_byte(agents: Trace, tmp_path: Path) -> None:
    files = [tmp_path / "one.json", tmp_path / "two.json"]
    for jobs, file in enumerate(files, start=1):
        advised(agents, "recomputed_share<20%", seeds=2, jobs=jobs, tolerance=0.5).write_json(file)
    assert files[0].read_bytes() == files[1].read_bytes()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"seeds": 0}, "seeds: 0"),
        ({"tolerance": 0.0}, "tolerance: 0.0 is not from 0.001 to 1"),
        ({"rate": -1.0}, "rate: -1.0"),
        ({"jobs": 0}, "jobs: 0"),
        ({"schedulers": []}, "name at least one of each"),
        ({"schedulers": ["fifoo"]}, "did you mean 'fifo'"),
    ],
)
def test_bad_arguments(agents: Trace, options: dict[str, object], message: str) -> None:
    with pytest.raises(ConfigError) as caught:
        advised(agents, "ttft_p99<1s", **options)
    assert message in str(caught.value)
    with pytest.raises(ConfigError, match="give at least one"):
        advised(agents, **options)


def test_the_command(agents: Trace, tmp_path: Path) -> None:
    trace, out = tmp_path / "agents.parquet", tmp_path / "advice.json"
    write_parquet(agents, trace)
    lines = succeeds(
        "advise", trace, "--slo", "ttft_p99<1h", "--policy", "lru,fifo", "--seeds", 1, "--jobs", 1, "--json", out,
        "--model", "llama-3.1-8b", "--profile", PROFILE,
    ).splitlines()  # fmt: skip
    assert lines[0].split()[:4] == ["policy", "capacity", "memory", "GiB"]
    advice = json.loads(out.read_text())
    least, _ = default_range(agents)
    assert advice["answer"]["capacity"] == least
    assert f"{advice['answer']['policy']} meets ttft_p99<1h with {least:,} blocks (" in "\n".join(lines)
    assert "That is the low end of the range: less memory may do." in lines
    nothing = succeeds(
        "advise", trace, "--slo", "ttft_p99<1us", "--policy", "lru", "--seeds", 1, "--jobs", 1, "--profile", PROFILE,
        "--capacity", "4k..8k",
    )  # fmt: skip
    assert "Nothing meets ttft_p99<1us with 8,000 blocks: give more memory, or a weaker SLO." in nothing


def test_a_wide_interval_is_named_as_the_reason(agents: Trace) -> None:
    best = advised(agents, "ttft_mean<1h", seeds=2).candidates[0].evidence[-1].figures[0]
    assert best.half_width > 0
    advice = advised(agents, f"ttft_mean<{best.mean + best.half_width / 2:.9f}s", seeds=2)
    assert advice.best is None
    assert sentences(advice)[1].startswith("The mean meets it there, but its 95% interval reaches beyond")
    weak = advised(agents, f"ttft_mean<{best.mean / 2:.9f}s", seeds=2)
    assert len(sentences(weak)) == 1


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--slo", "ttft_p95<2s"], "no figure 'ttft_p95'"),
        ([], "Missing option '--slo'"),
        (["--slo", "ttft_p99<2s", "--capacity", "5k"], "write a range, such as 5k..100k"),
        (["--slo", "ttft_p99<2s", "--capacity", "9k..5k"], "the range is empty"),
        (["--slo", "ttft_p99<2s", "--capacity", "1..5k"], "at least 2 are needed"),
        (["--slo", "ttft_p99<2s", "--memory", "1GiB..2GiB"], "--memory needs --model"),
        (["--slo", "ttft_p99<2s", "--memory", "1GiB..2GiB", "--capacity", "5k..6k"], "two ways to say one range"),
        (["--slo", "ttft_p99<2s", "--policy", "lruu"], "no policy is called 'lruu'"),
        (["--slo", "ttft_p99<2s", "--policy", "min"], "min knows the future"),
    ],
)
def test_errors_of_the_command(small_trace_file: Path, arguments: list[str], message: str) -> None:
    assert message in fails("advise", small_trace_file, *arguments)
