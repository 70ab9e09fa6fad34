"""The order in which waiting requests are tried."""

from __future__ import annotations

import math
from collections.abc import Hashable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kvopt.continuum import ProgramSelection, Standing
from kvopt.errors import ConfigError, RequestIdError


def order(selection: ProgramSelection, now: float) -> list[Hashable]:
    return [candidate.request for candidate in selection.candidates(now)]


@pytest.fixture
def selection() -> ProgramSelection:
    return ProgramSelection(starvation_bound=30.0, ageing=0.0)


def test_preempted_then_returning_to_retained_blocks_then_first_come(selection: ProgramSelection) -> None:
    selection.add("old session", 10.0, program_arrival=0.0)
    selection.add("new session", 10.0, program_arrival=9.0)
    selection.add("retained", 11.0, program_arrival=8.0, retained=True)
    selection.add("preempted", 11.0, program_arrival=9.5, preempted=True)
    assert order(selection, 12.0) == ["preempted", "retained", "old session", "new session"]
    standings = [candidate.standing for candidate in selection.candidates(12.0)]
    assert standings == [Standing.PREEMPTED, Standing.RETURNING, Standing.FIRST_COME, Standing.FIRST_COME]
    assert [c.reason for c in selection.first(12.0, 2)] == ["was preempted", "its session's blocks are retained"]
    assert [c.waited for c in selection.first(12.0, 3)] == [1.0, 1.0, 2.0]


def test_within_a_tier_the_session_that_came_first_not_the_request(selection: ProgramSelection) -> None:
    selection.add("of the newer session", 10.0, program_arrival=5.0)
    selection.add("of the older session", 20.0, program_arrival=1.0)
    assert order(selection, 20.0) == ["of the older session", "of the newer session"]


def test_ageing_lets_a_long_wait_outweigh_an_old_session() -> None:
    for ageing, first in ((0.0, "old"), (0.5, "new"), (1.0, "new")):
        selection = ProgramSelection(ageing=ageing, starvation_bound=1e6)
        selection.add("new", 50.0, program_arrival=50.0)
        selection.add("old", 120.0, program_arrival=0.0)
        assert order(selection, 120.0)[0] == first


def test_nobody_waits_beyond_the_bound_behind_those_who_come_later(selection: ProgramSelection) -> None:
    selection.add("patient", 0.0, program_arrival=0.0)
    for i in range(100):  # a stream of returning sessions that always go in front
        now = 0.5 * (i + 1)
        selection.add(f"returning {i}", now, program_arrival=-1.0, retained=True)
        first = selection.first(now)[0].request
        if first == "patient":
            assert now == 30.0
            return
        selection.remove(first)
    raise AssertionError("it starved")


def test_the_starved_go_by_their_own_arrival_and_behind_the_preempted(selection: ProgramSelection) -> None:
    selection.add("first", 0.0, program_arrival=0.0)
    selection.add("second", 1.0, program_arrival=-5.0)
    selection.add("preempted", 31.0, program_arrival=3.0, arrival=2.0, preempted=True)
    selection.add("retained", 31.0, program_arrival=3.0, retained=True)
    assert order(selection, 31.0) == ["preempted", "first", "second", "retained"]


def test_the_order_is_stable_until_somebody_starves(selection: ProgramSelection) -> None:
    assert selection.stable_until() == math.inf
    selection.add("a", 1.0, program_arrival=1.0)
    selection.add("b", 2.0, program_arrival=0.0)
    assert selection.stable_until() == 31.0
    assert order(selection, 30.9) == ["b", "a"]
    assert order(selection, 31.0) == ["a", "b"]
    assert selection.stable_until() == 32.0
    selection.remove("b")
    assert selection.stable_until() == math.inf


def test_who_is_to_be_served_in_time_is_promoted_with_all_who_came_before() -> None:
    selection = ProgramSelection(starvation_bound=200.0)
    for i, seconds in enumerate((30.0, 20.0, 10.0)):
        selection.add(i, float(i), program_arrival=-float(i), seconds=seconds)
    assert order(selection, 139.0) == [2, 1, 0]
    assert selection.stable_until() == 141.0  # later, 2 would keep 1 from its first token by 1 + 200
    assert order(selection, 141.5) == [1, 2, 0]
    assert order(selection, 142.0) == [0, 1, 2]  # 60 s of work, and 2 has its first token by 2 + 200
    assert selection.first(142.0)[0].standing is Standing.STARVED


def test_who_takes_too_long_for_those_before_it_is_tried_after_those_who_fit() -> None:
    selection = ProgramSelection(starvation_bound=200.0)
    selection.add("came first", 0.0, program_arrival=9.0, seconds=10.0)
    selection.add("long", 1.0, program_arrival=0.0, seconds=80.0)
    selection.add("short", 2.0, program_arrival=5.0, seconds=0.1)
    assert order(selection, 105.0) == ["long", "short", "came first"]
    assert selection.stable_until() == 110.0  # from then on 80 s are too many before 190
    assert order(selection, 110.5) == ["short", "long", "came first"]
    selection.remove("short")
    assert order(selection, 110.5) == ["came first", "long"]


def test_a_look_at_the_first_corrects_its_place() -> None:
    selection = ProgramSelection(starvation_bound=100.0)
    selection.add("lost its blocks", 0.0, program_arrival=5.0, seconds=0.0, retained=True)
    selection.add("old", 0.0, program_arrival=0.0, seconds=1.0)
    looked: list[Hashable] = []

    def look(request: Hashable) -> bool:
        looked.append(request)
        if request == "old":
            return False
        return selection.set_retained(request, False) | selection.reckon(request, 50.0)

    assert [candidate.request for candidate in selection.candidates(1.0, look)] == ["old", "lost its blocks"]
    assert looked == ["lost its blocks", "old"]
    assert not selection.reckon("lost its blocks", 50.0)


def test_losing_the_blocks_loses_the_place(selection: ProgramSelection) -> None:
    selection.add("a", 1.0, program_arrival=1.0, retained=True)
    selection.add("b", 1.0, program_arrival=0.0)
    assert order(selection, 1.0) == ["a", "b"]
    selection.set_retained("a", False)
    assert order(selection, 1.0) == ["b", "a"]
    selection.set_retained("a", True)
    assert order(selection, 1.0) == ["a", "b"]


def test_blocks_that_are_wanted_in_front(selection: ProgramSelection) -> None:
    assert selection.ahead(0.0) == 0.0
    for i in range(10):
        selection.add(i, float(i), program_arrival=float(i), blocks=7)
    assert selection.blocks == 70
    assert selection.ahead(-1.0) == 0.0
    assert selection.ahead(100.0) == 70.0
    assert selection.ahead(4.5) == 35.0


def test_wrong_ids_are_refused(selection: ProgramSelection) -> None:
    selection.add("a", 0.0, program_arrival=0.0)
    with pytest.raises(RequestIdError, match="'a' waits already"):
        selection.add("a", 0.0, program_arrival=0.0)
    with pytest.raises(RequestIdError, match="'b' does not wait"):
        selection.remove("b")
    with pytest.raises(RequestIdError, match="'b' does not wait"):
        selection.set_retained("b", True)
    assert len(selection) == 1


@pytest.mark.parametrize(("option", "value"), [("starvation_bound", 0.0), ("ageing", 1.5), ("ageing", float("nan"))])
def test_bad_options_are_refused(option: str, value: float) -> None:
    with pytest.raises(ConfigError, match=option):
        ProgramSelection(**{option: value})


@settings(deadline=None)
@given(st.data())
def test_the_order_is_that_of_sorting_all_anew(data: st.DataObject) -> None:
    """A sorted list that is kept up to date equals one that is made from scratch, after any events."""
    selection = ProgramSelection(starvation_bound=5.0, ageing=0.5)
    model: dict[int, dict[str, float]] = {}
    now = 0.0
    for number in range(data.draw(st.integers(1, 40))):
        now += data.draw(st.sampled_from([0.0, 0.5, 2.0]))
        if len(model) > 0 and data.draw(st.booleans()):
            request = data.draw(st.sampled_from(sorted(model)))
            if data.draw(st.booleans()):
                selection.remove(request)
                del model[request]
            else:
                retained = data.draw(st.booleans())
                selection.set_retained(request, retained)
                if model[request]["standing"] >= Standing.RETURNING:
                    model[request]["standing"] = Standing.RETURNING if retained else Standing.FIRST_COME
        else:
            arrived = data.draw(st.floats(0.0, now)) if now else 0.0
            standing = data.draw(st.sampled_from([Standing.PREEMPTED, Standing.RETURNING, Standing.FIRST_COME]))
            selection.add(
                number,
                now,
                program_arrival=arrived,
                preempted=standing is Standing.PREEMPTED,
                retained=standing is Standing.RETURNING,
            )
            model[number] = {"standing": standing, "arrival": now, "order": arrived + 0.5 * (now - arrived)}
        for waiting in model.values():
            if now - waiting["arrival"] >= 5.0 and waiting["standing"] > Standing.STARVED:
                waiting["standing"], waiting["order"] = Standing.STARVED, waiting["arrival"]
        expected = sorted(model, key=lambda r: (model[r]["standing"], model[r]["order"], r))
        assert order(selection, now) == expected
        assert selection.blocks == len(model)
