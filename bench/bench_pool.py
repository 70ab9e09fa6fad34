"""What one call of the pool costs, by size of the pool and of the request, with the spread from call to call.

Stands for the time that a scheduler step loses in the block pool: match, acquire and release for a prompt that is
cached; acquire (with eviction), commit and release for one that is not; evict by itself. Each single call through
Python is timed, in a pool full of agents' chains, with more agents served between the calls. "match nothing" is what
the timer and the binding cost by themselves; it is included in every other figure. Calls during which the system ran
something else on the core are counted (`preempted`) and left out.

Correctness inside: every call must hit, hand out and evict exactly what it should, and the pool must verify clean.
"""

from __future__ import annotations

import gc
from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass, field
from resource import RUSAGE_SELF, getrusage
from time import perf_counter_ns
from typing import ParamSpec, TypeVar

import numpy as np
import pytest
from benchmark_fixture import Benchmark
from pool_load import AgentLoad, Keys

from kvopt._core import BlockPool

POOLS = {10_000: 40, 100_000: 60, 1_000_000: 600}
"""Blocks of a pool, and how many agent sessions fill it."""

CALLS = {64: 2_000, 2_000: 400}
"""Blocks of a request, and how often each call is timed."""

IN_ORDER = (
    "match nothing",
    "match",
    "acquire, all hit",
    "release after hit",
    "acquire, all evicted",
    "commit",
    "release after miss",
    "evict",
)
LONG_PROMPT = 6_400
NOTHING = np.empty(0, dtype=np.uint64)

P = ParamSpec("P")
R = TypeVar("R")


@dataclass
class CallTimes:
    """Nanoseconds of single calls, by name."""

    samples: defaultdict[str, list[int]] = field(default_factory=lambda: defaultdict(list))
    preempted: int = 0

    def timed(self, name: str, call: Callable[P, R], *arguments: P.args, **options: P.kwargs) -> R:
        switches = getrusage(RUSAGE_SELF).ru_nivcsw
        begin = perf_counter_ns()
        result = call(*arguments, **options)
        duration = perf_counter_ns() - begin
        if getrusage(RUSAGE_SELF).ru_nivcsw == switches:
            self.samples[name].append(duration)
        else:
            self.preempted += 1
        return result

    def figures(self) -> dict[str, dict[str, float]]:
        """Median, 99th percentile and maximum of each, in nanoseconds a call."""
        found = {}
        for name in sorted(self.samples, key=IN_ORDER.index):
            values = self.samples[name]
            p50, p99 = np.percentile(values, [50, 99])
            found[name] = {"p50": float(p50), "p99": float(p99), "max": float(max(values)), "calls": len(values)}
        return found


def filled_pool(capacity: int, policy: str = "lru") -> AgentLoad:
    """A pool through which agents have stored twice its blocks."""
    load = AgentLoad(BlockPool(capacity, policy), POOLS[capacity])
    load.run(2 * capacity)
    return load


@pytest.mark.parametrize("blocks", CALLS)
@pytest.mark.parametrize("capacity", POOLS)
@pytest.mark.parametrize("policy", ["lru", "cost-aware"])
def test_calls(benchmark: Benchmark, policy: str, capacity: int, blocks: int) -> None:
    load = filled_pool(capacity, policy)
    times = CallTimes()

    def run() -> None:
        # Few enough that what is stored between two uses of a prompt seldom pushes it out.
        prompts = load.recent_prompts(blocks, most=max(1, min(32, capacity // (32 * blocks))))
        assert prompts
        for call in range(CALLS[blocks]):
            prompt = prompts[call % len(prompts)]
            if hit_once(load, times, prompt) < blocks:
                load.serve(prompt)
            miss_once(load, times, blocks)
            evict_once(load, times, blocks)
            load.run(blocks)
        assert len(times.samples["release after hit"]) >= CALLS[blocks] // 2

    gc.collect()
    benchmark.group = f"{policy} pool {capacity} request {blocks}"
    benchmark.pedantic(run, rounds=1)
    report(benchmark, times, capacity, blocks, policy)
    assert load.pool.verify() == []


@pytest.mark.parametrize("capacity", POOLS)
def test_match_long_prompt(benchmark: Benchmark, capacity: int) -> None:
    load = filled_pool(capacity)
    prompts = load.recent_prompts(LONG_PROMPT, most=32)
    if not prompts:  # no agent's prompt of this length fits into the smallest pool
        prompts = [load.one_off(LONG_PROMPT)]
        load.serve(prompts[0])
    times = CallTimes()

    def run() -> None:
        for call in range(1_000):
            prompt = prompts[call % len(prompts)]
            assert times.timed("match", load.pool.match, prompt) == LONG_PROMPT

    benchmark.group = f"pool {capacity} request {LONG_PROMPT}"
    benchmark.pedantic(run, rounds=1)
    report(benchmark, times, capacity, LONG_PROMPT)


def hit_once(load: AgentLoad, times: CallTimes, prompt: Keys) -> int:
    """Time a prompt that is cached; returns how much of it is, and goes no further unless all is."""
    pool = load.pool
    assert times.timed("match nothing", pool.match, NOTHING) == 0
    found = times.timed("match", pool.match, prompt)
    if found < len(prompt):
        return found
    load.now += 1.0
    allocation = times.timed("acquire, all hit", pool.acquire, prompt, now=load.now)
    assert (allocation.hit, len(allocation)) == (len(prompt), len(prompt))
    times.timed("release after hit", pool.release, allocation, now=load.now)
    return found


def miss_once(load: AgentLoad, times: CallTimes, blocks: int) -> None:
    pool, prompt = load.pool, load.one_off(blocks)
    assert pool.counts()["empty"] == 0
    load.now += 1.0
    allocation = times.timed("acquire, all evicted", pool.acquire, prompt, now=load.now)
    assert (allocation.hit, len(allocation)) == (0, blocks)
    times.timed("commit", pool.commit, allocation, prompt, now=load.now)
    assert allocation.committed == blocks
    times.timed("release after miss", pool.release, allocation, now=load.now)


def evict_once(load: AgentLoad, times: CallTimes, blocks: int) -> None:
    pool = load.pool
    victims = times.timed("evict", pool.evict, blocks, now=load.now)
    assert len(np.unique(victims)) == blocks
    assert pool.counts()["empty"] == blocks


def report(benchmark: Benchmark, times: CallTimes, capacity: int, blocks: int, policy: str = "lru") -> None:
    benchmark.extra_info |= {
        "question": "pool",
        "policy": policy,
        "pool": capacity,
        "blocks": blocks,
        "calls": times.figures(),
    }
    benchmark.extra_info["preempted"] = times.preempted
