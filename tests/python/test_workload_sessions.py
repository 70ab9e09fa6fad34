"""Taking sessions out of a trace, and moving them."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from kvopt.errors import ConfigError, TraceError
from kvopt.simulator import replay
from kvopt.workload import CodingAgents, Trace, read_trace, take_sessions
from kvopt.workload.kv_cache_tester import session_starts

SESSIONS = Path(__file__).parent / "data" / "kv_cache_tester"


@pytest.fixture(scope="module")
def agents() -> Trace:
    return CodingAgents(sessions=10).load()


def test_all_sessions_are_the_trace(agents: Trace) -> None:
    taken = take_sessions(agents, np.arange(10))
    for column, values in agents.columns().items():
        np.testing.assert_array_equal(getattr(taken, column), values)
    assert (taken.unique_blocks, taken.name, taken.tool_names) == (agents.unique_blocks, "agents", agents.tool_names)
    capacity = agents.prefix.longest_request + 100
    assert replay(taken, "lru", capacity).rows[0].block_hit == replay(agents, "lru", capacity).rows[0].block_hit


def test_some_sessions_have_their_requests_and_what_they_share(agents: Trace) -> None:
    taken = take_sessions(agents, [7, 2], name="two")
    assert taken.name == "two"
    assert set(taken.session) == {2, 7}
    kept = np.flatnonzero(np.isin(agents.session, [2, 7]))
    np.testing.assert_array_equal(taken.output_tokens, agents.output_tokens[kept])
    chains = [agents.prefix.chain(int(request)) for request in kept]
    np.testing.assert_array_equal(taken.chain_blocks(), [len(chain) for chain in chains])
    assert taken.unique_blocks == len(set(np.concatenate(chains).tolist()))


def test_delays_give_the_merge_of_another_seed() -> None:
    """What the reader makes of the same files with another seed."""
    first, second = (read_trace(SESSIONS, seed=seed) for seed in (1, 5))
    numbers = np.unique(first.session)
    starts = [np.array(session_starts(len(numbers), 30.0, seed)) for seed in (1, 5)]
    moved = take_sessions(first, numbers, delays=starts[1] - starts[0])
    np.testing.assert_allclose(moved.time, second.time)
    np.testing.assert_array_equal(moved.session, second.session)
    np.testing.assert_array_equal(moved.prefix.parent, second.prefix.parent)
    np.testing.assert_array_equal(moved.prefix.shared_blocks, second.prefix.shared_blocks)


@pytest.mark.parametrize(
    ("sessions", "delays", "message"),
    [
        ([], None, "not a list of session numbers"),
        ([1.5], None, "not a list of session numbers"),
        ([[1, 2]], None, "not a list of session numbers"),
        ([3, 3], None, "3 comes twice"),
        ([3, 10], None, "no request of agents is of session 10"),
        ([3, -1], None, "no request of agents is of session -1"),
        ([3, 4], [1.0], "for 2 sessions"),
    ],
)
def test_bad_arguments_are_named(agents: Trace, sessions: list[int], delays: list[float] | None, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        take_sessions(agents, sessions, delays=delays)


def test_no_request_goes_before_time_zero(agents: Trace) -> None:
    with pytest.raises(TraceError, match="not a finite number >= 0"):
        take_sessions(agents, [0], delays=[-1e9])
