"""Specs of sweeps over a small trace, and policies that tell when they are made."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from pathlib import Path

from made_traces import SMALL_TRACE, write_mooncake

SPEC = """
[trace]
path = "small.jsonl"

[grid]
policies = ["lru", "fifo"]
capacities = [10, 16]
schedulers = ["fifo", "shortest-prefill"]
rates = [1, 2.5]
seeds = 2

[server]
profile = "k0=1000"
"""
CELLS = 32

POLICIES = """
import os
import signal
import time
from pathlib import Path

from kvopt.policies import RankingPolicy

HERE = Path(__file__).parent


class Oldest(RankingPolicy):
    def rank(self, run, now):
        return float(self.runs.last_use[run])


class Counted(Oldest):
    def __init__(self):
        super().__init__()
        with (HERE / "made").open("a") as made:
            made.write("x")


class Gated(Oldest):
    def __init__(self):
        super().__init__()
        while not (HERE / "open").exists():
            time.sleep(0.01)


class Killed(Oldest):
    def __init__(self):
        super().__init__()
        os.kill(os.getpid(), signal.SIGKILL)


class Broken(Oldest):
    def __init__(self):
        raise ValueError("no rank today")
"""


def write_spec(folder: Path, text: str = SPEC, **change: str) -> Path:
    """A spec beside its trace and policies; `change` replaces the lines of keys, an empty text removes one."""
    write_mooncake(folder / "small.jsonl", SMALL_TRACE)
    (folder / "mine.py").write_text(POLICIES)
    lines = []
    for line in text.splitlines():
        key = line.partition(" ")[0]
        if key not in change:
            lines.append(line)
        elif change[key]:
            lines.append(f"{key} = {change[key]}")
    path = folder / "spec.toml"
    path.write_text("\n".join(lines) + "\n")
    return path


def until(true: Callable[[], bool], what: str, seconds: float = 60.0) -> None:
    """Wait for something that another process does."""
    end = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < end, f"still not: {what}"
        time.sleep(0.02)


def is_running(pid: int) -> bool:
    """Whether a process is there and no zombie."""
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except (OSError, IndexError):
        return False
    return state != "Z"


def children(pid: int) -> list[int]:
    """The processes that a process started."""
    found = []
    for entry in os.listdir("/proc"):
        if entry.isdigit():
            try:
                fields = Path(f"/proc/{entry}/stat").read_text().rpartition(")")[2].split()
            except OSError:
                continue
            if int(fields[1]) == pid:
                found.append(int(entry))
    return found
