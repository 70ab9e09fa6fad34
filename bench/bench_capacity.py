"""Whether the speed of an LRU replay depends on the capacity of the cache.

Stands for sweeping memory sizes from one accelerator to a host-memory tier. Two figures a cell: the whole call, and the
replay alone, without what it takes to make and free an empty pool (`pool_seconds`).
Correctness inside: hits equal the stack distances' at each capacity that every request fits into.
"""

from __future__ import annotations

import numpy as np
import pytest
from benchmark_fixture import Benchmark, cpu_seconds
from traces import CAPACITY, load

from kvopt import _core

CAPACITIES = (10_000, 30_000, 100_000, 300_000, 1_000_000)
ROUNDS = 20


@pytest.mark.benchmark(timer=cpu_seconds)
@pytest.mark.parametrize("capacity", CAPACITIES)
@pytest.mark.parametrize("trace", CAPACITY)
def test_capacity(benchmark: Benchmark, trace: str, capacity: int) -> None:
    workload = load(trace)
    pool_seconds = []
    for _ in range(ROUNDS):
        begin = cpu_seconds()
        _core.BlockPool(capacity, "lru")
        pool_seconds.append(cpu_seconds() - begin)

    def run() -> int:
        return int(_core.replay(workload.prefix, workload.time, "lru", capacity).hit_blocks.sum())

    benchmark.group = f"capacity {trace}"
    hits = benchmark.pedantic(run, rounds=ROUNDS, warmup_rounds=1)
    benchmark.extra_info |= {
        "question": "capacity",
        "trace": trace,
        "capacity": capacity,
        "references": workload.block_references,
        "pool_seconds": min(pool_seconds),
    }
    if capacity > workload.prefix.longest_request:
        distances = _core.lru_stack_distances(workload.prefix)
        assert hits == distances.hits_at(np.array([capacity]))[0]
