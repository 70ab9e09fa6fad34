"""Generated workloads: the same for the same seed, and like what was published; merging."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from kvopt.errors import ConfigError, TraceError
from kvopt.workload import (
    CodingAgents,
    Mixture,
    MultiTurnChat,
    OneOffRequests,
    SharedPrompts,
    StopReason,
    Trace,
    Workload,
    default_workload,
    merge_traces,
)
from kvopt.workload.quantile_curve import QuantileCurve
from kvopt.workload.session_chains import SessionChains
from kvopt.workload.summary import previous_in_session
from made_traces import SMALL_TRACE, make_trace

SMALL: list[Any] = [
    CodingAgents(sessions=30),
    MultiTurnChat(sessions=50),
    SharedPrompts(requests=500),
    OneOffRequests(requests=200, burst=7),
]


def chains(trace: Trace) -> list[list[int]]:
    return [trace.prefix.chain(r).tolist() for r in range(trace.requests)]


@pytest.mark.parametrize("workload", SMALL, ids=lambda w: w.name)
def test_same_seed_same_trace(workload: Any) -> None:
    one, again = workload.load(), workload.load()
    other = replace(workload, seed=2).load()
    for column, values in one.columns().items():
        np.testing.assert_array_equal(values, again.columns()[column])
    np.testing.assert_array_equal(one.prefix.parent, again.prefix.parent)
    np.testing.assert_array_equal(one.prefix.new_blocks, again.prefix.new_blocks)
    assert one.time.tolist() != other.time.tolist()
    assert one.prefix.new_blocks.tolist() != other.prefix.new_blocks.tolist()


@pytest.mark.parametrize("workload", SMALL, ids=lambda w: w.name)
def test_blocks_are_the_full_ones_of_the_input(workload: Workload) -> None:
    trace = workload.load()
    np.testing.assert_array_equal(trace.chain_blocks(), trace.input_tokens // 64)


@pytest.mark.parametrize("workload", SMALL[:2], ids=lambda w: w.name)
def test_a_request_waits_for_the_answer_before_it(workload: Workload) -> None:
    trace = workload.load()
    previous = previous_in_session(trace)
    later = previous >= 0
    before = previous[later]
    assert np.isnan(trace.gap[~later]).all()
    np.testing.assert_allclose(
        trace.time[later] - trace.time[before], trace.gap[later] + trace.api_time[before], rtol=1e-4, atol=1e-2
    )


@pytest.fixture(scope="module")
def agents() -> Trace:
    return CodingAgents(sessions=1200, seed=11).load()


@pytest.mark.parametrize(
    ("figure", "percentile", "published", "tolerance"),
    [
        ("gap_after_tool_use_s", "p50", 9, 0.1),
        ("gap_after_tool_use_s", "p90", 67, 0.2),
        ("gap_after_tool_use_s", "p99", 607, 0.3),
        ("gap_otherwise_s", "p50", 131, 0.15),
        ("gap_otherwise_s", "p90", 1917, 0.25),
        ("input_tokens", "p50", 104_000, 0.15),
        ("input_tokens", "p99", 499_000, 0.2),
    ],
)
def test_agents_follow_the_published_quantiles(
    agents: Trace, figure: str, percentile: str, published: float, tolerance: float
) -> None:
    assert agents.summary()[figure][percentile] == pytest.approx(published, rel=tolerance)


def test_agents_sessions_follow_the_published_medians(agents: Trace) -> None:
    sessions = agents.summary()["sessions"]
    assert sessions["requests"]["p50"] == pytest.approx(45, rel=0.15)
    assert sessions["minutes"]["p50"] == pytest.approx(60, rel=0.25)
    assert 0.8 < (agents.stop == StopReason.TOOL_USE).mean() < 0.9


def test_agents_share_their_prompt_and_little_else(agents: Trace) -> None:
    first = (agents.turn == 0) & ~agents.subagent
    shared = agents.prefix.shared_blocks[first] * 64
    assert (shared == 0).sum() == 4  # one session of each agent brings its prompt
    assert shared.max() <= 15000 * 1.2
    assert shared[shared > 0].min() >= 15000 * 0.8 - 64


def test_slow_tools_take_the_longer_gaps(agents: Trace) -> None:
    previous = previous_in_session(agents)
    later = previous >= 0
    tool = agents.tool[previous[later]]
    medians = [np.median(agents.gap[later][tool == t]) for t in range(len(agents.tool_names))]
    assert medians == sorted(medians)
    assert agents.tool_names[-1] == "task"
    assert ((agents.tool >= 0) == (agents.stop == StopReason.TOOL_USE)).all()


def test_gaps_of_a_session_go_together(agents: Trace) -> None:
    previous = previous_in_session(agents)
    pair = (previous >= 0) & (agents.stop[previous] == StopReason.TOOL_USE) & ~np.isnan(agents.gap[previous])
    correlation = np.corrcoef(np.log(agents.gap[pair]), np.log(agents.gap[previous[pair]]))[0, 1]
    assert correlation > 0.1


def test_median_parameters_move_the_gaps() -> None:
    slow = CodingAgents(sessions=300, tool_gap_median=90.0, user_gap_median=13.1).load().summary()
    assert slow["gap_after_tool_use_s"]["p50"] == pytest.approx(90, rel=0.15)
    assert slow["gap_otherwise_s"]["p50"] == pytest.approx(13.1, rel=0.2)


def test_chat_grows_by_question_and_answer() -> None:
    trace = MultiTurnChat(sessions=200, turns_mean=5.0).load()
    previous = previous_in_session(trace)
    later = previous >= 0
    before = previous[later]
    assert (trace.input_tokens[later] > trace.input_tokens[before] + trace.output_tokens[before]).all()
    np.testing.assert_array_equal(trace.prefix.shared_blocks[later], trace.input_tokens[before] // 64)
    assert trace.requests / 200 == pytest.approx(5, rel=0.2)


def test_prompts_are_the_only_reuse() -> None:
    trace = SharedPrompts(requests=5000, prompts=10, popularity=1.0, prompt_tokens=6400).load()
    first = trace.prefix.parent < 0
    assert first.sum() == 10
    sizes = sorted(np.unique(trace.prefix.shared_blocks[~first]).tolist())
    assert len(sizes) == 10
    counts = np.sort(np.unique(trace.prefix.parent[~first], return_counts=True)[1])[::-1]
    assert counts[0] / counts[9] == pytest.approx(10, rel=0.35)  # weights 1 and 1/10


def test_scans_reuse_nothing() -> None:
    trace = OneOffRequests(requests=1000, burst=100).load()
    assert trace.unique_blocks == trace.block_references
    assert len(np.unique(trace.time)) == 10


@pytest.mark.parametrize("workload", [*SMALL[:2], CodingAgents(sessions=100)], ids=lambda w: f"{w.name}{w.sessions}")
def test_progress_reaches_the_end(workload: Any) -> None:
    reports: list[tuple[int, int | None]] = []
    workload.load(lambda done, total, what: reports.append((done, total)))
    assert reports[0] == (0, workload.sessions)
    assert reports[-1] == (workload.sessions, workload.sessions)
    assert reports == sorted(reports)


def test_default_workload() -> None:
    trace = default_workload().load()
    assert 12e6 < trace.block_references < 18e6
    assert trace.block_tokens == 64
    assert trace.has_stop_reasons
    assert trace.subagent.any()
    assert set(trace.tool_names) >= {"read", "task"}


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: CodingAgents(sessions=0), "sessions 0 is not in 1..1e"),
        (lambda: CodingAgents(sessions=2.5), "sessions 2.5 is not a whole number"),  # type: ignore[arg-type]
        (lambda: CodingAgents(sessions=True), "sessions True is not a whole number"),
        (lambda: CodingAgents(arrival_gap=float("nan")), "arrival_gap nan is not in"),
        (lambda: CodingAgents(subagent_share=1.5), "subagent_share 1.5 is not in 0..1"),
        (lambda: MultiTurnChat(turns_mean=0.5), "turns_mean 0.5 is not in 1..1000"),
        (lambda: MultiTurnChat(think_median="x"), "think_median 'x' is not a number"),  # type: ignore[arg-type]
        (lambda: SharedPrompts(popularity=-1.0), "popularity -1.0 is not in 0..10"),
        (lambda: OneOffRequests(block_tokens=0), "block_tokens 0 is not in 1"),
        (lambda: OneOffRequests(seed=-1), "seed -1 is not in 0"),
        (lambda: Mixture(()), "at least one part"),
    ],
)
def test_bad_parameter(make: Any, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        make()


def test_quantile_curve_keeps_its_quantiles() -> None:
    curve = QuantileCurve({0.0: 1, 0.1: 4, 0.5: 9, 0.9: 67, 1.0: 1000}, scale=2.0)
    drawn = curve.at(np.random.default_rng(1).standard_normal(200_000))
    assert np.percentile(drawn, [10, 50, 90]) == pytest.approx([8, 18, 134], rel=0.02)
    assert drawn.min() >= 2
    assert drawn.max() <= 2000


def test_chains_share_the_longest_prompt_seen_so_far() -> None:
    made = SessionChains(block_tokens=1)
    made.add_single({"time": [3.0, 1.0, 2.0], "input_tokens": [5, 3, 6]}, shared_tokens=[4, 2, 4], prompt=[0, 0, 0])
    trace = made.trace("heads", {})
    # In order of time: 2 of the prompt, then 4 of it (2 known, 2 new), then the same 4.
    assert chains(trace) == [[0, 1, 2], [0, 1, 3, 4, 5, 6], [0, 1, 3, 4, 7]]


def test_chain_that_is_cut_keeps_its_prompt() -> None:
    made = SessionChains(block_tokens=10)
    made.add_chain({"time": [0.0, 1.0, 2.0], "input_tokens": [45, 72, 31]}, shared_tokens=[20, 45, 20], prompt=0)
    made.add_chain({"time": [0.5], "input_tokens": [35]}, shared_tokens=[20], prompt=0)
    assert chains(made.trace("cut", {})) == [[0, 1, 2, 3], [0, 1, 4], [0, 1, 2, 3, 5, 6, 7], [0, 1, 8]]


def test_merge_by_hand() -> None:
    one = make_trace([(0, 1024, [1, 2]), (4000, 1536, [1, 2, 3])])
    other = make_trace([(0, 512, [1]), (3000, 1024, [1, 2]), (4000, 512, [9])])
    trace = merge_traces([one, other])
    assert trace.time.tolist() == [0.0, 0.0, 3.0, 4.0, 4.0]
    assert chains(trace) == [[0, 1], [2], [2, 3], [0, 1, 4], [5]]
    assert trace.session.tolist() == [-1] * 5
    assert trace.name == "small+small"


def test_merge_keeps_sessions_and_tools_apart() -> None:
    agents, chat = CodingAgents(sessions=5).load(), MultiTurnChat(sessions=5).load()
    trace = merge_traces([chat, agents, agents], name="mix")
    assert sorted(np.unique(trace.session)) == list(range(15))
    assert trace.tool_names == agents.tool_names
    assert trace.block_references == chat.block_references + 2 * agents.block_references
    assert trace.unique_blocks == chat.unique_blocks + 2 * agents.unique_blocks
    of_agents = (trace.session >= 5) & (trace.session < 10)
    np.testing.assert_array_equal(trace.tool[of_agents], agents.tool)
    np.testing.assert_array_equal(trace.session[of_agents], agents.session + 5)
    counts = (trace.prefix.shared_blocks.astype(int) + trace.prefix.new_blocks)[of_agents]
    np.testing.assert_array_equal(counts, agents.chain_blocks())


def test_merge_of_one_is_itself() -> None:
    trace = make_trace(SMALL_TRACE)
    assert chains(merge_traces([trace])) == chains(trace)


def test_merge_of_different_blocks() -> None:
    with pytest.raises(TraceError, match=r"blocks of different size.*small: 512, small: 256"):
        merge_traces([make_trace([(0, 512, [1])]), make_trace([(0, 512, [1])], block_tokens=256)])


def test_merge_of_nothing() -> None:
    with pytest.raises(ConfigError, match="no traces to merge"):
        merge_traces([])
