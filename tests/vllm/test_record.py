"""Recording a live engine: the trace replays to the same hits, survives a kill, and is bounded."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from engines import BLOCK
from kvopt.simulator import replay
from kvopt.vllm import observation as seen
from kvopt.workload import StopReason, read_parquet, read_trace
from tiny_model import END_ID, TOOL_CALL_ID

Make = Callable[..., Any]


def turns(server: Any, sessions: int, length: int) -> None:
    """Sessions of three turns, one request after another."""
    prompts = {s: [10 + (s * 131 + i * 17) % 400 for i in range(length)] for s in range(sessions)}
    for turn in range(3):
        for s, prompt in prompts.items():
            answer = [20 + (s * 7 + i) % 300 for i in range(BLOCK)]
            answer[-2:] = [TOOL_CALL_ID if s % 2 else 30, END_ID]
            server.add(f"{s}.{turn}", prompt, answer=answer, stop=[END_ID], extra={"kvopt_tool": f"tool{s}"})
            server.run()
            prompt += [*answer, *range(40, 40 + 50 + s)]


def test_the_trace_tells_what_the_engine_did(engine: Make, tmp_path: Path) -> None:
    path = tmp_path / "trace.parquet"
    server = engine(kvopt={"pool": "off", "record": str(path), "simulation": {"time": "virtual"}}, blocks=65)
    hits: list[int] = []
    server.scheduler.kvopt.hooks.add_observer(
        "test", lambda event: hits.append(event.hit_tokens) if isinstance(event, seen.Scheduled) else None
    )
    turns(server, sessions=4, length=150)
    assert path.with_name("trace.parquet.journal").exists()
    assert not path.exists()
    server.shutdown()
    trace = read_parquet(path)
    assert not path.with_name("trace.parquet.journal").exists()
    assert trace.requests == 12
    assert trace.block_tokens == BLOCK
    assert trace.output_tokens.tolist() == [BLOCK] * 12
    assert trace.session.tolist() == [0, 1, 2, 3] * 3
    assert trace.turn.tolist() == [0] * 4 + [1] * 4 + [2] * 4
    assert [StopReason(stop) for stop in trace.stop[:2]] == [StopReason.END_TURN, StopReason.TOOL_USE]
    assert trace.tool_names == ("tool0", "tool1", "tool2", "tool3")
    assert np.isnan(trace.gap[:4]).all()
    assert not np.isnan(trace.gap[4:]).any()
    # vLLM also caches answers, which traces do not hold: the replay of the prompts hits no more than it did.
    (row,) = replay(trace, ["lru"], [64]).rows
    replayed = row.block_hit * trace.block_references
    assert 0 < replayed * BLOCK <= sum(hits)


def test_no_tokens_and_no_text_are_in_it(engine: Make, tmp_path: Path) -> None:
    path = tmp_path / "trace.parquet"
    server = engine(kvopt={"pool": "off", "record": str(path), "simulation": {"time": "virtual"}})
    secret = [300 + i % 7 for i in range(4 * BLOCK)]
    server.add("secret-request-id", secret, max_tokens=3, extra={"kvopt_session_id": "secret-session"})
    server.run()
    written = path.with_name("trace.parquet.journal").read_bytes()
    for packed in (np.array(secret, dtype=t).tobytes() for t in ("<u2", "<u4", "<u8")):
        assert packed[:32] not in written
    server.shutdown()
    for content in (written, path.read_bytes()):
        assert b"secret" not in content


def test_recording_ends_at_its_limit_and_never_writes_over(engine: Make, tmp_path: Path) -> None:
    path = tmp_path / "trace.parquet"
    path.write_bytes(b"precious")
    server = engine(kvopt={"pool": "off", "record": str(path), "record_limit": 600, "simulation": {"time": "virtual"}})
    turns(server, sessions=3, length=100)
    recorder = server.scheduler.kvopt.recorder
    assert "limit of 600 bytes" in recorder.stopped
    assert recorder.size < 1000
    server.shutdown()
    assert path.read_bytes() == b"precious"
    assert 1 <= read_parquet(tmp_path / "trace-2.parquet").requests < 9


KILLED = """
import sys
sys.path[:0] = {paths!r}
import conftest
from pathlib import Path
from engines import Engine
server = Engine(Path({model!r}), kvopt={{"pool": "off", "record": {record!r}, "simulation": {{"time": "virtual"}}}})
number = 0
while True:
    server.add(str(number), [10 + (number * 7 + i) % 400 for i in range(100)], max_tokens=4)
    server.run()
    number += 1
    print(number, flush=True)
"""


@pytest.mark.slow
def test_a_killed_server_leaves_a_journal(tiny_model: Path, tmp_path: Path) -> None:
    path = tmp_path / "trace.parquet"
    program = KILLED.format(paths=[str(Path(__file__).parent)], model=str(tiny_model), record=str(path))
    log = (tmp_path / "log").open("w")
    server = subprocess.Popen(
        [sys.executable, "-c", program], stdout=subprocess.PIPE, stderr=log, text=True, env=dict(os.environ)
    )
    assert server.stdout is not None
    done = 0
    deadline = time.monotonic() + 240
    for line in server.stdout:
        done = int(line) if line.strip().isdigit() else done
        if done >= 20 or time.monotonic() > deadline:
            break
    server.send_signal(signal.SIGKILL)
    server.wait(30)
    server.stdout.close()
    log.close()
    assert done >= 20, (tmp_path / "log").read_text()
    assert not path.exists()
    trace = read_trace(path.with_name("trace.parquet.journal"))
    assert trace.requests >= 20
    assert trace.output_tokens[:20].tolist() == [4] * 20
