"""The traces that the benchmarks replay, each loaded once a session, and their references as the peers take them."""

from __future__ import annotations

from functools import cache, lru_cache
from operator import itemgetter
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from kvopt.workload import Trace, default_workload, read_trace

SHARED = Path(__file__).resolve().parents[2] / "shared"
REAL = {"mooncake-conversation": "mooncake-conversation.jsonl.gz", "agentic-400": "agentic-400.tar.xz"}
CAPACITY = {"mooncake-conversation": 10_000, "agentic-400": 60_000, "builtin-agents": 20_000}
"""Blocks of the cache that each trace is replayed against."""


def real_trace_file(name: str) -> Path:
    """The file of a real trace; skips the test where there is none."""
    path = SHARED / "traces" / REAL[name]
    if not path.is_file():
        pytest.skip("there is no folder ../shared with the real traces")
    return path


@cache
def load(name: str) -> Trace:
    """A trace by its name in CAPACITY; skips the test where its file is missing."""
    return read_trace(real_trace_file(name)) if name in REAL else default_workload().load()


@lru_cache(maxsize=1)
def chains(name: str) -> list[NDArray[np.uint64]]:
    """The block numbers of every request, root first."""
    prefix = load(name).prefix
    return [prefix.chain(request).astype(np.uint64) for request in range(prefix.requests)]


@lru_cache(maxsize=1)
def references(name: str) -> NDArray[np.uint32]:
    """All block references in order, one array."""
    prefix = load(name).prefix
    return np.concatenate([prefix.chain(request) for request in range(prefix.requests)])


@lru_cache(maxsize=1)
def python_chains(name: str) -> list[tuple[int, ...]]:
    """As `chains`, in Python integers; a block is the same object wherever it occurs, as in a server's own tables."""
    numbers = list(range(load(name).unique_blocks))
    return [pick(numbers, chain.tolist()) for chain in chains(name)]


def pick(numbers: list[int], wanted: list[int]) -> tuple[int, ...]:
    if len(wanted) < 2:
        return tuple(numbers[number] for number in wanted)
    return tuple(itemgetter(*wanted)(numbers))
