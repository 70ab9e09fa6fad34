"""Small traces whose replay can be followed by hand."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from kvopt._core import PrefixTraceBuilder
from kvopt.workload.base import Trace

# Figures of a trace's summary that the reference figures hold too.
COUNTS = ("block_tokens", "requests", "block_references", "unique_blocks")

# Milliseconds, input tokens, block ids. One request fits no small cache; two inputs end in a partial block.
SMALL_TRACE: list[tuple[float, int, list[int]]] = [
    (0, 1024, [1, 2]),
    (3000, 512, [3]),
    (3000, 1200, [1, 2, 4]),
    (6000, 1024, [5, 6]),
    (9000, 1536, [1, 2, 4]),
    (9000, 3072, [7, 8, 9, 10, 11, 12]),
    (12000, 1000, [1, 2]),
]

# The same without two requests at one time, which lru takes in their order and a rank by time alone does not.
SPACED_TRACE = [(1000.0 * number, tokens, ids) for number, (_, tokens, ids) in enumerate(SMALL_TRACE)]


def make_trace(requests: Sequence[tuple[float, int, Sequence[int]]], block_tokens: int = 512) -> Trace:
    """A trace of (milliseconds, input tokens, block ids)."""
    builder = PrefixTraceBuilder()
    for _, _, ids in requests:
        builder.append(np.array(ids, dtype=np.uint64))
    return Trace.from_columns(
        builder.finish(),
        {
            "time": np.array([time / 1000 for time, _, _ in requests]),
            "input_tokens": np.array([tokens for _, tokens, _ in requests]),
        },
        block_tokens=block_tokens,
        name="small",
    )


def write_mooncake(path: Path, requests: Sequence[tuple[float, int, Sequence[int]]]) -> Path:
    """Write (milliseconds, input tokens, block ids) as a Mooncake file; return its path."""
    lines = [
        json.dumps({"timestamp": time, "input_length": tokens, "output_length": 10, "hash_ids": ids})
        for time, tokens, ids in requests
    ]
    path.write_text("\n".join(lines) + "\n")
    return path
