"""What is counted, and that it appears where vLLM's own metrics do."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from engines import BLOCK
from kvopt.vllm import exporter, publisher

Make = Callable[..., Any]


def prompt(length: int, seed: int = 0) -> list[int]:
    return [10 + (seed * 97 + i * 31) % 400 for i in range(length)]


@pytest.fixture
def folder(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """A metrics folder of this test's own."""
    monkeypatch.setenv(publisher.FOLDER, str(tmp_path))
    return tmp_path


def test_counts_of_an_engine(engine: Make, folder: Path) -> None:
    server = engine(
        kvopt={"pool": "off", "prefill": {"k1": 2.0, "k3": 0.001}, "simulation": {"time": "virtual"}}, blocks=20
    )
    server.add("a", prompt(4 * BLOCK), max_tokens=3)
    server.run()
    server.add("b", prompt(4 * BLOCK + 10), max_tokens=3)
    server.run()
    for seed in range(1, 5):
        server.add(f"c{seed}", prompt(6 * BLOCK, seed), max_tokens=3)
        server.run()
    server.add("d", prompt(50), max_tokens=30)
    server.step()
    server.core.abort_requests(["d"])
    server.run()
    values = server.scheduler.kvopt.metrics.snapshot()["values"]
    assert values["requests"] == {"length": 6, "abort": 1}
    assert values["hit_tokens"] == 4 * BLOCK
    assert values["hit_blocks"] == 4
    assert values["prompt_tokens"] == 8 * BLOCK + 10 + 24 * BLOCK + 50
    saved = 2.0 * 4 * BLOCK + 0.001 * (4 * BLOCK) ** 2 / 2
    assert values["saved_prefill_seconds"] == pytest.approx(saved / 1000)
    assert values["stored_blocks"] >= 4 + 24
    assert values["evicted_blocks"]["capacity"] >= 4 + 24 + 2 - 19
    assert values["free_blocks"] == 19
    assert sum(values["decision_seconds"]["buckets"]) > 10


@pytest.mark.parametrize("pool", ["native", "vllm"])
def test_what_hits_saved_stands_beside_what_lru_would_have_saved(engine: Make, pool: str) -> None:
    server = engine(
        kvopt={"policy": "cost-aware", "pool": pool, "metrics": False, "simulation": {"time": "virtual"}}, blocks=30
    )
    for number in range(2):
        server.add(f"r{number}", prompt(4 * BLOCK + 10), max_tokens=3)
        server.run()
    values = server.scheduler.kvopt.metrics.snapshot()["values"]
    assert values["hit_tokens"] == 4 * BLOCK
    assert values["saved_tokens"] == pytest.approx(4 * BLOCK, rel=0.01)  # the later ones cost a little more
    assert values["shadow_lru_saved_tokens"] == pytest.approx(values["saved_tokens"])  # all fits
    assert values["lru_decides"] == 0.0


def test_policies_without_a_shadow_of_lru_show_none(engine: Make) -> None:
    server = engine(kvopt={"policy": "lru", "metrics": False, "simulation": {"time": "virtual"}})
    assert "saved_tokens" not in server.scheduler.kvopt.metrics.snapshot()["values"]


def test_metrics_are_on_vllms_page(engine: Make, folder: Path) -> None:
    from prometheus_client import generate_latest
    from vllm.v1.metrics.prometheus import get_prometheus_registry

    assert exporter.start_exporter() == folder
    registry = get_prometheus_registry()
    for known in list(registry._collector_to_names):
        if isinstance(known, exporter.SnapshotCollector):
            registry.unregister(known)
    exporter.start_exporter()
    exporter.start_exporter()  # again changes nothing
    server = engine(kvopt={"pool": "off", "policy": "lru", "simulation": {"time": "virtual"}})
    server.add("a", prompt(100), max_tokens=3)
    server.run()
    server.shutdown()
    page = generate_latest(registry).decode()
    lines = [line for line in page.splitlines() if line.startswith("kvopt:")]
    assert (
        sum("kvopt:requests_total{" in line and 'stop="length"' in line and line.endswith(" 1.0") for line in lines)
        == 1
    )
    assert any("kvopt:info{" in line and 'policy="lru"' in line for line in lines)
    assert any("kvopt:decision_seconds_bucket" in line and 'le="+Inf"' in line for line in lines)


def test_a_snapshot_that_is_damaged_is_left_out(folder: Path) -> None:
    (folder / "engine-0.json").write_text("{")
    assert list(exporter.SnapshotCollector(folder).collect()) == []
