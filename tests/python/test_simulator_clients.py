"""Who sends what and when: open and closed loops, sub-agents, limits, patience, rates, seeds."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from kvopt.errors import ConfigError
from kvopt.simulator import ClientOptions, LinearStepTime
from kvopt.simulator.clients import arrival_times
from kvopt.simulator.threads import find_threads
from kvopt.workload import CodingAgents
from served_traces import Sent, events, serve, served_trace

TIME = LinearStepTime(k0=1000)  # every step takes a second


def turn(time: float, session: int, number: int, answer: int = 1, **columns: Any) -> Sent:
    return Sent(time, 4, answer, [], {"session": session, "turn": number, **columns})


def arrivals(requests: list[Sent], **options: Any) -> list[float]:
    run = serve(served_trace(requests), 100, TIME, **options)
    found = {request: time for time, kind, request, _ in events(run) if kind == "arrived"}
    return [found.get(number, -1.0) for number in range(len(requests))]


def test_an_open_loop_keeps_the_times_of_the_trace() -> None:
    requests = [turn(1, 0, 0, 9), turn(2, 0, 1), turn(5, 1, 0)]
    assert arrivals(requests, mode="open") == [0, 1, 4]


def test_a_closed_loop_waits_for_the_answer_and_then_the_gap() -> None:
    # The first answer takes 9 s, whatever the trace's server needed; 3 s pass at the client.
    requests = [turn(0, 0, 0, 9, api_time=1.0), turn(4, 0, 1, gap=3.0), turn(7, 1, 0)]
    assert arrivals(requests, mode="closed") == [0, 12, 7]


def test_an_unknown_gap_is_the_time_that_passed_in_the_trace() -> None:
    requests = [turn(0, 0, 0, 2, api_time=1.5), turn(4, 0, 1)]
    assert arrivals(requests, mode="closed") == [0, 2 + 2.5]


def test_sub_agents_run_beside_each_other_and_the_main_thread_waits_for_those_that_had_ended() -> None:
    def agent(time: float, number: int, answer: int, api: float, **columns: Any) -> Sent:
        return turn(time, 0, number, answer, subagent=True, api_time=api, **columns)

    requests = [
        turn(0, 0, 0, 1, api_time=1.0),
        agent(2, 0, 3, 1.0),  # 1 s after the answer at 1: at 2, answered at 5
        agent(2.5, 0, 9, 1.0),  # 1.5 s after: at 2.5
        agent(4, 1, 1, 1.0, gap=1.0),  # the first sub-agent's second turn
        agent(4.5, 1, 1, 9.0, gap=1.0),  # the second's, still being answered when the main thread goes on at 6
        turn(6, 0, 1, 1, gap=5.0),  # 1 s after the first sub-agent had ended at 5
    ]
    trace = served_trace(requests)
    threads = find_threads(trace)
    assert threads.follower.tolist() == [5, 3, 4, -1, -1, -1]
    run = serve(trace, 100, TIME, mode="closed")
    times = {(kind, request): time for time, kind, request, _ in events(run)}
    assert times["arrived", 1] == 2
    assert times["arrived", 2] == 2.5
    assert times["arrived", 3] == times["finished", 1] + 1
    assert times["arrived", 4] == times["finished", 2] + 1
    assert times["arrived", 5] == times["finished", 3] + 1
    assert run.totals.sessions == 1


def test_a_sub_agent_that_began_before_the_answer_begins_with_the_request() -> None:
    requests = [turn(0, 0, 0, 9, api_time=5.0), turn(2, 0, 0, subagent=True)]
    assert arrivals(requests, mode="closed") == [0, 2]


def test_only_so_many_sessions_are_under_way() -> None:
    # Each takes 2 s, goes on after 4 s, and takes 1 s more: 7 s a session.
    requests = [turn(number, number, 0, 2) for number in range(3)]
    requests += [turn(10 + number, number, 1, gap=4.0) for number in range(3)]
    run = serve(served_trace(requests), 100, TIME, mode="closed", session_limit=1)
    times = {request: time for time, kind, request, _ in events(run) if kind == "arrived"}
    assert times == {0: 0, 3: 6, 1: 7, 4: 13, 2: 14, 5: 20}
    # Jobs count from when their clients wanted to begin: 0 to 7, 1 to 14, 2 to 21.
    assert run.latency_s["job_completion"].mean == pytest.approx((7 + 13 + 19) / 3)


def test_who_has_no_token_in_time_gives_up_with_the_rest_of_the_session() -> None:
    # One at a time, 5 s each. The second would wait for 5 s and gives up at 3, the third at 9: it came at 6.
    requests = [turn(0, 0, 0, 5), turn(0, 1, 0, 5), turn(6, 2, 0, 5), turn(9, 1, 1, gap=1.0)]
    run = serve(served_trace(requests), 100, TIME, mode="closed", patience=3.0, max_sequences=1)
    assert [(kind, request) for _, kind, request, _ in events(run) if kind in ("aborted", "finished")] == [
        ("aborted", 1),
        ("finished", 0),
        ("finished", 2),
    ]
    assert (run.totals.aborted, run.totals.unsent, run.totals.sessions) == (1, 1, 2)


def test_a_client_that_gives_up_during_the_prefill_frees_its_blocks() -> None:
    run = serve(served_trace([Sent(0, 40, 1), Sent(1, 4, 1)]), 10, TIME, patience=2.5, token_budget=4, max_sequences=1)
    assert (3.0, "aborted", 0, 0) in [(time, kind, request, amount) for time, kind, request, amount in events(run)]
    assert run.totals.finished == 1


def test_a_refused_request_does_not_end_its_session() -> None:
    requests = [turn(0, 0, 0), Sent(1, 400, 1, [], {"session": 0, "turn": 1, "gap": 2.0}), turn(2, 0, 2, gap=2.0)]
    run = serve(served_trace(requests), 10, TIME, mode="closed")
    assert (run.totals.refused, run.totals.finished, run.totals.sessions) == (1, 2, 1)
    assert [time for time, kind, _, _ in events(run) if kind == "arrived"] == [0, 3, 5]


def test_answers_that_stopped_by_abort_are_ended_as_such() -> None:
    run = serve(served_trace([Sent(0, 4, 2, [], {"stop": 4})]), 10, TIME)
    assert run.totals.finished == 1


def test_rate_divides_the_starts_of_sessions_and_nothing_within() -> None:
    requests = [turn(0, 0, 0), turn(3, 0, 1, gap=2.0), turn(10, 1, 0)]
    assert arrivals(requests, mode="closed", rate=2.0) == [0, 3, 5]
    assert arrivals(requests, mode="open", rate=2.0) == [0, 3, 5]


def test_seeds_redraw_the_starts_at_the_same_mean_rate() -> None:
    trace = CodingAgents(sessions=60, seed=5, requests_median=3).load()
    threads = find_threads(trace)
    first = np.unique(threads.session, return_index=True)[1]
    drawn = [arrival_times(trace, threads, 1.0, seed) for seed in (1, 2)]
    assert np.array_equal(drawn[0], arrival_times(trace, threads, 1.0, 1))
    assert not np.array_equal(drawn[0], drawn[1])
    for times in drawn:
        assert times.min() == 0.0
        assert np.allclose((times - times[first][threads.session]), trace.time - trace.time[first][threads.session])
        assert 0.5 < times[first].max() / trace.time[first].max() < 2.0


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"mode": "half"}, "clients: 'half'"),
        ({"rate": 0}, "rate: 0"),
        ({"rate": float("inf")}, "rate: inf"),
        ({"rate": True}, "rate: True"),
        ({"session_limit": 0}, "session_limit: 0"),
        ({"session_limit": 2, "mode": "open"}, "do not wait"),
        ({"patience": -1.0}, "patience: -1.0"),
    ],
)
def test_bad_options(options: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        ClientOptions(**options)
