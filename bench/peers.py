"""The engines of the replay benchmark: KVopt and what else can replay the same references.

Each `prepare` function turns a trace into whatever the engine reads, outside the time that is measured, and returns
the call to measure. That call builds a fresh cache, replays every reference and returns the hits, so that engines with
the same semantics can be held to the same answer.
"""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
from benchmark_fixture import cpu_seconds
from numpy.typing import NDArray
from prefix_lru import ordered_dict_prefix_lru
from traces import CAPACITY, chains, load, python_chains, references

from kvopt import _core


@dataclass(frozen=True, slots=True)
class Hits:
    """Hit blocks of the requests from number `since` on."""

    blocks: int
    since: int = 0


Replay = Callable[[], Hits]


@dataclass(frozen=True, slots=True)
class Task:
    """What to replay: a trace by name, the engine's own name for the policy, blocks, and a folder for input files."""

    trace: str
    policy: str
    capacity: int
    folder: Path


def kvopt(task: Task) -> Replay:
    trace = load(task.trace)

    def run() -> Hits:
        counts = _core.replay(trace.prefix, trace.time, task.policy, task.capacity)
        return Hits(int(counts.hit_blocks.sum()))

    return run


def kvopt_from_ids(task: Task) -> Replay:
    """With the prefix tree built from block ids in the same time, as a trace reader has to."""
    time_column, requests = load(task.trace).time, chains(task.trace)

    def run() -> Hits:
        builder = _core.PrefixTraceBuilder()
        for ids in requests:
            builder.append(ids)
        counts = _core.replay(builder.finish(), time_column, task.policy, task.capacity)
        return Hits(int(counts.hit_blocks.sum()))

    return run


def ordered_dict(task: Task) -> Replay:
    requests = python_chains(task.trace)
    return lambda: Hits(sum(ordered_dict_prefix_lru(requests, task.capacity)))


class KVCacheSimulator:
    """kvcache-simulator's C++ program, started as its own package starts it.

    The program reads its input, builds a prefix tree, replays, and exits; it counts hits from the middle of the trace
    on. It takes a list of capacities, so replays beyond the first cost nothing but themselves: `alone` times those.
    """

    def __init__(self, task: Task) -> None:
        self._program = import_module("kvcache_sim.cpp_backend").ensure_cpp_simulator()
        self._task = task
        blocks = references(task.trace)
        lengths = load(task.trace).chain_blocks()
        self._warmup = len(lengths) // 2
        self._count = (len(lengths), len(blocks))
        blocks.astype("<u4").tofile(task.folder / "ids.u32")
        np.ones(len(blocks), "<u2").tofile(task.folder / "tokens.u16")
        np.cumsum(lengths).astype("<u4").tofile(task.folder / "request_ends.u32")

    def __call__(self, replays: int = 1) -> Hits:
        requests, blocks = self._count
        command = f"""--policy batch --ids ids.u32 --tokens tokens.u16 --request-ends request_ends.u32
            --request-count {requests} --total-blocks {blocks} --warmup-requests {self._warmup}
            --capacities {",".join([str(self._task.capacity)] * replays)} --policies {self._task.policy}"""
        done = subprocess.run(
            [self._program, *command.split()], cwd=self._task.folder, check=True, capture_output=True, text=True
        )
        (point, *_) = json.loads(done.stdout)["points"]
        result = point[self._task.policy]
        if result["measurementStartRequest"] != self._warmup:
            raise RuntimeError(f"the cache was not full after {self._warmup} requests: {result}")
        return Hits(int(result["hitTokens"]), self._warmup)

    def alone(self, once: float, replays: int, rounds: int) -> list[float]:
        """CPU seconds of one replay, given those of a whole run with one."""
        seconds = []
        for _ in range(rounds):
            begin = cpu_seconds()
            self(replays)
            seconds.append((cpu_seconds() - begin - once) / (replays - 1))
        return seconds


def libcachesim_loop(task: Task) -> Replay:
    """The C loop of libCacheSim over a memory-mapped file in its own format."""
    library = import_module("libcachesim")
    file = task.folder / "trace.oracleGeneral.bin"
    _write_oracle_general(references(task.trace), file, next_use=task.policy == "Belady")
    reader = library.TraceReader(str(file), library.TraceType.ORACLE_GENERAL_TRACE, library.ReaderInitParam())
    count = len(references(task.trace))

    def run() -> Hits:
        reader.reset()
        cache = getattr(library, task.policy)(task.capacity, hashpower=_hash_power(task.capacity))
        miss_ratio, _ = cache.process_trace(reader)
        return Hits(round((1 - miss_ratio) * count))

    return run


def libcachesim_get(task: Task) -> Replay:
    """Its cache through the Python `get`, requests made beforehand."""
    library = import_module("libcachesim")
    requests = [library.Request(obj_id=block, obj_size=1) for block in references(task.trace).tolist()]

    def run() -> Hits:
        cache = getattr(library, task.policy)(task.capacity, hashpower=_hash_power(task.capacity))
        return Hits(sum(map(cache.get, requests)))

    return run


def cachetools(task: Task) -> Replay:
    return _python_cache(getattr(import_module("cachetools"), task.policy), task)


def cachebox(task: Task) -> Replay:
    return _python_cache(getattr(import_module("cachebox"), task.policy), task)


def _python_cache(make: Callable[[int], Any], task: Task) -> Replay:
    requests = python_chains(task.trace)

    def run() -> Hits:
        cache = make(task.capacity)
        touch = cache.__getitem__
        hits = 0
        for blocks in requests:
            for block in blocks:
                if block in cache:
                    touch(block)
                    hits += 1
                else:
                    cache[block] = None
        return Hits(hits)

    return run


def _hash_power(capacity: int) -> int:
    """Twice as many buckets as blocks; the library's default of 2^24 costs it a factor of ten at 10,000 blocks."""
    return max(10, (2 * capacity - 1).bit_length())


def _write_oracle_general(blocks: NDArray[np.uint32], file: Path, *, next_use: bool) -> None:
    records = np.zeros(len(blocks), dtype=[("time", "<u4"), ("id", "<u8"), ("size", "<u4"), ("next", "<i8")])
    records["id"], records["size"], records["next"] = blocks, 1, -1
    if next_use:
        order = np.argsort(blocks, kind="stable")
        again = blocks[order][1:] == blocks[order][:-1]
        records["next"][order[:-1][again]] = order[1:][again]
    records.tofile(file)


@dataclass(frozen=True, slots=True)
class Engine:
    """An engine: its names for KVopt's policies, and which semantics each has there.

    `rule` is "prefix" (KVopt's replay rule: the hits must equal KVopt's), "flat" (every reference by itself: the hits
    must equal those of other flat engines), or anything else for semantics of its own.
    """

    prepare: Callable[[Task], Any]
    policies: dict[str, str]
    rule: dict[str, str]
    traces: tuple[str, ...] = tuple(CAPACITY)
    """Where it takes part; an engine that costs Python objects or calls a reference leaves the long traces out."""


def _all(rule: str, **policies: str) -> tuple[dict[str, str], dict[str, str]]:
    names = {name.replace("_", "-"): own for name, own in policies.items()}
    return names, dict.fromkeys(names, rule)


SHORTEST = ("mooncake-conversation",)
SHORTER = (*SHORTEST, "builtin-agents")
KVOPT_POLICIES = {"lru": "lru", "fifo": "fifo", "lfu": "lfu", "min": "min", "min_bypass": "min-bypass"}
ENGINES = {
    "kvopt": Engine(kvopt, *_all("prefix", **KVOPT_POLICIES)),
    "kvopt, tree built too": Engine(kvopt_from_ids, *_all("prefix", lru="lru")),
    "kvcache-simulator": Engine(
        KVCacheSimulator,
        {"lru": "lru", "fifo": "fifo", "min-bypass": "optimal"},
        {"lru": "prefix", "fifo": "own", "min-bypass": "prefix"},
    ),
    "OrderedDict prefix LRU": Engine(ordered_dict, *_all("prefix", lru="lru")),
    "libcachesim, C loop": Engine(
        libcachesim_loop, *_all("flat", lru="LRU", fifo="FIFO", lfu="LFU", min_bypass="Belady")
    ),
    "libcachesim, get()": Engine(libcachesim_get, *_all("flat", lru="LRU"), SHORTEST),
    "cachetools": Engine(cachetools, *_all("flat", lru="LRUCache"), SHORTER),
    "cachebox": Engine(cachebox, *_all("flat", lru="LRUCache"), SHORTER),
}
