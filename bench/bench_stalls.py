"""How long a policy can hold up the pool: the longest single call of each of its hooks over the replay of a trace.

Stands for what a server loses in its worst step, not on average: a release, in which classes are learned and refreshed,
and the choice of one victim. The program of bench/cpp times them without Python, by the CPU clock of its thread, and
takes for each call the least of several replays, so that what else the machine runs does not count; "nothing" is what
the clock itself takes, which is included in every other figure.

Correctness inside: the program must hit as many blocks as the replay from Python does.
"""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import numpy as np
import pytest
from benchmark_fixture import Benchmark
from native_programs import programs
from traces import CAPACITY, load

from kvopt.simulator import replay
from kvopt.workload import Trace

POLICIES = ("lru", "cost-aware")
REPLAYS = 9


def write_columns(trace: Trace, path: Path) -> None:
    """What bench/cpp/policy_stalls.cpp reads."""
    prefix = trace.prefix
    n = prefix.requests

    def known(column: np.ndarray | None, dtype: type, otherwise: int) -> bytes:
        return (np.full(n, otherwise, dtype) if column is None else np.asarray(column).astype(dtype)).tobytes()

    with path.open("wb") as out:
        out.write(np.uint64(n).tobytes())
        for column in (prefix.parent, prefix.shared_blocks, prefix.new_blocks):
            out.write(column.tobytes())
        out.write(known(trace.time, np.float64, 0))
        out.write(known(trace.session, np.int32, -1))
        out.write(known(trace.output_tokens, np.uint32, 0))
        out.write(known(trace.stop, np.uint8, 0))
        out.write(known(trace.subagent, np.uint8, 0))


@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("trace", CAPACITY)
def test_stalls(benchmark: Benchmark, trace: str, policy: str, tmp_path: Path) -> None:
    loaded, capacity = load(trace), CAPACITY[trace]
    columns = tmp_path / "columns"
    write_columns(loaded, columns)
    numbers = [str(capacity), str(loaded.block_tokens), str(REPLAYS)]
    command = [str(programs() / "policy_stalls"), str(columns), policy, *numbers]

    def run() -> str:
        return subprocess.run(command, check=True, capture_output=True, text=True, timeout=300).stdout

    benchmark.group = f"stalls {trace}"
    said = json.loads(benchmark.pedantic(run, rounds=1))
    row = replay(loaded, [policy], [capacity]).row(policy, capacity)
    assert said["hit_blocks"] == round(row.block_hit * loaded.block_references)
    benchmark.extra_info |= {"question": "stalls", "trace": trace, "policy": policy, "capacity": capacity}
    benchmark.extra_info["calls"] = said["calls"]
