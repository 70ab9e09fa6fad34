"""Memory of a replay and of a pool, each in a process of its own, and the time to load a trace.

Stands for what a planner's laptop needs for 54 million block references, what a server pays for a pool (vLLM's Python
objects take 141 to 290 bytes a block), and how long it is until a converted trace can be replayed.
Asserted inside: the replay's peak is at most 600 MB, trace included; a pool takes at most 64 bytes a block with its
index, whatever it holds; a converted trace is the same trace.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from benchmark_fixture import Benchmark, cpu_seconds
from traces import CAPACITY, load, real_trace_file

from kvopt.workload import read_trace, write_parquet

CHILD = Path(__file__).with_name("memory_child.py")
MOST_REPLAY_BYTES = 600e6
MOST_BLOCK_BYTES = 64
POOL = 1_000_000


def child(*arguments: object) -> dict[str, Any]:
    # Fixed, so that arrays get pages of their own and not what was used and freed before.
    environment = os.environ | {"MALLOC_MMAP_THRESHOLD_": "131072"}
    command = [sys.executable, CHILD, *map(str, arguments)]
    done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True, env=environment)
    figures: dict[str, Any] = json.loads(done.stdout)
    return figures


@pytest.mark.parametrize("form", ["as published", "parquet"])
def test_replay_memory(benchmark: Benchmark, form: str, tmp_path: Path) -> None:
    trace = "agentic-400"
    file = real_trace_file(trace)
    if form == "parquet":
        file = tmp_path / "trace.parquet"
        write_parquet(load(trace), file)
    benchmark.group = "memory"
    figures = benchmark.pedantic(child, ("replay", file, CAPACITY[trace]), rounds=1)
    benchmark.extra_info |= {"question": "replay memory", "trace": trace, "form": form, **figures}
    assert round(figures["block_hit"], 4) == 0.7335  # LRU at 60,000 blocks, so the whole trace was replayed
    assert figures["peak"] <= MOST_REPLAY_BYTES


@pytest.mark.parametrize("load", ["agents", "scattered"])
def test_pool_memory(benchmark: Benchmark, load: str) -> None:
    benchmark.group = "memory"
    figures = benchmark.pedantic(child, ("pool", load, POOL), rounds=1)
    benchmark.extra_info |= {"question": "pool memory", "load": load, "pool": POOL, **figures}
    assert figures["evictable"] == POOL
    assert figures["full_pool"] <= MOST_BLOCK_BYTES * POOL
    assert figures["stated_bytes"] <= MOST_BLOCK_BYTES * POOL


@pytest.mark.benchmark(timer=cpu_seconds)
@pytest.mark.parametrize("form", ["as published", "parquet"])
@pytest.mark.parametrize("trace", ["mooncake-conversation", "agentic-400"])
def test_load(benchmark: Benchmark, trace: str, form: str, tmp_path: Path) -> None:
    file, whole = real_trace_file(trace), load(trace)
    if form == "parquet":
        file = tmp_path / "trace.parquet"
        write_parquet(whole, file)
    benchmark.group = f"load {trace}"
    read_back = benchmark.pedantic(read_trace, (file,), rounds=3, warmup_rounds=1)
    benchmark.extra_info |= {
        "question": "load",
        "trace": trace,
        "form": form,
        "references": whole.block_references,
        "file_bytes": file.stat().st_size,
    }
    assert np.array_equal(read_back.prefix.parent, whole.prefix.parent)
    assert np.array_equal(read_back.chain_blocks(), whole.chain_blocks())
    assert np.array_equal(read_back.time, whole.time)
