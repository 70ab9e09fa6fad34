"""What single calls of the pool cost through C++, the C interface and Python, on the same load, and what each adds.

Stands for an engine that links the core and runs no Python: the program of bench/cpp, built here against the installed
package, and its twin below put the same requests through pools of the same size. "match nothing" is what the timer and
the interface cost by themselves; it is included in every other figure.

Correctness inside: every call must hit and evict exactly what it should, and all three must evict as many blocks.
"""

from __future__ import annotations

import gc
import json
import subprocess
from collections import defaultdict
from collections.abc import Callable
from time import perf_counter_ns
from typing import Any

import numpy as np
import pytest
from benchmark_fixture import Benchmark
from native_programs import programs
from pool_load import Keys, block_keys

from kvopt._core import BlockPool

POOLS = (10_000, 100_000, 1_000_000)
ROUNDS = {64: 3_000, 2_000: 500}
"""Blocks of a request, and how often each call is timed."""


class Twin:
    """The load of bench/cpp/pool_calls.cpp, which says what it is, through the Python binding."""

    def __init__(self, capacity: int, blocks: int) -> None:
        self.pool = BlockPool(capacity, "lru")
        self.blocks = blocks
        self.cached = capacity // blocks
        self.next = 0
        self.now = 0.0
        self.times: defaultdict[str, list[int]] = defaultdict(list)
        for _ in range(0, 2 * capacity, blocks):
            self.serve_new()

    def prompt(self, session: int) -> Keys:
        return block_keys((session << 32) + np.arange(self.blocks, dtype=np.uint64))

    def timed(self, name: str, call: Callable[..., Any], *arguments: Any, **options: Any) -> Any:
        begin = perf_counter_ns()
        result = call(*arguments, **options)
        self.times[name].append(perf_counter_ns() - begin)
        return result

    def serve_new(self) -> None:
        prompt = self.prompt(self.next)
        self.next += 1
        for n in (self.blocks // 2, self.blocks):
            self.now += 1
            held = self.pool.acquire(prompt[:n], now=self.now)
            self.pool.commit(held, prompt[held.hit : n], now=self.now)
            self.pool.release(held, now=self.now)

    def hit_once(self, prompt: Keys) -> None:
        self.timed("match nothing", self.pool.match, prompt[:0])
        assert self.timed("match", self.pool.match, prompt) == self.blocks
        self.now += 1
        held = self.timed("acquire, all hit", self.pool.acquire, prompt, now=self.now)
        assert held.hit == self.blocks
        self.timed("release after hit", self.pool.release, held, now=self.now)

    def miss_once(self, prompt: Keys) -> None:
        self.now += 1
        held = self.timed("acquire, all evicted", self.pool.acquire, prompt, now=self.now)
        assert held.hit == 0
        self.timed("commit", self.pool.commit, held, prompt, now=self.now)
        self.timed("release after miss", self.pool.release, held, now=self.now)

    def run(self, rounds: int) -> None:
        young = max(1, self.cached // 2)
        back = block_keys(np.arange(rounds, dtype=np.uint64)) % np.uint64(young)
        for distance in back.tolist():
            self.hit_once(self.prompt(self.next - 1 - distance))
            self.miss_once(self.prompt(self.next))
            self.next += 1
            self.timed("evict", self.pool.evict, self.blocks, now=self.now)
            self.serve_new()

    def figures(self) -> dict[str, dict[str, float]]:
        return {
            name: dict(zip(("p50", "p99"), map(float, np.percentile(values, [50, 99])), strict=True))
            for name, values in self.times.items()
        }


@pytest.mark.parametrize("blocks", ROUNDS)
@pytest.mark.parametrize("capacity", POOLS)
def test_calls(benchmark: Benchmark, capacity: int, blocks: int) -> None:
    command = [str(programs() / "pool_calls"), str(capacity), str(blocks), str(ROUNDS[blocks])]
    said = json.loads(subprocess.run(command, check=True, capture_output=True, text=True, timeout=300).stdout)
    twin = Twin(capacity, blocks)
    gc.collect()
    benchmark.group = f"interfaces {capacity} request {blocks}"
    benchmark.pedantic(twin.run, (ROUNDS[blocks],), rounds=1)
    assert {said[name]["evicted"] for name in ("C++", "C")} == {twin.pool.stats()["dropped_blocks"]["capacity"]}
    calls = {"C++": said["C++"]["calls"], "C": said["C"]["calls"], "Python": twin.figures()}
    benchmark.extra_info |= {"question": "interfaces", "pool": capacity, "blocks": blocks, "calls": calls}
