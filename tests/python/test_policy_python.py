"""A policy written in Python: what happens when it keeps its duties, and when it does not."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest

from kvopt._core import PrefixTrace, PrefixTraceBuilder
from kvopt._core import replay as replay_natively
from kvopt.cache import Allocation, BlockPool
from kvopt.errors import ConfigError, NotEnoughBlocksError, PolicyError
from kvopt.policies import DummyPolicy, Policy, RankingPolicy, RequestInfo
from kvopt.policies.base import RunIds


def keys(*numbers: int) -> np.ndarray[Any, np.dtype[np.uint64]]:
    return np.array(numbers, dtype=np.uint64)


def hold(pool: BlockPool, *numbers: int, now: float = 0.0) -> Allocation:
    allocation = pool.acquire(keys(*numbers), now=now)
    pool.commit(allocation, keys(*numbers[allocation.hit :]), now=now)
    return allocation


def store(pool: BlockPool, *numbers: int, now: float = 0.0) -> None:
    pool.release(hold(pool, *numbers, now=now), now=now)


class LruInPython(RankingPolicy):
    def rank(self, run: int, now: float) -> float:
        return float(self.runs.last_use[run])


class Answering(LruInPython):
    """Answers choose() as it is told to, else as LRU does."""

    def __init__(self) -> None:
        self.answers: list[Any] = []

    def choose(self, wanted: int, now: float) -> Any:
        if not self.answers:
            return super().choose(wanted, now)
        answer = self.answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer


class Failing(LruInPython):
    """Raises in one hook, once it is told to."""

    def __init__(self, hook: str) -> None:
        self.hook, self.armed = hook, False

    def fail(self, hook: str) -> None:
        if self.armed and hook == self.hook:
            raise RuntimeError(f"no {hook} today")

    def on_hit(self, hit: RunIds, info: RequestInfo) -> None:
        self.fail("on_hit")

    def on_stored(self, stored: RunIds, info: RequestInfo) -> None:
        self.fail("on_stored")

    def on_split(self, head: int, tail: int) -> None:
        self.fail("on_split")

    def on_referenced(self, runs: RunIds) -> None:
        super().on_referenced(runs)
        self.fail("on_referenced")

    def on_evictable(self, runs: RunIds, info: RequestInfo) -> None:
        super().on_evictable(runs, info)
        self.fail("on_evictable")

    def on_trimmed(self, run: int) -> None:
        self.fail("on_trimmed")


class Tree:
    """A pool of eight: 1 2 held up to 1 2, behind it 3 4 and 5 6 (evictable leaves); two blocks of 7 8, evictable."""

    def __init__(self) -> None:
        self.policy = Answering()
        self.pool = BlockPool(8, self.policy)
        self.held = hold(self.pool, 1, 2, now=1.0)
        store(self.pool, 1, 2, 3, 4, now=2.0)
        store(self.pool, 1, 2, 5, 6, now=3.0)
        store(self.pool, 7, now=4.0)
        store(self.pool, 7, 8, now=5.0)

    def run_of(self, parent: int | None, length: int, last_use: float) -> int:
        """The run with this state."""
        runs, none = self.pool.runs, 2**32 - 1
        fits = runs.live & (runs.parent == (none if parent is None else parent))[: runs.used]
        fits &= (runs.length[: runs.used] == length) & (runs.last_use[: runs.used] == last_use)
        (run,) = np.flatnonzero(fits)
        return int(run)

    def state(self) -> tuple[object, ...]:
        prefixes = ((1, 2, 3, 4), (1, 2, 5, 6), (7, 8))
        return self.pool.stats(), [self.pool.match(keys(*prefix)) for prefix in prefixes], self.pool.verify()


@pytest.mark.parametrize(
    ("answer", "message"),
    [
        (RuntimeError("no idea"), r"Answering\.choose raised RuntimeError: no idea"),
        ("held", "chose run .*, which is held by a request or a lease"),
        ("interior", "chose run .*, which has cached children"),
        (99, "chose run 99, which is outside the table"),
        (-1, r"Answering\.choose returned -1; it must return a run id, or a sequence of at least one"),
        (2**32 - 1, "choose returned 4294967295; it must return a run id"),
        (2**70, "choose returned 1180591620717411303424; it must return a run id"),
        ([0, -1], r"choose returned \[0, -1\]; it must return a run id"),
        ("twice", "chose run .*, which was chosen just before"),
        ([], r"choose returned \[\]; it must return a run id"),
        (None, "choose returned None; it must return a run id"),
        (1.5, "choose returned 1.5; it must return a run id"),
        ([1.5], r"choose returned \[1.5\]; it must return a run id"),
        (["a"], r"choose returned \['a'\]; it must return a run id"),
        ([[1]], r"choose returned \[\[1\]\]; it must return a run id"),
        ({1}, r"choose returned \{1\}; it must return a run id"),
        ([-1] * 99, r"choose returned \[(-1, )+-?1?, ?\.\.\.; it must return a run id"),
    ],
    ids=repr,
)
@pytest.mark.parametrize("first", ["", "after a victim"])
@pytest.mark.parametrize("call", ["evict", "acquire", "extend"])
def test_a_wrong_choice_is_an_error_and_nothing_is_evicted(answer: Any, message: str, first: str, call: str) -> None:
    tree = Tree()
    oldest = tree.run_of(tree.run_of(None, 2, 3.0), 2, 2.0)
    interior = tree.run_of(None, 1, 5.0)
    named = {"held": tree.run_of(None, 2, 3.0), "interior": interior, "twice": oldest}
    good = [oldest] if first or answer == "twice" else []
    tree.policy.answers = [*good, named.get(answer, answer) if isinstance(answer, str) else answer]
    before = tree.state()
    calls: dict[str, Callable[[], object]] = {
        "evict": lambda: tree.pool.evict(5, now=6.0),
        "acquire": lambda: tree.pool.acquire(keys(21, 22, 23, 24, 25), now=6.0),
        "extend": lambda: tree.pool.extend(tree.held, 5, now=6.0),
    }
    with pytest.raises(PolicyError, match=message):
        calls[call]()
    assert tree.state() == before
    assert len(tree.held) == 2
    # The pool works on: all six blocks that are evictable can be had, leaf first.
    assert len(tree.pool.evict(6, now=7.0)) == 6
    assert tree.pool.verify() == []


def test_a_request_whose_room_is_refused_leaves_no_trace_of_its_hit() -> None:
    tree = Tree()
    tree.policy.answers = [RuntimeError("no idea")]
    before = tree.state()
    hits = tree.pool.runs.hits.copy()
    with pytest.raises(PolicyError):
        tree.pool.acquire(keys(7, 8, 30), now=6.0)
    assert tree.state() == before
    assert (tree.pool.runs.hits == hits).all()


@pytest.mark.parametrize("as_type", [list, tuple, np.array, lambda runs: np.array(runs, np.uint32)])
def test_several_victims_may_be_named_at_once(as_type: Any) -> None:
    tree = Tree()
    head = tree.run_of(None, 2, 3.0)
    runs = [tree.run_of(head, 2, 3.0), tree.run_of(head, 2, 2.0)]
    tree.policy.answers = [as_type(runs)]
    tree.pool.evict(3, now=6.0)
    assert tree.pool.match(keys(1, 2, 5, 6)) == 2
    assert tree.pool.match(keys(1, 2, 3, 4)) == 3
    assert tree.policy.answers == []


@pytest.mark.parametrize("kind", [int, np.int64, np.uint32])
def test_a_victim_is_named_by_any_kind_of_integer(kind: type) -> None:
    tree = Tree()
    tree.policy.answers = [kind(tree.run_of(tree.run_of(None, 2, 3.0), 2, 3.0))]
    tree.pool.evict(2, now=6.0)
    assert tree.pool.match(keys(1, 2, 5, 6)) == 2


def test_what_was_named_and_not_needed_is_void_in_the_next_operation() -> None:
    tree = Tree()
    head = tree.run_of(None, 2, 3.0)
    old, young = tree.run_of(head, 2, 2.0), tree.run_of(head, 2, 3.0)
    tree.policy.answers = [[young, old]]
    tree.pool.evict(2, now=6.0)
    again = tree.pool.acquire(keys(1, 2, 3, 4), now=7.0)  # the run that was left over is held now
    tree.pool.evict(1, now=8.0)
    assert tree.pool.match(keys(7, 8)) == 1
    tree.pool.release(again, now=9.0)


@pytest.mark.parametrize("hook", ["on_hit", "on_stored", "on_split", "on_referenced", "on_evictable", "on_trimmed"])
def test_a_hook_that_raises_stops_the_next_operation_that_takes_room(hook: str) -> None:
    policy = Failing(hook)
    pool = BlockPool(8, policy)
    store(pool, 1, 2, 3, 4)
    policy.armed = True
    held = hold(pool, 1, 2, 5) if hook != "on_trimmed" else hold(pool, 11, 12, 13, 14, 15)  # what is under way is done
    policy.armed = False
    if hook == "on_evictable":
        policy.armed = True
    pool.release(held, now=0.0)
    counts = pool.counts()
    for call in (
        lambda: pool.acquire(keys(9), now=0.0),
        lambda: pool.evict(1, now=0.0),
    ):
        with pytest.raises(PolicyError, match=rf"Failing\.{hook} raised RuntimeError: no {hook} today"):
            call()
    assert pool.counts() == counts
    assert pool.verify() == []
    pool.clear()
    assert pool.counts()["empty"] == 8


def test_a_policy_that_cannot_attach_makes_no_pool() -> None:
    class Unready(DummyPolicy):
        def attach(self, runs: Any) -> None:
            raise RuntimeError("not ready")

    with pytest.raises(PolicyError, match=r"Unready\.attach raised RuntimeError: not ready"):
        BlockPool(8, Unready())


def test_a_rank_that_is_not_a_number_is_an_error() -> None:
    class Unknown(RankingPolicy):
        def rank(self, run: int, now: float) -> float:
            return float("nan")

    pool = BlockPool(2, Unknown())
    store(pool, 1, 2)
    with pytest.raises(PolicyError, match="is NaN"):
        pool.acquire(keys(3), now=0.0)


def test_a_policy_object_serves_one_pool() -> None:
    policy = DummyPolicy()
    with pytest.raises(ConfigError, match="capacity is 0"):
        BlockPool(0, policy)
    BlockPool(8, policy)  # refused options had not used it up
    with pytest.raises(ConfigError, match="serves a pool already; make a new one"):
        BlockPool(8, policy)


def test_a_policy_that_honours_priority_is_told_of_it() -> None:
    class Told(DummyPolicy):
        honours_priority = True

        def __init__(self) -> None:
            super().__init__()
            self.told: list[int] = []

        def on_priority(self, run: int) -> None:
            self.told.append(int(self.runs.priority[run]))

    policy = Told()
    pool = BlockPool(8, policy, retention=True)
    allocation = hold(pool, 1, 2)
    pool.retain(allocation, 0, 2, priority=80, duration=5.0, now=0.0)
    pool.expire(5.0)
    assert policy.told == [80, 35]


def test_hooks_see_runs_the_deepest_first_and_what_the_server_knows() -> None:
    class Watching(DummyPolicy):
        def __init__(self) -> None:
            super().__init__()
            self.seen: list[tuple[str, list[int], int]] = []

        def depths(self, runs: RunIds) -> list[int]:
            assert runs.dtype == np.uint32
            return [int(self.runs.depth[run]) for run in runs]

        def on_hit(self, hit: RunIds, info: RequestInfo) -> None:
            self.seen.append(("hit", self.depths(hit), info.session))

        def on_stored(self, stored: RunIds, info: RequestInfo) -> None:
            self.seen.append(("stored", self.depths(stored), info.session))

        def on_evictable(self, runs: RunIds, info: RequestInfo) -> None:
            super().on_evictable(runs, info)
            self.seen.append(("evictable", self.depths(runs), info.session))

    policy = Watching()
    pool = BlockPool(8, policy)
    for session, numbers in enumerate([(1, 2, 3), (1, 2, 4)]):
        info = RequestInfo(now=1.0, session=session)
        allocation = pool.acquire(keys(*numbers), now=info)
        pool.commit(allocation, keys(*numbers[allocation.hit :]), now=info)
        pool.release(allocation, now=info)
    assert policy.seen == [
        ("stored", [0], 0), ("evictable", [0], 0), ("hit", [0], 1), ("stored", [2], 1), ("evictable", [2, 0], 1),
    ]  # fmt: skip


@pytest.mark.parametrize("policy", [DummyPolicy, LruInPython])
def test_blocks_of_a_flat_pool_are_all_leaves(policy: type[Policy]) -> None:
    pool = BlockPool(6, policy(), rule="flat")
    store(pool, 1, 2, 3, 4, 5, 6)
    assert len(pool.evict(4, now=1.0)) == 4
    assert len(pool.acquire(keys(11, 12, 13, 14, 15, 16), now=2.0)) == 6
    with pytest.raises(NotEnoughBlocksError):
        pool.evict(1, now=3.0)


def conversations(sessions: int, turns: int) -> PrefixTrace:
    """Sessions that take turns, each turn longer than the one before, half of them behind a shared prompt."""
    random = np.random.default_rng(5)
    builder = PrefixTraceBuilder()
    turn = [0] * sessions
    for session in random.integers(0, sessions, sessions * turns).tolist():
        turn[session] += 1
        shared: Sequence[int] = range(10 * (session % 2))
        own = range(1000 * (session + 1), 1000 * (session + 1) + 4 * turn[session])
        builder.append(np.array([*shared, *own], np.uint64))
    return builder.finish()


@pytest.mark.parametrize("capacity", [60, 150, 400])
def test_lru_in_python_equals_the_native_one(capacity: int) -> None:
    prefix = conversations(20, 8)
    times = np.arange(prefix.requests, dtype=np.float64)
    native = replay_natively(prefix, times, "lru", capacity)
    python = replay_natively(prefix, times, LruInPython(), capacity)
    assert python.hit_blocks.tolist() == native.hit_blocks.tolist()
    assert python.evictions == native.evictions
    assert native.hit_blocks.any()
    assert native.evictions > 0
