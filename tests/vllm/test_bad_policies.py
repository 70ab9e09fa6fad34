"""Policies that raise or are slow, in the real engine core: every request ends, a counter and one log line tell."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from engines import BLOCK, Engine
from kvopt.vllm.metrics import SLOW_STEP

POLICIES = f"""
import time
from kvopt.policies import RankingPolicy

class Raises(RankingPolicy):
    def rank(self, run, now):
        raise ValueError("no rank today")

class Slow(RankingPolicy):
    waits = 2
    def rank(self, run, now):
        if self.waits:
            self.waits -= 1
            time.sleep({SLOW_STEP * 1.2})
        return float(self.runs.last_use[run])
"""


@pytest.fixture
def served(engine: Callable[..., Any], tmp_path: Path, log: list[str]) -> Callable[..., Any]:
    """Serves more prompts than the pool holds, with one of these policies. Returns the engine and what was logged."""
    file = tmp_path / "bad.py"
    file.write_text(POLICIES)

    def serve(policy: str, pool: str) -> tuple[Engine, list[str]]:
        options = {"policy": f"{file}:{policy}", "pool": pool, "simulation": {"time": "virtual"}}
        server = engine(kvopt=options, blocks=24)
        for number in range(8):
            server.add(f"r{number}", [10 + (number * 97 + i) % 400 for i in range(6 * BLOCK)], max_tokens=3)
            server.run()
        return server, log

    return serve


@pytest.mark.parametrize("pool", ["native", "vllm"])
def test_a_policy_that_raises(served: Callable[..., Any], pool: str) -> None:
    server, logged = served("Raises", pool)
    assert [len(answer) for answer in server.outputs.values()] == [3] * 8
    assert server.scheduler.kvopt.metrics.snapshot()["values"]["observer_errors"] == {"policy": 1}
    assert len([line for line in logged if "LRU decides from now on" in line and "no rank today" in line]) == 1


@pytest.mark.parametrize("pool", ["native", "vllm"])
def test_a_policy_that_is_slow(served: Callable[..., Any], pool: str) -> None:
    server, logged = served("Slow", pool)
    assert [len(answer) for answer in server.outputs.values()] == [3] * 8
    values = server.scheduler.kvopt.metrics.snapshot()["values"]
    assert values["observer_errors"] == {}
    assert 1 <= values["slow_steps"] <= 2
    assert values["decision_seconds"]["sum"] >= 2 * SLOW_STEP
    assert len([line for line in logged if "held a step up" in line and "bad.py:Slow" in line]) == 1
