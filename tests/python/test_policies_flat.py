"""Queue-based policies under the flat rule: a naive model each, and libCacheSim's values on a real trace."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import policy_models as models
from kvopt import _core
from kvopt._core import PrefixTrace, PrefixTraceBuilder
from kvopt.workload import Trace, read_trace

CASES: list[tuple[str, models.Model, dict[str, Any]]] = [
    ("fifo", models.fifo, {}),
    ("lfu", models.lfu, {}),
    ("clock", models.clock, {}),
    ("clock:bits=2", models.clock, {"bits": 2}),
    ("sieve", models.sieve, {}),
    ("slru", models.slru, {}),
    ("slru:segments=2", models.slru, {"segments": 2}),
    ("two-q", models.two_q, {}),
    ("two-q:in=0.5,out=2", models.two_q, {"share_in": 0.5, "out": 2}),
    ("mq", models.mq, {}),
    ("mq:queues=4,lifetime=9,history=1", models.mq, {"queues": 4, "lifetime": 9, "history": 1}),
    ("arc", models.arc, {}),
    ("s3-fifo", models.s3_fifo, {}),
    ("s3-fifo:small=0.3,ghost=2,promote=1", models.s3_fifo, {"small": 0.3, "ghost": 2, "promote": 1}),
    ("lirs", models.lirs, {}),
    ("lirs:hir=0.2,stack=1", models.lirs, {"hir": 0.2, "stack": 1}),
    ("lirs:hir=0.3,stack=4", models.lirs, {"hir": 0.3, "stack": 4}),
]

# libCacheSim 0.3.5 on the same keys; not in the reference file.
SLRU = [0.0471, 0.0723, 0.1138, 0.2727, 0.3187]
TWO_Q = [0.0541, 0.1116, 0.1849, 0.3062, 0.3423]


def one_block_requests(keys: list[int]) -> PrefixTrace:
    """A trace in which each reference is a request, so that hits can be told apart."""
    builder = PrefixTraceBuilder()
    for key in keys:
        builder.append([key])
    return builder.finish()


def random_keys(seed: int) -> list[int]:
    """Hot keys, a shifting working set, scans and loops, in random turns."""
    random = np.random.default_rng(seed)
    keys: list[int] = []
    while len(keys) < 600:
        kind, size = int(random.integers(4)), int(random.integers(5, 60))
        if kind == 0:
            keys += (random.zipf(1.3, size) % 50).tolist()
        elif kind == 1:
            keys += (random.integers(0, 15, size) + 7 * int(random.integers(8))).tolist()
        elif kind == 2:
            keys += range(1000 + len(keys), 1000 + len(keys) + size)
        else:
            keys += [200 + i % int(random.integers(3, 25)) for i in range(size)]
    return keys


@pytest.mark.parametrize(("spec", "model", "arguments"), CASES, ids=[spec for spec, _, _ in CASES])
@pytest.mark.parametrize("capacity", [1, 2, 5, 10, 16, 33])
def test_hit_for_hit_as_the_naive_model(
    spec: str, model: models.Model, arguments: dict[str, Any], capacity: int
) -> None:
    for seed in range(12):
        keys = random_keys(seed)
        counts = _core.replay(one_block_requests(keys), np.zeros(len(keys)), spec, capacity, rule="flat")
        expected = model(keys, capacity, **arguments)
        assert counts.hit_blocks.astype(bool).tolist() == expected, f"seed {seed}"


@pytest.fixture(scope="module")
def conversation(shared_dir: Path) -> Trace:
    return read_trace(shared_dir / "traces" / "mooncake-conversation.jsonl.gz")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("spec", "column"),
    [
        ("lru", "LRU"),
        ("fifo", "FIFO"),
        ("lfu", "LFU"),
        ("clock", "Clock"),
        ("arc", "ARC"),
        ("s3-fifo", "S3-FIFO"),
        ("sieve", "SIEVE"),
        ("lirs", "LIRS"),
        ("mq", "MQ"),
        ("slru", SLRU),
        ("two-q", TWO_Q),
    ],
)
def test_libcachesim_on_a_real_trace(
    conversation: Trace, shared_dir: Path, spec: str, column: str | list[float]
) -> None:
    reference = json.loads((shared_dir / "reference" / "replay.json").read_text())
    expected = reference["flat_block_hit_libcachesim"][column] if isinstance(column, str) else column
    capacities = reference["prefix_rule"]["mooncake-conversation"]["capacity"]
    hits = [
        _core.replay(conversation.prefix, conversation.time, spec, capacity, rule="flat").hit_blocks.sum()
        for capacity in capacities
    ]
    assert [round(float(h) / conversation.block_references, 4) for h in hits] == expected
