"""How long a request may be passed: the waits of first come, first served, known without running it."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kvopt.continuum import ProgramSelection
from kvopt.continuum.patience import Patience

SHARE, FADING = 0.55, 0.999


class FirstComeFirstServed:
    """The queue itself: lets in the first whenever the other lets in anybody."""

    def __init__(self) -> None:
        self.waiting: dict[int, float] = {}
        self.worst = 0.0

    def admit(self, now: float) -> None:
        first = next(iter(self.waiting))
        self.worst = max(self.worst * FADING, now - self.waiting.pop(first))

    def abort(self, number: int) -> None:
        # Who was let in already here makes room for the next when it gives up, where others let nobody in.
        self.waiting.pop(number if number in self.waiting else next(iter(self.waiting)))


@given(st.lists(st.tuples(st.sampled_from(["arrive", "admit", "abort"]), st.integers(0, 9), st.floats(0.0, 9.0))))
def test_the_longest_wait_is_that_of_the_queue_itself(events: list[tuple[str, int, float]]) -> None:
    patience, queue, now = Patience(), FirstComeFirstServed(), 0.0
    ours: list[int] = []  # who waits where any may be let in before another
    for what, place, elapsed in events:
        now += elapsed
        if what == "arrive":
            number = patience.on_arrival(now)
            ours.append(number)
            queue.waiting[number] = now
        elif ours:
            number = ours.pop(place % len(ours))
            if what == "admit":
                patience.on_admitted(now)
                queue.admit(now)
            else:
                patience.on_aborted(number)
                queue.abort(number)
        assert patience.seconds == pytest.approx(SHARE * queue.worst)


def test_where_all_wait_long_one_may_be_passed_for_longer() -> None:
    selection = ProgramSelection(starvation_bound=1.0)
    selection.add("waits long", 0.0, program_arrival=0.0)
    selection.admit("waits long", 100.0)
    selection.add("old request", 100.0, program_arrival=50.0)
    selection.add("returns", 154.0, program_arrival=60.0, retained=True)
    assert selection.first(154.9)[0].request == "returns"
    assert selection.stable_until() == pytest.approx(155.0)
    assert selection.first(155.01)[0].request == "old request"


def test_a_request_that_was_preempted_is_no_arrival() -> None:
    selection = ProgramSelection(starvation_bound=1.0)
    selection.add("a", 0.0, program_arrival=0.0)
    selection.admit("a", 0.0)
    selection.add("a", 0.0, program_arrival=0.0, arrival=0.0, preempted=True)
    selection.admit("a", 500.0)
    selection.add("b", 500.0, program_arrival=500.0)
    assert selection.stable_until() == 501.0
