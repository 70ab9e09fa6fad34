"""Which request of a trace follows which: the turns of a session, and of the sub-agents that it runs."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from kvopt._core import ThreadTable

if TYPE_CHECKING:
    from kvopt.workload.base import Trace


@dataclass(slots=True)
class Threads:
    """The structure of R requests."""

    session: NDArray[np.int64]
    """Number of each request's session; requests without one have one each (int64[R])."""
    follower: NDArray[np.int64]
    """The next request of the same session or sub-agent, or -1 (int64[R])."""
    waits: list[int] = field(default_factory=list)
    """For how many others each request waits."""
    after_answer: list[list[tuple[int, float]]] = field(default_factory=list)
    """The requests that come so many seconds after the answer to this one."""
    after_arrival: list[list[tuple[int, float]]] = field(default_factory=list)
    """The requests that come so many seconds after this one came, whether answered or not."""

    def table(self) -> ThreadTable:
        """The same for the native engine, with sessions numbered from 0 up."""
        _, number = np.unique(self.session, return_inverse=True)
        return ThreadTable(
            number.astype(np.int64),
            np.array(self.waits, np.int64),
            _flat(self.after_answer),
            _flat(self.after_arrival),
        )


def _flat(lists: list[list[tuple[int, float]]]) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.float64]]:
    begin = np.zeros(len(lists) + 1, np.int64)
    np.cumsum([len(entries) for entries in lists], out=begin[1:])
    entries = [entry for each in lists for entry in each]
    requests = np.array([request for request, _ in entries], np.int64)
    return begin, requests, np.array([seconds for _, seconds in entries], np.float64)


def find_threads(trace: Trace) -> Threads:
    """Tell a trace's threads: the main one of each session, and its sub-agents.

    A request waits for the one before it in its thread, and comes its gap (where unknown, the time that passed in the
    trace) after that answer. A sub-agent's first request comes as long after the latest answer of the main thread as in
    the trace, or as long after the main thread's latest request where that was still being answered. A main request
    that came in the trace after sub-agents had ended waits for them: it comes as long after the last answers of these
    as it did there. Sub-agents of one session that run side by side are told apart by their turns and prefixes, else by
    whose answer and gap end nearest.
    """
    requests = trace.requests
    session = trace.session.astype(np.int64)
    alone = session < 0
    session[alone] = np.arange(requests)[alone] + (int(session.max()) + 1)
    threads = Threads(
        session,
        np.full(requests, -1, np.int64),
        [0] * requests,
        [[] for _ in range(requests)],
        [[] for _ in range(requests)],
    )
    if not alone.all():
        _Walk(trace, threads).run()
    return threads


@dataclass(slots=True)
class _Session:
    main: int = -1
    subagents: list[int] = field(default_factory=list)  # the last request of each sub-agent since `main`
    old: list[int] = field(default_factory=list)  # of those before


class _Walk:
    def __init__(self, trace: Trace, threads: Threads) -> None:
        self._threads = threads
        self._time = trace.time.tolist()
        self._gap = trace.gap.tolist()
        api = np.nan_to_num(trace.api_time, nan=0.0).tolist()
        self._end = [time + seconds for time, seconds in zip(self._time, api, strict=True)]
        self._turn = trace.turn.tolist()
        self._subagent = trace.subagent.tolist()
        self._parent = trace.prefix.parent.tolist()
        self._known = (trace.session >= 0).tolist()

    def run(self) -> None:
        sessions: dict[int, _Session] = {}
        for request, number in enumerate(self._threads.session.tolist()):
            if not self._known[request]:
                continue
            state = sessions.setdefault(number, _Session())
            if self._subagent[request]:
                self._subagent_request(request, state)
            else:
                self._main_request(request, state)

    def _main_request(self, request: int, state: _Session) -> None:
        before = state.main
        if before >= 0:
            self._threads.follower[before] = request
            ended = [last for last in state.subagents if self._end[last] <= self._time[request]]
            for last in ended:
                self._wait(request, last, self._time[request] - self._end[last])
            self._wait(request, before, 0.0 if ended else self._pause(before, request))
        state.main = request
        state.old += state.subagents
        state.subagents = []

    def _subagent_request(self, request: int, state: _Session) -> None:
        before = self._own_last(request, state)
        if before >= 0:
            self._threads.follower[before] = request
            self._wait(request, before, self._pause(before, request))
            for running in (state.subagents, state.old):
                if before in running:
                    running[running.index(before)] = request
            return
        main = state.main
        if main >= 0:
            since_answer = self._time[request] - self._end[main]
            if since_answer >= 0:
                self._wait(request, main, since_answer)
            else:
                self._threads.waits[request] += 1
                self._threads.after_arrival[main].append((request, self._time[request] - self._time[main]))
        state.subagents.append(request)

    def _own_last(self, request: int, state: _Session) -> int:
        turn = self._turn[request]
        if turn <= 0:
            return -1
        candidates = [last for last in (*state.old, *state.subagents) if self._turn[last] == turn - 1]
        parent = self._parent[request]
        if parent in candidates or not candidates:
            return parent if candidates else -1
        gap = self._gap[request]
        due = self._time[request] - (0.0 if math.isnan(gap) else gap)
        return min(candidates, key=lambda last: abs(self._end[last] - due))

    def _pause(self, before: int, request: int) -> float:
        gap = self._gap[request]
        return float(gap) if not math.isnan(gap) else max(0.0, self._time[request] - self._end[before])

    def _wait(self, request: int, before: int, seconds: float) -> None:
        self._threads.waits[request] += 1
        self._threads.after_answer[before].append((request, seconds))
