"""The life cycle through the coordinator: what each event does, and what becomes of events that are wrong."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from kvopt._core import BlockPool
from kvopt.continuum import (
    ClientRecord,
    ContinuumOptions,
    Coordinator,
    Decision,
    Footprint,
    LossOfTokens,
    NativePool,
    Standing,
    parse_record,
)
from kvopt.cost import PrefillCost, PrefillProfile, Tier, model_geometry
from kvopt.errors import ClientFieldError, ConfigError, RequestIdError
from kvopt.policies import StopReason

BLOCKS = 4


def prefill(new: int, cached: int) -> float:
    """0.1 s a block."""
    return 0.1 * new / 16


class Server:
    """A pool, a coordinator, and whole turns of sessions that each have a chain of their own."""

    def __init__(self, capacity: int = 40, budget: int = 20, **options: Any) -> None:
        self.pool = BlockPool(capacity, "priority", retention=True, lease_budget=budget)
        retained = NativePool(self.pool, lease_budget=budget, soft=True)
        self.coordinator = Coordinator(retained, prefill, ContinuumOptions(**options))
        self.now = 0.0
        self.number = 0

    def turn(
        self,
        session: str,
        stop: StopReason = StopReason.TOOL_USE,
        seconds: float = 0.0,
        blocks: int = BLOCKS,
        **record: Any,
    ) -> Decision | None:
        """One request, from its arrival to its end after `seconds`."""
        number = self.number = self.number + 1
        self.coordinator.arrival(number, self.now, ClientRecord(session_id=session, **record), blocks=blocks)
        keys = np.arange(blocks, dtype=np.uint64) + np.uint64(1000 * (1 + hash(session) % 1_000_000))
        allocation = self.pool.acquire(keys, now=self.now)
        self.pool.commit(allocation, keys[allocation.hit :], now=self.now)
        self.coordinator.scheduled(number, self.now)
        self.now += seconds
        decision = self.coordinator.finished(number, self.now, stop=stop, handle=allocation)
        self.pool.release(allocation, now=self.now)
        return decision

    def arrive_and_abort(self, session: str) -> None:
        self.coordinator.arrival("aborted", self.now, ClientRecord(session))
        self.coordinator.aborted("aborted", self.now)

    @property
    def stats(self) -> dict[str, float]:
        return self.coordinator.stats()


def test_a_tool_is_learned_and_decides_the_ttl() -> None:
    """Quick returns are held under a price that slow ones are not."""
    server = Server(leases="never")
    for i in range(300):
        server.turn(f"quick {i}", tools=("ls",))
        server.turn(f"slow {i}", tools=("build",))
        server.now += 1.0
        server.turn(f"quick {i}", StopReason.END_TURN, last_turn=True)
        if i >= 100:
            server.turn(f"slow {i - 100}", StopReason.END_TURN, last_turn=True)
    server.coordinator.arrival("waiting", server.now, blocks=20)
    for _ in range(3):  # nothing is free for a while, and one request wants blocks
        server.coordinator.demand(server.now, 0)
        server.now += 10.0
    price = server.stats["price"]
    assert price == pytest.approx(1 / 40 * (1 - math.exp(-1.0)))
    quick, slow = server.turn("a", tools=("ls",)), server.turn("b", tools=("build",))
    assert quick is not None
    assert slow is not None
    assert quick.keep
    assert not slow.keep
    assert quick.value > price > slow.value


def test_nobody_loses_a_lease_to_one_who_may_be_passed_while_others_run() -> None:
    server = Server(capacity=12, budget=8, leases="always")
    server.turn("kept")
    coordinator = server.coordinator
    assert coordinator.retention.leases == 1
    coordinator.arrival("runs", 0.0, blocks=8)
    coordinator.scheduled("runs", 0.0)
    coordinator.arrival("first", 0.0, ClientRecord(session_id="new"), blocks=12)
    assert coordinator.make_room(12, 1.0, waiting="first") == []
    assert coordinator.make_room(12, 28.0, waiting="first") == []
    coordinator.finished("runs", 28.0)
    assert coordinator.make_room(12, 28.0, waiting="first") == ["kept"]  # nothing runs: it would wait for ever


def test_who_would_miss_the_bound_is_given_room() -> None:
    server = Server(capacity=12, budget=8, leases="always", starvation_bound=30.0)
    server.turn("kept")
    coordinator = server.coordinator
    coordinator.arrival("runs", 0.0, blocks=8)
    coordinator.scheduled("runs", 0.0)
    coordinator.arrival("first", 0.0, ClientRecord(session_id="new"), blocks=12)
    assert coordinator.make_room(12, 28.7, waiting="first") == []
    assert coordinator.make_room(12, 28.9, waiting="first") == ["kept"]  # its prefill takes 1.2 s


def test_the_session_that_comes_back_to_its_blocks_goes_in_front() -> None:
    server = Server(starvation_bound=1e6)
    server.turn("old")
    server.turn("kept")
    server.coordinator.evicted("old", server.now)
    server.now += 1.0
    server.coordinator.arrival("new", server.now, ClientRecord(session_id="new"))
    server.coordinator.arrival("of old", server.now, ClientRecord(session_id="old"))
    server.coordinator.arrival("of kept", server.now, ClientRecord(session_id="kept"))
    order = [(c.request, c.standing) for c in server.coordinator.candidates(server.now)]
    assert order == [("of kept", Standing.RETURNING), ("of old", Standing.FIRST_COME), ("new", Standing.FIRST_COME)]


def test_losing_the_blocks_while_waiting_loses_the_place() -> None:
    server = Server(leases="always", ttl="fixed:seconds=100,every=1", starvation_bound=1e6)
    server.turn("first")
    server.turn("leased")
    server.coordinator.evicted("first", server.now)
    server.now += 1.0
    server.coordinator.arrival("of first", server.now, ClientRecord(session_id="first"))
    server.coordinator.arrival("of leased", server.now, ClientRecord(session_id="leased"))
    assert [c.request for c in server.coordinator.candidates(server.now)] == ["of leased", "of first"]
    assert server.coordinator.make_room(40, server.now) == ["leased"]
    assert [c.request for c in server.coordinator.candidates(server.now)] == ["of first", "of leased"]


def test_what_is_found_cached_decides_the_place() -> None:
    server = Server(starvation_bound=1e6)
    server.turn("evicted since")
    server.turn("kept")
    server.coordinator.evicted("kept", server.now)
    server.now += 1.0
    coordinator = server.coordinator
    for session in ("evicted since", "kept"):
        coordinator.arrival(session, server.now, ClientRecord(session_id=session), blocks=BLOCKS)
    assert coordinator.selection.standing("evicted since", server.now) is Standing.RETURNING
    assert coordinator.found("evicted since", server.now, 1)
    assert coordinator.found("kept", server.now, BLOCKS)
    order = [(c.request, c.standing) for c in coordinator.candidates(server.now)]
    assert order == [("kept", Standing.RETURNING), ("evicted since", Standing.FIRST_COME)]
    assert not coordinator.found("kept", server.now, BLOCKS)
    with pytest.raises(RequestIdError, match="'nobody' is unknown"):
        coordinator.found("nobody", server.now, 1)


def test_preempted_requests_go_first_and_keep_their_arrival() -> None:
    server = Server()
    server.coordinator.arrival("a", 0.0, ClientRecord(session_id="a"))
    server.coordinator.scheduled("a", 1.0)
    server.coordinator.arrival("b", 2.0)
    server.coordinator.preempted("a", 3.0)
    (first, second) = server.coordinator.candidates(4.0)
    assert (first.request, first.standing, first.waited) == ("a", Standing.PREEMPTED, 4.0)
    assert second.request == "b"


def leases(server: Server) -> int:
    return server.pool.counts()["leased"]


@pytest.mark.parametrize(
    ("what", "reason"),
    [
        (lambda s: s.turn("a"), "returned"),
        (lambda s: s.turn("a", last_turn=True), "returned"),
        (lambda s: s.coordinator.clear(s.now), "cleared"),
        (lambda s: s.coordinator.make_room(1000, s.now), "pressure"),
        (lambda s: s.coordinator.tick(s.now + 50.0), "a fixed TTL"),
        (
            lambda s: (s.coordinator.arrival("x", s.now, ClientRecord("a")), s.coordinator.aborted("x", s.now)),
            "aborted",
        ),
        (lambda s: (s.coordinator.tick(s.now + 49.0), s.coordinator.tick(s.now + 98.0)), "a fixed TTL"),
    ],
    ids=["return", "last turn", "clear", "pressure", "deadline", "abort", "late tick"],
)
def test_what_ends_a_lease(what: Callable[[Server], object], reason: str) -> None:
    server = Server(leases="always", ttl="fixed:seconds=50,every=1")
    server.turn("a")
    assert leases(server) == BLOCKS
    what(server)
    assert server.coordinator.retention.released[reason] == 1
    held_again = 0 if reason != "returned" or "a" not in server.coordinator.retention else BLOCKS
    assert leases(server) == held_again


def test_a_lease_holds_beyond_its_deadline_while_its_session_waits() -> None:
    server = Server(leases="always", ttl="fixed:seconds=5,every=1")
    server.turn("a")
    server.coordinator.arrival("x", 4.0, ClientRecord("a"))
    server.coordinator.tick(100.0)
    assert leases(server) == BLOCKS
    server.coordinator.scheduled("x", 100.0)
    assert leases(server) == 0


def test_decisions_are_taken_again_as_the_session_ages() -> None:
    """A session is held while its tool usually takes that long, and let go of when it is late."""
    server = Server(capacity=100, leases="always", pace=False)
    for i in range(300):
        server.turn(f"s{i}", tools=("t",))
        server.now += 10.0
        server.turn(f"s{i}", last_turn=True)
    server.coordinator.arrival("waiting", server.now, blocks=200)
    server.coordinator.demand(server.now, 0)
    server.now += 60.0
    server.coordinator.demand(server.now, 0)
    decision = server.turn("late", tools=("t",))
    assert decision is not None
    assert decision.keep
    held_until = None
    for second in range(1, 200):
        server.coordinator.demand(server.now, 0)
        server.now += 1.0
        server.coordinator.tick(server.now)
        if leases(server) == 0:
            held_until = second
            break
    assert held_until is not None
    assert 9 <= held_until <= 30
    assert server.stats["revised"] >= 3


def test_an_expected_gap_and_progress_sharpen_the_decision() -> None:
    server = Server(leases="never", pace=False)
    for i in range(200):  # gaps are anything from 1 to 1,000 s, and clients know how long
        gap = float(10 ** (3 * ((i * 7919) % 200) / 200))
        server.turn(f"s{i}", tools=("t",), expected_gap=gap)
        server.now += gap
        server.turn(f"s{i}", last_turn=True)
    server.coordinator.arrival("waiting", server.now, blocks=20)
    server.coordinator.demand(server.now, 0)
    server.now += 60.0
    server.coordinator.demand(server.now, 0)
    soon = server.turn("soon", tools=("t",), expected_gap=2.0)
    late = server.turn("late", tools=("t",), expected_gap=500.0)
    assert soon is not None
    assert late is not None
    assert soon.keep
    assert not late.keep
    assert soon.value > 20 * late.value
    # News while it is idle count as well: most of its work is left, so it is not worth it any longer.
    server.coordinator.expect("soon", server.now + 1.0, progress=0.002)
    assert "soon" not in server.coordinator.retention


def test_a_client_that_asks_for_a_ttl_gets_it() -> None:
    server = Server(ttl="fixed:seconds=0,every=1")
    assert server.turn("plain") == server.turn("plain 2")
    decision = server.turn("asks", ttl=30.0)
    assert decision is not None
    assert (decision.keep, decision.ttl, decision.reasons[0]) == (True, 30.0, "the client asked for it")
    server.now += 10.0
    server.coordinator.tick(server.now)
    assert "asks" in server.coordinator.retention
    server.now += 20.0
    server.coordinator.tick(server.now)
    assert "asks" not in server.coordinator.retention


def test_parallel_tools_are_one_gap_that_is_the_longest() -> None:
    server = Server(pace=False, leases="never")
    for i in range(200):
        server.turn(f"a{i}", tools=("quick",))
        server.now += 1.0
        server.turn(f"a{i}", last_turn=True)
        server.turn(f"b{i}", tools=("slow",))
        server.now += 30.0
        server.turn(f"b{i}", last_turn=True)
    history = server.coordinator.appraisal.gaps.history
    server.turn("both", tools=("quick", "slow"))
    median = history.quantile(("tool_use", "quick+slow"), 0.5, server.now)
    assert median == pytest.approx(30.0, rel=0.2)


def test_a_session_with_two_requests_at_once_is_idle_after_the_last() -> None:
    server = Server(leases="always", ttl="fixed:seconds=50,every=1")
    record = ClientRecord("a")
    for request in ("one", "two"):
        server.coordinator.arrival(request, 0.0, record)
        server.coordinator.scheduled(request, 0.0)
    assert server.coordinator.finished("one", 1.0) is None
    decision = server.coordinator.finished("two", 9.0)
    assert decision is not None
    assert decision.keep
    server.coordinator.arrival("three", 12.0, record)
    gaps = server.coordinator.appraisal.gaps.history
    assert gaps.weight(()) == 1.0
    assert gaps.quantile((), 0.9, 12.0) >= 3.0


def test_what_the_first_request_hits_is_shared_and_not_charged_to_the_session() -> None:
    server = Server(leases="never")
    coordinator = server.coordinator
    for hit, own in ((0, 10), (7, 3)):
        coordinator.arrival(hit, 0.0, ClientRecord(f"s{hit}"), blocks=10)
        coordinator.hit(hit, 0.0, hit)
        coordinator.scheduled(hit, 0.0)
        decision = coordinator.finished(hit, 1.0)
        assert decision is not None
        assert decision.numbers["blocks"] == own


@pytest.mark.parametrize(("hit", "waited"), [(0, 5.0), (1, 5.0), (2, 0.0), (4, 0.0)])
def test_only_who_lost_most_of_its_blocks_counts_as_evicted_in_the_papers_wait(hit: int, waited: float) -> None:
    server = Server(ttl="paper")
    server.turn("a")
    server.coordinator.arrival("x", 10.0, ClientRecord("a"), blocks=BLOCKS)
    server.coordinator.hit("x", 15.0, hit)
    server.coordinator.scheduled("x", 15.0)
    decision = server.coordinator.finished("x", 15.0)
    assert decision is not None
    assert decision.numbers["wait"] == waited


def test_requests_without_a_session_are_not_mixed_up() -> None:
    server = Server()
    for request in range(5):
        server.coordinator.arrival(request, 0.0)
        server.coordinator.scheduled(request, 0.0)
        assert server.coordinator.finished(request, 1.0) is None
    assert server.stats["sessions"] == 0
    assert server.stats["protected"] == 0


def test_a_session_id_that_is_used_again_after_its_last_turn_is_a_new_session() -> None:
    server = Server()
    server.turn("a")
    server.now = 100.0
    server.turn("a", last_turn=True)
    assert server.stats["sessions"] == 0
    server.now = 200.0
    server.turn("a")
    assert server.stats["sessions"] == 1
    assert server.coordinator.appraisal.gaps.history.weight(()) == pytest.approx(1.0, rel=0.01)  # not one of 100 s
    server.coordinator.arrival("x", 201.0, ClientRecord("a"))
    server.coordinator.arrival("y", 201.0, ClientRecord("b"))
    server.coordinator.clear(201.0)
    assert [c.request for c in server.coordinator.candidates(201.0)] == ["x", "y"]


def test_sessions_that_stay_away_are_forgotten_and_counted_as_lost_from_sight() -> None:
    server = Server(forget_after=100.0, most_sessions=50)
    for i in range(40):
        server.turn(f"s{i}")
        server.now += 1.0
    assert server.stats["sessions"] == 40
    server.now += 95.0
    server.turn("new")
    assert server.stats["forgotten"] == pytest.approx(35, abs=2)
    for i in range(200):
        server.turn(f"t{i}")
    assert server.stats["sessions"] <= 50
    history = server.coordinator.appraisal.gaps.history
    assert history.within((), 50.0, 0.0, server.now) < 0.5
    assert history.running(()) == server.stats["idle"]


def test_deadlines_that_no_longer_stand_are_dropped_before_they_are_due() -> None:
    server = Server(leases="never", most_sessions=100)
    for _ in range(40):
        for i in range(200):  # half of them are forgotten again before their deadline
            server.turn(f"s{i}")
            server.now += 0.001
        assert len(server.coordinator._idle._deadlines) <= 1025
    server.coordinator.tick(server.now + 3000.0)
    assert server.stats["revised"] <= 100


def test_a_reload_counts_where_it_is_quicker_than_the_prefill() -> None:
    model, cost = model_geometry("llama-3.1-8b"), PrefillCost(10.0, 0.1, 0.0, 1e-6)
    plain = Coordinator(NativePool(BlockPool(40)), LossOfTokens(cost))
    assert plain.appraisal.loss(1000, 500) == pytest.approx(cost.prefill_ms(16_000, 8_000) / 1000)
    assert plain.appraisal.loss(0, 10) == 0.0
    quick = LossOfTokens(cost, tier=Tier("cpu", 50e9, 1e-3), model=model)
    assert quick(16_000, 8_000) == pytest.approx(0.001 + 16_000 * 131_072 / 50e9)
    slow = LossOfTokens(cost, tier=Tier("disk", 50e6), model=model)
    assert slow(16_000, 8_000) == plain.appraisal.loss(1000, 500)
    with pytest.raises(ConfigError, match="tier cpu: name the model"):
        LossOfTokens(cost, tier=Tier("cpu", 50e9))


def test_a_profile_that_learns_changes_what_a_loss_costs() -> None:
    profile = PrefillProfile(PrefillCost(10.0, 0.1, 0.0, 0.0))
    loss = LossOfTokens(profile)
    before = loss(4000, 0)
    for i in range(200):
        new = 100 + 37 * i % 4000
        profile.observe(new, 0, 2.0 * (10.0 + 0.1 * new))
    assert loss(4000, 0) == pytest.approx(2.0 * before, rel=0.05)


def test_a_clock_that_goes_back_stands_still() -> None:
    server = Server()
    server.turn("a")
    server.coordinator.arrival("x", 50.0, ClientRecord("a"))
    server.coordinator.arrival("y", 20.0, ClientRecord("a"))
    server.coordinator.tick(10.0)
    assert [c.waited for c in server.coordinator.candidates(30.0)] == [0.0, 0.0]
    assert server.stats["clock_went_back"] == 3


@pytest.mark.parametrize("now", [math.nan, math.inf, -math.inf, "1", None])
@pytest.mark.parametrize(
    "event",
    [
        lambda c, now: c.arrival("new", now),
        lambda c, now: c.hit("waits", now, 1),
        lambda c, now: c.scheduled("waits", now),
        lambda c, now: c.preempted("runs", now),
        lambda c, now: c.finished("runs", now),
        lambda c, now: c.aborted("runs", now),
        lambda c, now: c.evicted("s", now),
        lambda c, now: c.expect("s", now, gap=1.0),
        lambda c, now: c.demand(now, 3),
        lambda c, now: list(c.candidates(now)),
        lambda c, now: c.make_room(3, now),
        lambda c, now: c.clear(now),
    ],
    ids=lambda _: "event",
)
def test_a_time_that_is_none_changes_nothing(event: Callable[[Coordinator, Any], object], now: Any) -> None:
    server = Server()
    coordinator = server.coordinator
    server.turn("s")
    coordinator.arrival("waits", 1.0)
    coordinator.arrival("runs", 1.0, ClientRecord("r"))
    coordinator.scheduled("runs", 1.0)
    before = server.stats
    with pytest.raises(ConfigError, match="now: "):
        event(coordinator, now)
    assert server.stats == before
    coordinator.finished("runs", 2.0)
    coordinator.scheduled("waits", 2.0)


@pytest.mark.parametrize(
    ("event", "error", "message"),
    [
        (lambda c: c.arrival("waits", 1.0), RequestIdError, "'waits' is in use"),
        (lambda c: c.arrival("new", 1.0, blocks=-1), ConfigError, "blocks: -1; it must be a whole number"),
        (lambda c: c.arrival("new", 1.0, blocks=1.5), ConfigError, r"blocks: 1\.5"),
        (lambda c: c.scheduled("runs", 1.0), RequestIdError, "'runs' runs; this event is for one that waits"),
        (lambda c: c.scheduled("new", 1.0), RequestIdError, "'new' is unknown"),
        (lambda c: c.hit("runs", 1.0, 1), RequestIdError, "'runs' runs"),
        (lambda c: c.hit("waits", 1.0, -1), ConfigError, "blocks: -1"),
        (lambda c: c.preempted("waits", 1.0), RequestIdError, "'waits' waits; this event is for one that runs"),
        (lambda c: c.finished("waits", 1.0), RequestIdError, "'waits' waits"),
        (lambda c: c.finished("runs", 1.0, footprint=Footprint(2, 3)), ConfigError, "shared: 3; it must be at most 2"),
        (lambda c: c.finished("runs", 1.0, footprint=Footprint(-1)), ConfigError, "footprint.blocks: -1"),
        (lambda c: c.aborted("new", 1.0), RequestIdError, "'new' is unknown"),
        (lambda c: c.demand(1.0, None), ConfigError, "available: None"),
        (lambda c: c.make_room(True, 1.0), ConfigError, "blocks: True"),
        (lambda c: c.expect("s", 1.0, gap=math.nan), ClientFieldError, "expected_gap: nan"),
        (lambda c: c.expect("s", 1.0, gap=1e9), ClientFieldError, "expected_gap: 1000000000.0"),
        (lambda c: c.expect("s", 1.0, progress=0.0), ClientFieldError, "progress: 0"),
        (lambda c: c.expect("s", 1.0, progress="half"), ClientFieldError, "progress: 'half'"),
    ],
)
def test_a_wrong_event_is_refused_and_changes_nothing(
    event: Callable[[Coordinator], object], error: type[Exception], message: str
) -> None:
    server = Server()
    coordinator = server.coordinator
    coordinator.arrival("waits", 0.5)
    coordinator.arrival("runs", 0.5, ClientRecord("r"))
    coordinator.scheduled("runs", 0.5)
    before = server.stats
    with pytest.raises(error, match=message):
        event(coordinator)
    assert server.stats == before
    assert coordinator.finished("runs", 2.0) is not None
    coordinator.scheduled("waits", 2.0)


def test_news_of_a_session_that_is_unknown_or_busy_is_no_news() -> None:
    server = Server()
    server.coordinator.arrival("x", 0.0, ClientRecord("busy"))
    server.coordinator.expect("busy", 0.0, gap=5.0)
    server.coordinator.expect("unknown", 0.0, progress=0.5)
    server.coordinator.evicted("unknown", 0.0)
    assert server.stats["protected"] == 0


def test_numbers_of_numpy_are_numbers() -> None:
    server = Server()
    server.coordinator.arrival("x", np.float64(1.0), ClientRecord("a"), blocks=np.int64(3))  # type: ignore[arg-type]
    server.coordinator.scheduled("x", np.float32(1.5))  # type: ignore[arg-type]
    assert server.coordinator.finished("x", 2) is not None


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"ttl": "indx"}, "unknown TTL rule 'indx'"),
        ({"leases": True}, "leases: True; it must be 'never', 'scarce' or 'always'"),
        ({"block_tokens": 0}, "block_tokens: 0; it must be a whole number from 1"),
        ({"most_sessions": 2.5}, r"most_sessions: 2\.5"),
        ({"forget_after": math.nan}, "forget_after: nan; it must be a number of seconds above 0"),
        ({"time_constant": 0.0}, r"time_constant: 0\.0"),
        ({"longest_hold": -1.0}, r"longest_hold: -1\.0"),
        ({"ageing": 2.0}, r"ageing: 2\.0"),
        ({"shrinkage": -1.0}, r"shrinkage: -1\.0"),
    ],
)
def test_bad_options_are_refused(options: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        Server(**options)


def test_a_parsed_record_drives_a_whole_session() -> None:
    server = Server()
    fields = {"job_id": 3, "this_func_call": "bash", "is_last_step": False, "priority": 90}
    record = parse_record(fields)
    coordinator = server.coordinator
    keys = np.arange(4, dtype=np.uint64)
    coordinator.arrival("r", 0.0, record, blocks=4)
    allocation = server.pool.acquire(keys, now=0.0)
    server.pool.commit(allocation, keys, now=0.0)
    coordinator.scheduled("r", 0.0)
    assert coordinator.finished("r", 1.0, stop=StopReason.TOOL_USE, handle=allocation) is not None
    server.pool.release(allocation, now=1.0)
    runs = server.pool.runs
    assert runs.priority[np.flatnonzero(runs.live)].tolist() == [90]
