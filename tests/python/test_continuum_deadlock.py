"""No deadlock: with leases at the budget, pools of a few blocks and aborts at every point, every request ends."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kvopt._core import Allocation, BlockPool
from kvopt.continuum import ClientRecord, ContinuumOptions, Coordinator, NativePool
from kvopt.errors import NotEnoughBlocksError
from kvopt.policies import StopReason

STEPS = 400


@dataclass(slots=True)
class Plan:
    """One request: when it arrives, what it needs, and when its client gives up (in steps; never when it is high)."""

    step: int
    session: int
    prompt: int
    answer: int
    abort_at: int
    last: bool


@dataclass(slots=True)
class Running:
    plan: Plan
    allocation: Allocation
    left: int


@dataclass
class Engine:
    """A server as small as can be: admission in the coordinator's order, growth, preemption of the youngest.

    Nothing is refused but what is larger than the whole pool.
    """

    plans: list[Plan]
    capacity: int
    budget: int
    rule: str
    leases: str
    pool: BlockPool = field(init=False)
    ended: dict[int, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.pool = BlockPool(self.capacity, "priority", retention=True, lease_budget=self.budget)
        retained = NativePool(self.pool, lease_budget=self.budget, soft=True)
        options = ContinuumOptions(ttl=self.rule, leases=self.leases, starvation_bound=5.0)  # type: ignore[arg-type]
        self.coordinator = Coordinator(retained, lambda new, cached: 0.1 * new, options)
        self.running: dict[int, Running] = {}
        self.waiting: set[int] = set()

    def run(self) -> int:
        """Steps until all have ended; raises AssertionError when they do not."""
        for step in range(STEPS):
            now = float(step)
            self.coordinator.tick(now)
            self.abort(step, now)
            self.arrive(step, now)
            self.grow(now)
            self.admit(now)
            counts = self.pool.counts()
            self.coordinator.demand(now, counts["empty"] + counts["evictable"])
            assert counts["leased"] <= self.budget
            if len(self.ended) == len(self.plans):
                return step
        raise AssertionError(f"{len(self.plans) - len(self.ended)} requests never ended; {self.coordinator.stats()}")

    def abort(self, step: int, now: float) -> None:
        for number, plan in enumerate(self.plans):
            if plan.abort_at == step and (number in self.running or number in self.waiting):
                self.coordinator.aborted(number, now)
                self.ended[number] = "aborted"
                self.waiting.discard(number)
                if number in self.running:
                    self.pool.release(self.running.pop(number).allocation, now=now)

    def arrive(self, step: int, now: float) -> None:
        for number, plan in enumerate(self.plans):
            if plan.step != step:
                continue
            if plan.prompt + plan.answer > self.capacity:
                self.ended[number] = "refused"
                continue
            record = ClientRecord(session_id=str(plan.session), last_turn=plan.last)
            self.coordinator.arrival(number, now, record, blocks=plan.prompt)
            self.waiting.add(number)

    def grow(self, now: float) -> None:
        for number in sorted(self.running):
            entry = self.running.get(number)
            if entry is None:
                continue
            if entry.left == 0:
                self.coordinator.finished(number, now, stop=StopReason.TOOL_USE, handle=entry.allocation)
                self.pool.release(entry.allocation, now=now)
                del self.running[number]
                self.ended[number] = "finished"
                continue
            while number in self.running:
                try:
                    self.pool.extend(entry.allocation, 1, now=now)
                except NotEnoughBlocksError:
                    if not self.coordinator.make_room(1, now):
                        self.preempt(max(self.running), now)
                else:
                    entry.left -= 1
                    break

    def preempt(self, number: int, now: float) -> None:
        self.pool.release(self.running.pop(number).allocation, now=now)
        self.coordinator.preempted(number, now)
        self.waiting.add(number)

    def admit(self, now: float) -> None:
        for candidate in list(self.coordinator.candidates(now)):
            number = candidate.request
            assert isinstance(number, int)
            plan = self.plans[number]
            keys = np.arange(plan.prompt, dtype=np.uint64) + np.uint64(1000 * plan.session)
            try:
                allocation = self.pool.acquire(keys, now=now)
            except NotEnoughBlocksError:
                # The first who waits is not refused for the sake of idle sessions' blocks.
                if not self.coordinator.make_room(plan.prompt, now):
                    return
                try:
                    allocation = self.pool.acquire(keys, now=now)
                except NotEnoughBlocksError:
                    return
            self.pool.commit(allocation, keys[allocation.hit :], now=now)
            self.coordinator.scheduled(number, now)
            self.waiting.discard(number)
            self.running[number] = Running(plan, allocation, plan.answer)


plans = st.builds(
    Plan,
    step=st.integers(0, 30),
    session=st.integers(0, 4),
    prompt=st.integers(1, 7),
    answer=st.integers(0, 4),
    abort_at=st.just(10**6) | st.integers(0, 60),
    last=st.booleans(),
)


@settings(deadline=None, max_examples=150)
@given(
    st.lists(plans, min_size=1, max_size=14),
    st.integers(2, 9),
    st.sampled_from(["fixed:seconds=1e6,every=1", "index", "expected-hold", "paper", "infercept"]),
    st.sampled_from(["always", "scarce"]),
)
def test_every_request_finishes_is_refused_or_was_aborted(
    requests: list[Plan], capacity: int, rule: str, leases: str
) -> None:
    engine = Engine(requests, capacity, capacity - 1, rule, leases)
    engine.run()
    assert engine.pool.verify() == []
    assert engine.pool.counts()["referenced"] == 0
    stats = engine.coordinator.stats()
    assert stats["waiting"] == 0
    assert engine.coordinator.appraisal.running_blocks == 0
    for number, how in engine.ended.items():
        plan = requests[number]
        assert how != "aborted" or plan.abort_at < STEPS
        assert (how == "refused") == (plan.prompt + plan.answer > capacity)


@pytest.mark.parametrize("abort_at", range(12))
@pytest.mark.parametrize("rule", ["fixed:seconds=1e6,every=1", "index"])
def test_an_abort_at_any_point_leaves_nothing_behind(abort_at: int, rule: str) -> None:
    """Three sessions on a pool that holds little more than one; the second of them gives up at each step in turn."""
    requests = [
        Plan(s + 4 * turn, s, 4, 2, abort_at if s == 1 else 10**6, turn == 2) for turn in range(3) for s in range(3)
    ]
    engine = Engine(requests, 7, 6, rule, "always")
    engine.run()
    engine.coordinator.clear(1000.0)
    counts = engine.pool.counts()
    assert counts["referenced"] == counts["leased"] == 0
    assert engine.coordinator.stats()["charged_blocks"] == 0


def test_a_lease_of_an_idle_session_never_makes_a_running_request_wait() -> None:
    """All blocks but one are leased for ever; who comes next is served at once all the same."""
    requests = [Plan(0, 0, 6, 0, 10**6, False), Plan(5, 1, 6, 0, 10**6, True)]
    engine = Engine(requests, 7, 6, "fixed:seconds=1e6,every=1", "always")
    assert engine.run() <= 7
    assert engine.coordinator.retention.released["pressure"] == 1
