"""The waiting order: laid over vLLM's queues before a step, fixed in it, never against what vLLM needs."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kvopt.vllm import observation as seen

Make = Callable[..., Any]


def prompt(length: int, seed: int = 0) -> list[int]:
    return [10 + (seed * 97 + i * 31) % 400 for i in range(length)]


def waiting(name: str, priority: int = 0, arrival: float = 0.0, computed: int = 0, status: str = "WAITING") -> Any:
    from vllm.v1.request import Request

    request = Request.__new__(Request)
    request.request_id, request.priority, request.arrival_time = name, priority, arrival
    request.num_computed_tokens, request.status = computed, SimpleNamespace(name=status)
    return request


def test_first_come_order_keeps_who_may_not_move() -> None:
    from vllm.v1.core.sched.request_queue import FCFSRequestQueue

    from kvopt.vllm.waiting import ordered_queue

    own = FCFSRequestQueue()
    for name, computed in (("a", 0), ("held", 32), ("b", 0), ("c", 0)):
        own.add_request(waiting(name, computed=computed))
    queue = ordered_queue(own)
    assert queue is not None
    queue.reorder(lambda request: {"c": 0, "a": 1, "b": 1}[request.request_id])
    assert [request.request_id for request in queue] == ["c", "held", "a", "b"]
    queue.prepend_request(waiting("preempted"))
    assert queue.peek_request().request_id == "preempted"
    assert isinstance(queue, FCFSRequestQueue)


@given(
    st.lists(st.tuples(st.integers(0, 2), st.integers(0, 5), st.integers(0, 3)), max_size=12),
    st.data(),
)
@settings(max_examples=100, deadline=None)
def test_priorities_come_first_and_peek_is_what_pop_gives(
    made: list[tuple[int, int, int]], data: st.DataObject
) -> None:
    """Property: sorted by priority, then rank, then vLLM's order; peek and pop agree whatever is added between."""
    from vllm.v1.core.sched.request_queue import PriorityRequestQueue

    from kvopt.vllm.waiting import ordered_queue

    own = PriorityRequestQueue()
    ranks = {}
    for number, (priority, arrival, rank) in enumerate(made):
        request = waiting(f"r{number}", priority, float(arrival))
        ranks[request.request_id] = rank
        own.add_request(request)
    queue = ordered_queue(own)
    assert queue is not None
    queue.reorder(lambda request: ranks.get(request.request_id, 9))
    expected = sorted(queue, key=lambda r: (r.priority, ranks[r.request_id], r.arrival_time, r.request_id))
    assert [request.request_id for request in queue] == [request.request_id for request in expected]
    removed = {request for request in expected if data.draw(st.booleans())}
    queue.remove_requests(removed)
    left = [request for request in expected if request not in removed]
    while queue:
        head = queue.peek_request()
        assert queue.pop_request() is head
        assert head is left.pop(0)
        if left and data.draw(st.booleans()):  # vLLM skips it and puts it back in front
            queue.prepend_request(head)
            assert queue.pop_request() is head
    assert len(queue) == 0


@pytest.mark.parametrize("policy", ["fcfs", "priority"])
def test_returning_sessions_are_admitted_first(engine: Make, policy: str) -> None:
    server = engine(
        kvopt={"pool": "off", "waiting": "sessions", "simulation": {"time": "virtual"}},
        max_num_seqs=1,
        scheduling_policy=policy,
    )
    admitted: list[str] = []
    server.scheduler.kvopt.hooks.add_observer(
        "test",
        lambda event: admitted.append(event.request.request_id) if isinstance(event, seen.Scheduled) else None,
    )
    server.add("s1", prompt(60), extra={"kvopt_session_id": "s"}, max_tokens=4)
    server.run()
    server.add("new1", prompt(60, 1), max_tokens=4)
    server.step()
    server.add("new2", prompt(60, 2), max_tokens=4)
    server.add("s2", prompt(80), extra={"kvopt_session_id": "s"}, max_tokens=4)
    if policy == "priority":
        server.add("urgent", prompt(60, 3), priority=-1, max_tokens=4)
    server.run()
    wanted = ["s1", "new1", "urgent", "s2", "new2"] if policy == "priority" else ["s1", "new1", "s2", "new2"]
    assert admitted == wanted
    assert server.scheduler.kvopt.hooks.errors == {}


@pytest.mark.parametrize(("waiting", "first"), [("returning", "young2"), ("sessions", "old2")])
def test_of_two_that_return_the_request_or_the_session_counts(engine: Make, waiting: str, first: str) -> None:
    server = engine(
        kvopt={"pool": "off", "waiting": waiting, "simulation": {"time": "virtual"}},
        max_num_seqs=1,
    )
    admitted: list[str] = []
    server.scheduler.kvopt.hooks.add_observer(
        "test",
        lambda event: admitted.append(event.request.request_id) if isinstance(event, seen.Scheduled) else None,
    )
    for seed, name in enumerate(("old", "young")):
        server.add(f"{name}1", prompt(60, seed), extra={"kvopt_session_id": name}, max_tokens=4)
        server.run()
    server.add("other", prompt(60, 2), max_tokens=4)
    server.step()
    server.add("young2", prompt(80, 1), extra={"kvopt_session_id": "young"}, max_tokens=4)
    server.add("old2", prompt(80, 0), extra={"kvopt_session_id": "old"}, max_tokens=4)
    server.run()
    assert admitted[:4] == ["old1", "young1", "other", first]
    assert server.scheduler.kvopt.hooks.errors == {}


def test_preempted_requests_come_first_and_all_finish(engine: Make) -> None:
    server = engine(kvopt={"pool": "off", "waiting": "sessions", "simulation": {"time": "virtual"}}, blocks=24)
    events: list[seen.Event] = []
    server.scheduler.kvopt.hooks.add_observer("test", events.append)
    for seed in range(12):
        server.add(f"r{seed}", prompt(100, seed), max_tokens=90, extra={"kvopt_session_id": f"s{seed % 4}"})
    server.run()
    assert all(len(tokens) == 90 for tokens in server.outputs.values())
    preempted = [event for event in events if isinstance(event, seen.Preempted)]
    assert preempted
    lost: list[str] = []
    for event in events:
        if isinstance(event, seen.Preempted):
            lost.append(event.request.request_id)
        elif isinstance(event, seen.Scheduled) and lost:
            assert event.request.request_id in lost
            lost.remove(event.request.request_id)
    assert server.scheduler.kvopt.hooks.errors == {}
