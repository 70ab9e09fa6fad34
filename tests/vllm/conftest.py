"""Tests against an installed vLLM: `python -m pytest tests/vllm` in an environment that has it."""

from __future__ import annotations

import importlib
import importlib.util
import os
import warnings
from pathlib import Path

import pytest

os.environ.setdefault("VLLM_TARGET_DEVICE", "cpu")
os.environ.setdefault("VLLM_NO_USAGE_STATS", "1")
os.environ.setdefault("VLLM_LOGGING_LEVEL", "ERROR")

MISSING = importlib.util.find_spec("vllm") is None
if not MISSING:
    with warnings.catch_warnings():  # what vLLM and torch warn of while they are imported is not ours to mend
        warnings.simplefilter("ignore")
        importlib.import_module("vllm.v1.core.kv_cache_manager")


class WithoutVllm(pytest.Module):
    def collect(self) -> list[pytest.Item]:
        pytest.skip("vllm is not importable here", allow_module_level=True)


def pytest_pycollect_makemodule(module_path: Path, parent: pytest.Collector) -> pytest.Module | None:
    return WithoutVllm.from_parent(parent, path=module_path) if MISSING else None


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if item.path.parent.name == "vllm":
            item.add_marker(pytest.mark.filterwarnings("ignore"))
