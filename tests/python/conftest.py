from __future__ import annotations

import json
from pathlib import Path

import pytest

from made_traces import SMALL_TRACE


@pytest.fixture(scope="session")
def shared_dir() -> Path:
    """The folder of real traces and reference figures beside the repository."""
    path = Path(__file__).resolve().parents[2].parent / "shared"
    if not path.is_dir():
        pytest.skip("there is no folder ../shared with the real traces and reference figures")
    return path


@pytest.fixture
def small_trace_file(tmp_path: Path) -> Path:
    """SMALL_TRACE as a Mooncake file."""
    lines = [
        json.dumps({"timestamp": time, "input_length": tokens, "output_length": 10, "hash_ids": ids})
        for time, tokens, ids in SMALL_TRACE
    ]
    path = tmp_path / "small.jsonl"
    path.write_text("\n".join(lines) + "\n")
    return path
