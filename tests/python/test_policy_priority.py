"""TensorRT-LLM's retention priorities: who goes first, until when, and what is refused."""

from __future__ import annotations

import math
from typing import Any

import pytest

from kvopt.errors import ConfigError, StaleBlockError
from kvopt.policies import RetentionRange, retain_ranges
from made_pools import NamedBlocks

# Each case: what is let go of, in order, as (key, priority or None, duration); when eviction starts; who goes in order.
ORDERS: dict[str, tuple[list[tuple[int, int | None, float]], float, list[int]]] = {
    "the default is 35": ([(1, 36, math.inf), (2, None, math.inf), (3, 34, math.inf)], 10, [3, 2, 1]),
    "within a priority the release order": ([(1, 50, math.inf), (2, 50, math.inf), (3, 50, math.inf)], 10, [1, 2, 3]),
    "across priorities the lowest": ([(1, 100, math.inf), (2, 0, math.inf), (3, 70, math.inf)], 10, [2, 3, 1]),
    "0 goes before the default": ([(1, None, math.inf), (2, 0, math.inf)], 10, [2, 1]),
    "before the end it still counts": ([(1, 80, 7), (2, None, math.inf)], 6.9, [2, 1]),
    # At 7 s key 1 falls to 35 and goes behind key 2, which has 35 all along.
    "expiry demotes to the default": ([(1, 80, 7), (2, None, math.inf), (3, 80, 7)], 7, [2, 1, 3]),
    "expiry promotes what was below the default": ([(1, 10, 5), (2, None, math.inf)], 6, [2, 1]),
    "what expires goes behind, in the order of expiry": ([(1, 80, 9), (2, 90, 2), (3, None, math.inf)], 50, [3, 2, 1]),
    "expiry from the default to the default moves nothing": ([(1, 35, 2), (2, None, math.inf)], 50, [1, 2]),
    "a duration of zero is over at once": ([(1, 80, 0), (2, None, math.inf)], 2, [1, 2]),
    "a low priority of zero duration too": ([(1, None, math.inf), (2, 0, 0)], 2, [1, 2]),
}


@pytest.fixture
def blocks() -> NamedBlocks:
    return NamedBlocks("priority", retention=True)


def retain(blocks: NamedBlocks, allocation: Any, *ranges: RetentionRange, now: float) -> None:
    retain_ranges(blocks.pool, allocation, ranges, block_tokens=1000, now=now)


@pytest.mark.parametrize("case", ORDERS)
def test_order(blocks: NamedBlocks, case: str) -> None:
    released, start, order = ORDERS[case]
    for second, (key, priority, duration) in enumerate(released):
        allocation = blocks.hold([key], second)
        if priority is not None:
            retain(blocks, allocation, RetentionRange(0, None, priority, duration), now=second)
        blocks.pool.release(allocation, now=float(second))
    assert blocks.victims(len(order), start) == order


def test_what_expires_keeps_its_place_where_that_is_set() -> None:
    blocks = NamedBlocks("priority:requeue=0", retention=True)
    for key, duration in ((1, 7.0), (2, math.inf)):
        allocation = blocks.hold([key], key)
        retain(blocks, allocation, RetentionRange(0, None, 80 if key == 1 else 35, duration), now=key)
        blocks.pool.release(allocation, now=float(key))
    assert blocks.victims(2, 9) == [1, 2]


def test_the_clock_starts_at_the_release(blocks: NamedBlocks) -> None:
    held = [blocks.hold([key], 0.0) for key in (1, 2)]
    for allocation, now in zip(held, (20.0, 40.0), strict=True):
        retain(blocks, allocation, RetentionRange(0, None, 80, 5.0), now=now)
        blocks.pool.release(allocation, now=now)
    # Key 1 is kept until 25 s, key 2 until 45 s; both were stored at 0 s.
    blocks.use([3], 41.0)
    assert blocks.victims(3, 44.0) == [1, 3, 2]


def test_a_range_covers_the_blocks_that_begin_in_it(blocks: NamedBlocks) -> None:
    allocation = blocks.hold([1, 2, 3, 4, 5], 0.0)
    # Blocks begin at tokens 0, 1000, 2000, 3000 and 4000.
    retain(
        blocks, allocation, RetentionRange(2500, 9000, 60), RetentionRange(0, 1, 90), RetentionRange(1, 2500, 5), now=0
    )
    runs = blocks.pool.runs
    found = {int(depth): int(runs.priority[run]) for run, depth in enumerate(runs.depth[: runs.used])}
    assert found == {0: 90, 1: 5, 3: 60}


def test_leaf_first_within_a_request(blocks: NamedBlocks) -> None:
    """A low priority in front of a high one cannot go before it."""
    allocation = blocks.hold([1, 2, 3], 0.0)
    retain(blocks, allocation, RetentionRange(0, 1000, 0), RetentionRange(1000, 3000, 90), now=0.0)
    blocks.pool.release(allocation, now=0.0)
    blocks.use([9], 1.0)
    assert blocks.victims(4, 2.0) == [9, 3, 2, 1]


def test_what_was_kept_is_kept_where_no_range_is(blocks: NamedBlocks) -> None:
    first = blocks.hold([1, 2], 0.0)
    retain(blocks, first, RetentionRange(0, None, 90), now=0.0)
    blocks.pool.release(first, now=0.0)
    again = blocks.hold([1, 2], 1.0)
    retain(blocks, again, RetentionRange(0, 1000, 10), now=1.0)
    blocks.pool.release(again, now=1.0)
    assert sorted(blocks.pool.runs.priority[: blocks.pool.runs.used].tolist()) == [10, 90]


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"start": 0, "priority": -1}, "priority: -1; it must be 0 to 100"),
        ({"start": 0, "priority": 101}, "priority: 101; it must be 0 to 100"),
        ({"start": 0, "priority": 35.5}, r"priority: 35\.5 is not a whole number"),
        ({"start": 64, "end": 64}, "end: token 64; it must be after the start, 64"),
        ({"start": 64, "end": 0}, "end: token 0; it must be after the start, 64"),
        ({"start": -1, "end": 5}, "start: token -1"),
        ({"start": True}, "start: True is not a whole number"),
        ({"start": 0, "duration": -0.5}, r"duration: -0\.5 s"),
        ({"start": 0, "duration": math.nan}, "duration: nan s"),
    ],
)
def test_a_bad_range_is_refused(fields: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        RetentionRange(**fields)


@pytest.mark.parametrize(
    "ranges",
    [
        [(0, None), (30, 50)],
        [(0, 64), (60, 80)],
        [(64, 256), (0, 128)],
        [(0, 64), (0, 64)],
        [(10, 20), (0, None)],
    ],
)
def test_overlapping_ranges_are_refused_and_change_nothing(
    blocks: NamedBlocks, ranges: list[tuple[int, int | None]]
) -> None:
    allocation = blocks.hold([1, 2], 0.0)
    with pytest.raises(ConfigError, match=r"overlap those from \d+ on"):
        retain(blocks, allocation, *(RetentionRange(start, end, 80) for start, end in ranges), now=0.0)
    runs = blocks.pool.runs
    assert (runs.used, int(runs.priority[0])) == (1, 35)


@pytest.mark.parametrize("ranges", [[(0, 30), (30, 50), (60, 80)], [(50, 100), (30, 40)], [(0, None)], []])
def test_ranges_that_do_not_overlap_are_taken(blocks: NamedBlocks, ranges: list[tuple[int, int | None]]) -> None:
    allocation = blocks.hold([1, 2], 0.0)
    retain(blocks, allocation, *(RetentionRange(start, end, 80) for start, end in ranges), now=0.0)
    assert blocks.pool.verify() == []


@pytest.mark.parametrize("priority", [-1, 101])
def test_the_pool_refuses_such_a_priority_too(blocks: NamedBlocks, priority: int) -> None:
    allocation = blocks.hold([1], 0.0)
    with pytest.raises(ConfigError, match=f"priority {priority}; it must be 0 to 100"):
        blocks.pool.retain(allocation, 0, 1, priority=priority, now=0.0)


@pytest.mark.parametrize(("policy", "retention"), [("lru", True), ("priority", False)])
def test_a_pool_without_priorities_refuses(policy: str, retention: bool) -> None:
    blocks = NamedBlocks(policy, retention=retention)
    allocation = blocks.hold([1], 0.0)
    for ranges in ([RetentionRange(0, None, 80)], [RetentionRange(5000, None, 80)]):
        with pytest.raises(ConfigError, match=r"retention|priorities"):
            retain(blocks, allocation, *ranges, now=0.0)


def test_a_released_allocation_is_refused(blocks: NamedBlocks) -> None:
    allocation = blocks.hold([1], 0.0)
    blocks.pool.release(allocation, now=0.0)
    with pytest.raises(StaleBlockError):
        retain(blocks, allocation, RetentionRange(0, None, 80), now=0.0)
