"""How many requests a second the timed simulator serves, beside Dynamo's mocker.

Stands for sweeps and advice, which are hundreds of such runs. One worker with 10,000 blocks of 512 tokens serves an
hour of chat in an open loop, under the same limits; each side keeps its own model of time. The mocker's figure is the
wall time that it reports itself, which leaves out starting Python; ours holds reading the trace too. Both compute on
one thread. The mocker runs where `KVOPT_DYNAMO_PYTHON` names a Python that has ai-dynamo (measured with 1.2.1), or
where this one has it.

Besides, the agents' sessions in a closed loop, alone.
"""

from __future__ import annotations

import gzip
import importlib.util
import json
import os
import resource
import subprocess
import sys
import time
from pathlib import Path

import pytest
from benchmark_fixture import Benchmark
from traces import load, real_trace_file

from kvopt.simulator import ClientOptions, simulate
from kvopt.workload import read_trace

ROUNDS = 5
BLOCKS = 10_000
ENGINE = {
    "num_gpu_blocks": BLOCKS,
    "block_size": 512,
    "enable_prefix_caching": True,
    "enable_chunked_prefill": True,
    "max_num_seqs": 1024,
    "max_num_batched_tokens": 8192,
}


def dynamo_python() -> str:
    named = os.environ.get("KVOPT_DYNAMO_PYTHON")
    if named:
        return named
    if importlib.util.find_spec("dynamo") is None:
        pytest.skip("no ai-dynamo here; KVOPT_DYNAMO_PYTHON may name a Python that has it")
    return sys.executable


def mocker_seconds(python: str, trace: Path, folder: Path) -> float:
    report = folder / "report.json"
    command = [python, "-m", "dynamo.replay", str(trace), "--extra-engine-args", json.dumps(ENGINE)]
    command += ["--trace-block-size", "512", "--num-workers", "1", "--report-json", str(report)]
    subprocess.run(command, check=True, cwd=folder, capture_output=True)
    found = json.loads(report.read_text())
    assert found["completed_requests"] == load("mooncake-conversation").requests
    return float(found["wall_time_ms"]) / 1000.0


def test_chats_beside_the_mocker(benchmark: Benchmark, tmp_path: Path) -> None:
    file = real_trace_file("mooncake-conversation")

    def run() -> int:
        result = simulate(read_trace(file), "lru", BLOCKS, clients=ClientOptions("open"))
        return result.runs[0].totals.finished

    benchmark.group = "simulate"
    finished = benchmark.pedantic(run, rounds=ROUNDS, warmup_rounds=1)
    benchmark.extra_info |= {"question": "simulate", "trace": "mooncake-conversation", "requests": finished}
    assert finished == load("mooncake-conversation").requests

    python = dynamo_python()
    plain = tmp_path / "trace.jsonl"
    plain.write_bytes(gzip.decompress(file.read_bytes()))
    peer, ours = [], []
    for _ in range(ROUNDS):  # in turn, so that both meet the same machine
        peer.append(mocker_seconds(python, plain, tmp_path))
        begin = time.perf_counter()
        run()
        ours.append(time.perf_counter() - begin)
    benchmark.extra_info |= {"ours_seconds": ours, "mocker_seconds": peer}


def test_agents_in_a_closed_loop(benchmark: Benchmark) -> None:
    trace = load("agentic-400")
    benchmark.group = "simulate"
    result = benchmark.pedantic(lambda: simulate(trace, "lru", 30_000), rounds=1)
    benchmark.extra_info |= {
        "question": "simulate",
        "trace": "agentic-400",
        "requests": trace.requests,
        "steps": result.runs[0].totals.steps,
        "peak_bytes": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024,
    }
    assert result.runs[0].totals.finished == trace.requests
