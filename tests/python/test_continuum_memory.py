"""Sessions that come and never return: the coordinator's memory stops growing at its bound (bench has a million)."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

CHILD = Path(__file__).resolve().parents[2] / "bench" / "continuum_child.py"


@pytest.mark.slow
def test_memory_stops_growing_when_the_most_sessions_are_known() -> None:
    run = subprocess.run(
        [sys.executable, CHILD, "15000", "1000"], capture_output=True, text=True, timeout=300, check=True
    )
    figures = json.loads(run.stdout)
    assert figures["decisions"] == 15_000
    assert figures["sessions"] == 1000
    assert figures["forgotten"] == 14_000
    assert figures["growth"] <= 2e6  # over the second half
    assert figures["bytes"] <= 40e6
