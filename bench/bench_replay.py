"""How many block references a second each engine replays, in one run on one thread, by CPU time.

Stands for what a researcher or planner waits for: one policy at one capacity over a whole trace, inputs in memory in
whatever form the engine wants them (KVopt: its prefix tree). Two rows measure more than that and say so: "tree built
too" starts from block ids, and kvcache-simulator's program also reads its files and builds its tree; what it takes for
a replay alone is in `alone_seconds`. KVopt and kvcache-simulator hold the prefix rule, as does the plain-Python
OrderedDict; libcachesim, cachetools and cachebox take each reference by itself, which is less work.

Correctness inside: engines with the prefix rule must hit as many blocks as KVopt does, flat engines as many as each
other; LRU must equal its stack distances, and nothing may beat the optimum.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import pytest
from benchmark_fixture import Benchmark, cpu_seconds
from numpy.typing import NDArray
from peers import ENGINES, Hits, KVCacheSimulator, Task
from traces import CAPACITY, load

from kvopt import _core

LONGEST = "agentic-400"
GRID = [
    pytest.param(trace, policy, engine, id=f"{trace}-{policy}-{engine}")
    for trace in CAPACITY
    for policy in ("lru", "fifo", "lfu", "min", "min-bypass")
    for engine in ENGINES
    if policy in ENGINES[engine].policies
    and trace in ENGINES[engine].traces
    and (trace != LONGEST or engine == "kvopt" or policy == "lru")
]
flat_hits: dict[tuple[str, str], int] = {}


@pytest.fixture
def input_folder() -> Iterator[Path]:
    """Not tmp_path, which is kept: a peer's input takes up to 1.3 GB."""
    with TemporaryDirectory(prefix="kvopt-bench-") as folder:
        yield Path(folder)


@pytest.mark.benchmark(timer=cpu_seconds)
@pytest.mark.parametrize(("trace", "policy", "engine"), GRID)
def test_replay(benchmark: Benchmark, trace: str, policy: str, engine: str, input_folder: Path) -> None:
    references = load(trace).block_references
    run = ENGINES[engine].prepare(Task(trace, ENGINES[engine].policies[policy], CAPACITY[trace], input_folder))
    benchmark.group = f"replay {trace} {policy}"
    rounds = 15 if engine.startswith("kvopt") else 5 if references < 1e6 else 1
    cold = rounds == 1 and not engine.startswith("libcachesim")  # which maps a file: its pages must be in memory
    hits = benchmark.pedantic(run, rounds=rounds, warmup_rounds=0 if cold else 1)
    benchmark.extra_info |= {
        "question": "replay",
        "trace": trace,
        "policy": policy,
        "capacity": CAPACITY[trace],
        "engine": engine,
        "rule": ENGINES[engine].rule[policy],
        "references": references,
        "hits": hits.blocks,
        "hits_since_request": hits.since,
    }
    if isinstance(run, KVCacheSimulator) and benchmark.stats is not None:
        once = benchmark.stats.stats.median
        benchmark.extra_info["alone_seconds"] = run.alone(
            once, replays=21 if references < 1e6 else 2, rounds=min(rounds, 3)
        )
    _check(trace, policy, ENGINES[engine].rule[policy], hits)


def _check(trace: str, policy: str, rule: str, hits: Hits) -> None:
    ours = _hit_blocks(trace, policy)
    if rule == "prefix":
        assert hits.blocks == ours[hits.since :].sum()
    elif rule == "flat":
        assert hits.blocks == flat_hits.setdefault((trace, policy), hits.blocks)
    assert 0 < ours.sum() <= _hit_blocks(trace, "min-bypass").sum()
    if policy == "lru":
        assert ours.sum() == _core.lru_stack_distances(load(trace).prefix).hits_at(np.array([CAPACITY[trace]]))[0]


@cache
def _hit_blocks(trace: str, policy: str) -> NDArray[np.uint32]:
    return _core.replay(load(trace).prefix, load(trace).time, policy, CAPACITY[trace]).hit_blocks
