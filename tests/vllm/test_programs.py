"""LRU through KVopt's pools against untouched vLLM, under vLLM's own scheduler: the same decisions in every step."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from programs import random_program
from schedulers import SchedulerBench, preemptions, victims

MODES = {"sync": False, "async": True}


@pytest.fixture(scope="module", params=MODES)
def bench(request: pytest.FixtureRequest, tiny_model: Path) -> Iterator[SchedulerBench]:
    made = SchedulerBench(tiny_model, asynchronous=MODES[request.param])
    yield made
    made.shutdown()


@pytest.mark.parametrize("first", range(0, 100, 20))
def test_200_programs_are_decided_as_by_untouched_vllm(bench: SchedulerBench, first: int) -> None:
    """Hits, blocks, victims and their order, preemptions, free counts, the free order and answers, of every step."""
    evicted = preempted = 0
    first += 100 * bench.asynchronous
    for seed in range(first, first + 20):
        program = random_program(seed)
        untouched = bench.run_program(program)
        ours = bench.run_program(program, {"policy": "lru", "pool": "native"})
        assert len(ours) == len(untouched)
        for step, (mine, theirs) in enumerate(zip(ours, untouched, strict=True)):
            assert mine == theirs, (seed, step)
        evicted += len(victims(ours))
        preempted += preemptions(ours)
    assert evicted > 200
    assert preempted > 10


def test_the_programs_tell_policies_apart(bench: SchedulerBench) -> None:
    programs = [random_program(seed) for seed in range(6)]
    same = [bench.run_program(p) == bench.run_program(p, {"policy": "fifo", "pool": "native"}) for p in programs]
    assert same.count(True) < 3


@pytest.mark.parametrize("policy", ["lru", "cost-aware"])
def test_programs_end_well_with_the_order_in_vllms_own_pool(bench: SchedulerBench, policy: str) -> None:
    for seed in range(200, 206):
        program = random_program(seed)
        ours = bench.run_program(program, {"policy": policy, "pool": "vllm"})
        assert ours[-2]["free"] == program.blocks - 1
        assert bench.scheduler.kv_cache_manager.block_pool.order.verify() == []
        if policy == "lru":
            assert ours == bench.run_program(program)
