"""Simulations over several processes: the same as over one."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from command_line import succeeds
from kvopt.errors import ConfigError
from kvopt.policies import DummyPolicy
from kvopt.simulator import simulate
from kvopt.workload import CodingAgents, write_parquet

SCHEDULER = """
from kvopt.policies import DummyPolicy
from kvopt.scheduler import OrderedScheduler


class LongestFirst(OrderedScheduler):
    def rank(self, request):
        return -request.prompt_tokens


class Mine(DummyPolicy):
    pass
"""


def test_two_processes_write_the_same_files_as_one(tmp_path: Path) -> None:
    file = tmp_path / "mine.py"
    file.write_text(SCHEDULER)
    write_parquet(CodingAgents(sessions=6, seed=2, requests_median=4).load(), tmp_path / "trace.parquet")
    written = []
    for jobs in (1, 2):
        outputs = [tmp_path / f"{jobs}.json", tmp_path / f"{jobs}.parquet"]
        succeeds(
            "simulate", tmp_path / "trace.parquet", "--capacity", 3000, "--seeds", 2, "--jobs", jobs,
            "--policy", f"lru,{file}:Mine", "--scheduler", f"{file}:LongestFirst",
            "--json", outputs[0], "--events", outputs[1],
        )  # fmt: skip
        written.append([output.read_bytes() for output in outputs])
    assert written[0] == written[1]
    assert len(json.loads(written[0][0])["runs"]) == 4


def test_what_cannot_be_sent_is_an_error_before_any_work() -> None:
    class Local(DummyPolicy):
        pass

    trace = CodingAgents(sessions=2, seed=2, requests_median=2).load()
    with pytest.raises(ConfigError, match=r"jobs: 2: cannot be sent to another process: .*Local"):
        simulate(trace, ["lru", Local], 3000, jobs=2)
    with pytest.raises(ConfigError, match="jobs: 0 is not a whole number from 1 up"):
        simulate(trace, "lru", 3000, jobs=0)
