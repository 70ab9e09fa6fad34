"""Retention as TensorRT-LLM has it: priorities 0 to 100 on ranges of blocks, for a while; a bias, not a lock."""

from __future__ import annotations

import numpy as np
import pytest

from kvopt.cache import Allocation, BlockPool

DEFAULT = 35


class Server:
    """A pool of six blocks and requests of two, each released as soon as it is stored."""

    def __init__(self) -> None:
        self.pool = BlockPool(6, "priority:requeue=0", retention=True)
        self.now = 0.0

    def hold(self, *numbers: int) -> Allocation:
        allocation = self.pool.acquire(np.array(numbers, np.uint64), now=self.now)
        self.pool.commit(allocation, np.array(numbers[allocation.hit :], np.uint64), now=self.now)
        return allocation

    def serve(
        self, *numbers: int, priority: int | None = None, duration: float = np.inf, lifetime: str = "fixed"
    ) -> None:
        allocation = self.hold(*numbers)
        if priority is not None:
            self.retain(allocation, 0, len(numbers), priority, duration, lifetime)
        self.pool.release(allocation, now=self.now)
        self.now += 1

    def retain(
        self,
        allocation: Allocation,
        first: int,
        n: int,
        priority: int,
        duration: float = np.inf,
        lifetime: str = "fixed",
    ) -> None:
        assert lifetime in {"fixed", "refresh"}
        self.pool.retain(
            allocation,
            first,
            n,
            priority=priority,
            duration=duration,
            lifetime="refresh" if lifetime == "refresh" else "fixed",
            now=self.now,
        )

    def priorities(self) -> dict[int, int]:
        """Priority of every cached run, by its depth; one chain only."""
        runs = self.pool.runs
        return {int(runs.depth[r]): int(runs.priority[r]) for r in np.flatnonzero(runs.live)}

    def order(self) -> list[int]:
        """Which of the chains 10 11, 20 21 and 30 31 lose a block, one eviction after another."""

        def left() -> dict[int, int]:
            return {first: self.pool.match(np.array([first, first + 1], np.uint64)) for first in (10, 20, 30)}

        lost, before = [], left()
        while self.pool.counts()["evictable"]:
            self.pool.evict(1, now=self.now)
            after = left()
            lost += [first for first in after if after[first] < before[first]]
            before = after
        return lost


@pytest.fixture
def server() -> Server:
    return Server()


def test_the_lowest_priority_goes_first_then_the_oldest_then_the_deepest(server: Server) -> None:
    server.serve(10, 11, priority=80)
    server.serve(20, 21)
    server.serve(30, 31, priority=10)
    assert server.order() == [30, 30, 20, 20, 10, 10]


def test_a_high_priority_does_not_keep_a_request_from_its_room(server: Server) -> None:
    server.serve(10, 11, priority=100)
    assert len(server.pool.acquire(np.arange(50, 56, dtype=np.uint64), now=server.now)) == 6


def test_a_priority_ends_at_its_deadline_and_not_before(server: Server) -> None:
    server.serve(10, 11, priority=80, duration=5.0)
    assert server.pool.expire(4.999) == 0
    assert server.priorities() == {0: 80}
    assert server.pool.expire(5.0) == 1
    assert server.priorities() == {0: DEFAULT}
    assert server.pool.stats()["retentions_expired"] == 1


@pytest.mark.parametrize("call", ["evict", "acquire"])
def test_what_is_due_ends_before_a_victim_is_chosen(server: Server, call: str) -> None:
    server.serve(10, 11, priority=80, duration=5.0)
    server.serve(20, 21)
    server.serve(30, 31)
    if call == "evict":
        server.pool.evict(2, now=5.0)
    else:
        server.pool.acquire(np.array([40, 41], np.uint64), now=5.0)
    assert server.pool.match(np.array([10, 11], np.uint64)) == 0
    assert server.pool.match(np.array([20, 21], np.uint64)) == 2


def test_a_fixed_lifetime_is_not_renewed_by_a_hit(server: Server) -> None:
    server.serve(10, 11, priority=80, duration=5.0, lifetime="fixed")
    server.now = 4.0
    server.serve(10, 11)
    assert server.pool.expire(5.0) == 1


def test_a_hit_renews_a_refreshed_lifetime(server: Server) -> None:
    server.serve(10, 11, priority=80, duration=5.0, lifetime="refresh")
    server.now = 4.0
    server.serve(10, 11)
    assert server.pool.expire(8.999) == 0
    assert server.priorities() == {0: 80}
    assert server.pool.expire(9.0) == 1


def test_looking_never_renews(server: Server) -> None:
    server.serve(10, 11, priority=80, duration=5.0, lifetime="refresh")
    server.pool.expire(4.0)
    assert server.pool.match(np.array([10, 11], np.uint64)) == 2
    assert server.pool.expire(5.0) == 1


def test_what_has_expired_never_revives(server: Server) -> None:
    server.serve(10, 11, priority=80, duration=5.0, lifetime="refresh")
    server.now = 5.0  # due, though nobody has called expire()
    server.serve(10, 11)
    assert server.priorities() == {0: DEFAULT}
    server.now = 6.0
    server.serve(10, 11)
    assert server.priorities() == {0: DEFAULT}
    assert server.pool.expire(100.0) == 0


def test_a_duration_of_zero_sets_the_default_at_once(server: Server) -> None:
    server.serve(10, 11, priority=80)
    server.serve(10, 11, priority=90, duration=0.0)
    assert server.priorities() == {0: DEFAULT}
    assert server.pool.expire(1000.0) == 0


def test_without_a_duration_a_priority_stays(server: Server) -> None:
    server.serve(10, 11, priority=80)
    assert server.pool.expire(1e12) == 0
    assert server.priorities() == {0: 80}


def test_the_latest_retention_replaces_the_one_before(server: Server) -> None:
    server.serve(10, 11, priority=80, duration=5.0)
    server.serve(10, 11, priority=20, duration=100.0)
    assert server.pool.expire(50.0) == 0
    assert server.priorities() == {0: 20}
    assert server.pool.expire(101.0) == 1


def test_a_range_in_the_middle_of_a_request(server: Server) -> None:
    allocation = server.hold(1, 2, 3, 4, 5)
    server.retain(allocation, 1, 2, 90, duration=5.0)
    assert server.priorities() == {0: DEFAULT, 1: 90, 3: DEFAULT}
    server.retain(allocation, 0, 0, 90)  # no block
    assert server.priorities() == {0: DEFAULT, 1: 90, 3: DEFAULT}
    server.pool.release(allocation, now=server.now)
    assert server.pool.expire(5.0) == 1
    assert set(server.priorities().values()) == {DEFAULT}
    assert server.pool.verify() == []


def test_a_low_priority_in_front_does_not_go_before_what_stands_behind_it(server: Server) -> None:
    allocation = server.hold(10, 11)
    server.retain(allocation, 0, 1, 0)
    server.retain(allocation, 1, 1, 100)
    server.pool.release(allocation, now=0.0)
    server.serve(20, 21)
    assert server.order() == [20, 20, 10, 10]  # 10 has a cached child, 11, which is the last to go


def test_a_fork_keeps_the_priority_of_both_parts(server: Server) -> None:
    server.serve(1, 2, 3, priority=80, duration=5.0)
    server.serve(1, 9)
    runs = server.pool.runs
    assert sorted(runs.priority[runs.live.nonzero()[0]].tolist()) == [DEFAULT, 80, 80]
    assert server.pool.expire(5.0) == 2
    assert server.pool.verify() == []


def test_evicted_content_takes_its_priority_along(server: Server) -> None:
    server.serve(10, 11, priority=80, duration=50.0)
    server.pool.evict(2, now=1.0)
    server.serve(10, 11)
    assert server.priorities() == {0: DEFAULT}
    assert server.pool.expire(100.0) == 0
