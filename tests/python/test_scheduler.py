"""The order of the waiting: each scheduler alone, and in the engine."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from kvopt.errors import ConfigError, SchedulerError, UnknownSchedulerError
from kvopt.scheduler import (
    CacheAwareScheduler,
    FifoScheduler,
    OrderedScheduler,
    PriorityScheduler,
    ProgramScheduler,
    Request,
    RequestQueue,
    RequestState,
    Scheduler,
    SchedulerInfo,
    SchedulerView,
    ShortestPrefillScheduler,
    make_scheduler,
    parse_scheduler,
    register_scheduler,
    schedulers,
)
from kvopt.simulator import LinearStepTime
from served_traces import Sent, events, serve, served_trace

TIME = LinearStepTime(k0=10, k1=1, d1=2)


class View:
    """A view with a time, and cached tokens by request."""

    def __init__(self) -> None:
        self.now = 0.0
        self.version = 0
        self.cached: dict[int, int] = {}

    def cached_tokens(self, request: Request) -> int:
        return self.cached.get(request.id, 0)


def request(number: int, **fields: Any) -> Request:
    values = {"prompt_tokens": 8, "arrival": float(number), "session_arrival": float(number)} | fields
    return Request(id=number, session=number, turn=0, output_tokens=1, keys=np.empty(0, np.uint64), **values)


def order(scheduler: Scheduler, view: SchedulerView, requests: list[Request]) -> list[int]:
    for each in requests:
        scheduler.add(each)
    taken = []
    while len(scheduler):
        named = scheduler.peek(view)
        assert scheduler.pop() is named
        taken.append(named.id)
    return taken


def test_the_queue() -> None:
    queue = RequestQueue()
    first, second, third = (request(number) for number in range(3))
    queue.add(first)
    queue.add(second)
    queue.prepend(third)
    assert [each.id for each in queue] == [2, 0, 1]
    queue.remove(first)
    assert queue.peek() is third
    assert queue.pop() is third
    assert len(queue) == 1


def test_states() -> None:
    assert [state.name for state in RequestState if state.finished] == [
        "FINISHED_STOPPED",
        "FINISHED_LENGTH_CAPPED",
        "FINISHED_ABORTED",
        "FINISHED_IGNORED",
    ]


def test_orders() -> None:
    view = View()
    view.cached = {0: 0, 1: 4, 2: 6}
    prompts = [request(0, prompt_tokens=20), request(1, prompt_tokens=9), request(2, prompt_tokens=30)]
    assert order(FifoScheduler(), view, prompts) == [0, 1, 2]
    assert order(ShortestPrefillScheduler(), view, prompts) == [1, 0, 2]  # 5, 20 and 24 tokens to go
    assert order(CacheAwareScheduler(), view, prompts) == [2, 1, 0]
    ranked = [request(0, priority=1), request(1, priority=0), request(2, priority=0)]
    assert order(PriorityScheduler(), view, ranked) == [1, 2, 0]
    turns = [request(0, session_arrival=9.0), request(1, session_arrival=1.0), request(2, session_arrival=9.0)]
    assert order(ProgramScheduler(), view, turns) == [1, 0, 2]


def test_aging_weighs_waiting_against_length() -> None:
    view = View()
    long_first = [request(0, prompt_tokens=50), request(10, prompt_tokens=40)]
    assert order(ShortestPrefillScheduler(aging=0.5), view, long_first) == [10, 0]
    assert order(ShortestPrefillScheduler(aging=2.0), view, long_first) == [0, 10]


def test_nobody_waits_longer_than_the_bound_for_others_with_hits() -> None:
    view = View()
    view.cached = {1: 4}
    scheduler = CacheAwareScheduler(bound=5.0)
    scheduler.add(request(0))
    scheduler.add(request(1))
    assert scheduler.peek(view).id == 1
    assert scheduler.stable_until() == 5.0
    view.now = 5.0
    assert scheduler.peek(view).id == 0


def test_ranks_follow_the_cache() -> None:
    view = View()
    view.cached = {0: 1, 1: 0}
    scheduler = CacheAwareScheduler()
    scheduler.add(request(0))
    scheduler.add(request(1))
    assert scheduler.peek(view).id == 0
    view.cached = {0: 1, 1: 5}
    assert scheduler.peek(view).id == 0  # nobody said that anything changed
    view.version += 1
    assert scheduler.peek(view).id == 1


@pytest.mark.parametrize("kind", [FifoScheduler, ShortestPrefillScheduler, ProgramScheduler, CacheAwareScheduler])
def test_preempted_requests_come_back_first_the_last_one_before_the_others(kind: type[Scheduler]) -> None:
    view = View()
    scheduler = kind()
    scheduler.add(request(0, prompt_tokens=1))
    scheduler.prepend(request(1))
    scheduler.prepend(request(2))
    assert order(scheduler, view, []) == [2, 1, 0]


@pytest.mark.parametrize("kind", [FifoScheduler, PriorityScheduler, ShortestPrefillScheduler])
def test_removal(kind: type[Scheduler]) -> None:
    view = View()
    scheduler = kind()
    each = [request(number) for number in range(4)]
    for waiting in each[:3]:
        scheduler.add(waiting)
    scheduler.prepend(each[3])
    scheduler.remove(each[1])
    scheduler.remove(each[3])
    assert order(scheduler, view, []) == [0, 2]
    with pytest.raises((SchedulerError, ValueError)):
        scheduler.remove(each[1])


def finishing(spec: str | type[Scheduler], requests: list[Sent], **options: Any) -> list[int]:
    run = serve(served_trace(requests), 12, TIME, schedulers=spec, max_sequences=1, **options)
    return [request for _, kind, request, _ in events(run) if kind == "finished"]


def test_in_the_engine() -> None:
    # All but the first wait while it runs; the last shares its prompt.
    requests = [
        Sent(0, 8, 9, [0, 1], {"session": 5}),
        Sent(0.01, 40, 1, range(10, 20), {"session": 6}),
        Sent(0.02, 12, 1, [30, 31, 32], {"session": 7}),
        Sent(0.03, 9, 1, [0, 1], {"session": 6, "turn": 1}),
    ]
    assert finishing("fifo", requests) == [0, 1, 2, 3]
    assert finishing("shortest-prefill", requests) == [0, 3, 2, 1]
    assert finishing("cache-aware", requests) == [0, 3, 1, 2]
    assert finishing("cache-aware:bound=0", requests) == [0, 1, 2, 3]
    assert finishing("program", requests) == [0, 1, 3, 2]
    assert finishing("priority", requests, priorities=[0, 2, 1, 3]) == [0, 2, 1, 3]


class LongestFirst(OrderedScheduler):
    def rank(self, request: Request) -> int:
        return -request.prompt_tokens


def test_one_of_your_own() -> None:
    requests = [Sent(0, 4, 5), Sent(0.001, 4, 1), Sent(0.002, 8, 1), Sent(0.003, 6, 1)]
    assert finishing(LongestFirst, requests) == [0, 2, 3, 1]
    register_scheduler(SchedulerInfo("longest-first", "longest prompt first", LongestFirst))
    assert finishing("longest-first", requests) == [0, 2, 3, 1]
    with pytest.raises(ConfigError, match="already"):
        register_scheduler(SchedulerInfo("longest-first", "", LongestFirst))
    with pytest.raises(ConfigError, match="letters, digits and dashes"):
        register_scheduler(SchedulerInfo("longest first", "", LongestFirst))


class GivesAnother(FifoScheduler):
    def pop(self) -> Request:
        return request(99)


class Raises(FifoScheduler):
    def __init__(self) -> None:
        raise ValueError("no")


def test_broken_schedulers() -> None:
    with pytest.raises(SchedulerError, match=r"GivesAnother.pop\(\) gave another request"):
        finishing(GivesAnother, [Sent(0, 4, 1)])
    with pytest.raises(SchedulerError, match=r"Raises\(\) raised ValueError: no"):
        finishing(Raises, [Sent(0, 4, 1)])


def test_specs() -> None:
    assert parse_scheduler("cache-aware:bound=3")[1] == {"bound": 3.0}
    assert {info.name for info in schedulers()} >= {"fifo", "priority", "shortest-prefill", "program", "cache-aware"}
    assert isinstance(make_scheduler("fifo"), FifoScheduler)


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ("fifi", "did you mean 'fifo'"),
        ("nothing-like-it", "known: fifo, priority"),
        ("fifo:bound=3", "no setting 'bound'; settings of fifo: none"),
        ("cache-aware:bound=x", "bound is 'x'"),
        ("cache-aware:bound=-1", "from 0 up"),
        ("cache-aware:bound=1,bound=2", "given twice"),
    ],
)
def test_bad_specs(spec: str, message: str) -> None:
    with pytest.raises(UnknownSchedulerError if "=" not in spec else ConfigError, match=message):
        parse_scheduler(spec)


def test_what_is_no_scheduler() -> None:
    with pytest.raises(ConfigError, match="lacks the methods rank"):
        make_scheduler(OrderedScheduler)
    with pytest.raises(ConfigError, match="neither a scheduler's name"):
        make_scheduler(int)  # type: ignore[arg-type]
