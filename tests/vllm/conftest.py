"""Engines on vLLM's own core, in this process, with its CPU kernels or with the simulated executor."""

from __future__ import annotations

import os

os.environ.setdefault("VLLM_ENABLE_V1_MULTIPROCESSING", "0")
os.environ.setdefault("VLLM_TARGET_DEVICE", "cpu")
os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("HF_HUB_OFFLINE", "1")
os.environ.setdefault("VLLM_NO_USAGE_STATS", "1")
os.environ.setdefault("DO_NOT_TRACK", "1")
os.environ.setdefault("VLLM_LOGGING_LEVEL", "WARNING")

import importlib
import importlib.util
import logging
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

MISSING = importlib.util.find_spec("vllm") is None
if not MISSING:
    with warnings.catch_warnings():  # what vLLM and torch warn of while they are imported is not ours to mend
        warnings.simplefilter("ignore")
        importlib.import_module("vllm.v1.engine.core")


HERE = Path(__file__).parent


class WithoutVllm(pytest.Module):
    def collect(self) -> list[pytest.Item]:
        pytest.skip("vllm is not importable here", allow_module_level=True)


def pytest_pycollect_makemodule(module_path: Path, parent: pytest.Collector) -> pytest.Module | None:
    return WithoutVllm.from_parent(parent, path=module_path) if MISSING else None


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Only what KVopt warns of is an error here: vLLM and torch warn of themselves all the time."""
    for item in items:
        if HERE in item.path.parents:
            item.add_marker(pytest.mark.filterwarnings("ignore"))
            item.add_marker(pytest.mark.filterwarnings("error:::kvopt"))


def pytest_report_header() -> str:
    if MISSING:
        return "vllm is not importable here: its tests are skipped; `make test-vllm` runs them"
    import vllm

    from engines import has_kernels

    return f"vllm {vllm.__version__}, kernels: {has_kernels()}"


@pytest.fixture(scope="session")
def shared_dir() -> Path:
    """The folder of real traces and reference figures beside the repository."""
    path = Path(__file__).resolve().parents[2].parent / "shared"
    if not path.is_dir():
        pytest.skip("there is no folder ../shared with the real traces and reference figures")
    return path


@pytest.fixture(scope="session")
def tiny_model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A two-layer Llama with full attention."""
    from tiny_model import make_model

    return make_model(tmp_path_factory.mktemp("llama"))


@pytest.fixture(scope="session")
def windowed_model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The same with one layer of full attention and one with a sliding window of 64 tokens."""
    from tiny_model import make_model

    return make_model(
        tmp_path_factory.mktemp("windowed"),
        sliding_window=64,
        layer_types=["full_attention", "sliding_attention"],
    )


@pytest.fixture(scope="session")
def patched_vllm(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """Environment in which a program finds a patched vLLM, and no plugins."""
    from kvopt.vllm.patching import apply_patch
    from vllm_copies import link_vllm

    site = link_vllm(tmp_path_factory.mktemp("site-packages"))
    apply_patch(site)
    rest = os.environ.get("PYTHONPATH")
    return {"PYTHONPATH": os.pathsep.join([str(site), *([rest] if rest else [])]), "VLLM_PLUGINS": ""}


@pytest.fixture
def engine(tiny_model: Path) -> Iterator[Callable[..., Any]]:
    """Makes engine cores: ``engine(kvopt={...}, blocks=64, **engine_arguments)``; they are shut down afterwards."""
    from engines import Engine

    made: list[Engine] = []

    def make(**arguments: Any) -> Engine:
        made.append(Engine(arguments.pop("model", tiny_model), **arguments))
        return made[-1]

    yield make
    for one in made:
        one.shutdown()


@pytest.fixture
def log(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What KVopt logs, as lines; vLLM's own handler does not pass them on, and its first engine drops all others."""
    lines: list[str] = []
    logger = logging.getLogger("vllm.kvopt")
    handle = logger.handle

    def noted(record: logging.LogRecord) -> None:
        lines.append(record.getMessage())
        handle(record)

    monkeypatch.setattr(logger, "handle", noted)
    monkeypatch.setattr(logger, "isEnabledFor", lambda level: level >= logging.INFO)
    return lines
