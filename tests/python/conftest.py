from __future__ import annotations

from pathlib import Path

import pytest

from kvopt.workload import Trace, read_trace
from made_traces import SMALL_TRACE, write_mooncake


@pytest.fixture(scope="session")
def shared_dir() -> Path:
    """The folder of real traces and reference figures beside the repository."""
    path = Path(__file__).resolve().parents[2].parent / "shared"
    if not path.is_dir():
        pytest.skip("there is no folder ../shared with the real traces and reference figures")
    return path


@pytest.fixture(scope="session")
def agentic(shared_dir: Path) -> Trace:
    """400 sessions of coding agents, merged by the default seed; see traces/README.md there."""
    return read_trace(shared_dir / "traces" / "agentic-400.tar.xz")


@pytest.fixture
def small_trace_file(tmp_path: Path) -> Path:
    """SMALL_TRACE as a Mooncake file."""
    return write_mooncake(tmp_path / "small.jsonl", SMALL_TRACE)
