"""The work that waits against a list of it: who is due, and how long first come, first served would make wait."""

from __future__ import annotations

import math
from dataclasses import dataclass

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kvopt.continuum.backlog import STRETCH, Backlog


@dataclass(eq=False)
class Waiting:
    since: float
    seconds: float
    slot: int = -1
    due: bool = False


class ListedBacklog:
    """The same by its definition: everything is summed anew."""

    def __init__(self) -> None:
        self.waiting: list[Waiting] = []

    def latest(self, before: Waiting | None = None) -> tuple[float, int]:
        best, where, total = math.inf, -1, 0.0
        for place, one in enumerate(self.waiting):
            if one is before:
                break
            total += one.seconds
            if not one.due and one.since - total < best:
                best, where = one.since - total, place
        return best, where

    def take_due(self, before: Waiting | None = None) -> list[Waiting]:
        due = [one for one in self.waiting[: self.latest(before)[1] + 1] if not one.due]
        for one in due:
            one.due = True
        return due


OPERATIONS = st.tuples(
    st.sampled_from(["add", "add", "add", "start", "remove", "reckon", "due", "due before"]),
    st.integers(0, 99),
    st.integers(0, 9),
)


@settings(max_examples=200)
@given(st.lists(OPERATIONS, max_size=120))
def test_it_tells_what_a_list_tells(operations: list[tuple[str, int, int]]) -> None:
    backlog, listed, now = Backlog(), ListedBacklog(), 0.0
    for what, place, seconds in operations:
        waiting = listed.waiting
        one = waiting[place % len(waiting)] if waiting else None
        now += seconds
        if what == "add":
            new = Waiting(now, float(seconds))
            waiting.append(new)
            backlog.add(new, now)
        elif one is None:
            continue
        elif what == "due":
            assert backlog.take_due() == listed.take_due()
        elif what == "due before":
            assert backlog.take_due(one) == listed.take_due(one)
        elif what == "reckon":
            backlog.reckon(one, float(seconds))
        else:
            (backlog.start(one, now) if what == "start" else backlog.remove(one))
            waiting.remove(one)
        assert backlog.latest() == listed.latest()[0]
        for other in waiting[-3:]:
            assert backlog.latest(other) == listed.latest(other)[0]


def test_the_bound_is_the_wait_of_who_came_when_most_work_waited() -> None:
    backlog = Backlog()
    served = Waiting(0.0, 50.0)
    backlog.add(served, 0.0)
    backlog.start(served, 0.0)
    backlog.add(Waiting(10.0, 20.0), 10.0)  # behind 40 s of the first: its token would come after 60
    backlog.add(Waiting(70.0, 5.0), 70.0)
    assert backlog.bound == pytest.approx(STRETCH * 60.0, rel=0.01)


def test_a_long_wait_is_forgotten_within_a_day() -> None:
    backlog = Backlog()
    for at in (0.0, 86_400.0):
        one = Waiting(at, 1000.0 if at == 0.0 else 1.0)
        backlog.add(one, at)
        backlog.remove(one)
    assert 1.0 < backlog.bound < 10.0
