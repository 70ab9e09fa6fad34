"""``kvopt:*`` on vLLM's own ``/metrics``: a Prometheus collector that reads the engines' snapshots."""

from __future__ import annotations

import atexit
import json
import os
import shutil
import sys
import tempfile
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from kvopt.vllm.metrics import DECISION_BUCKETS, METRICS
from kvopt.vllm.publisher import FOLDER
from kvopt.vllm.versions import HOOKS

_MARK = "_kvopt_wrapped"


class SnapshotCollector:
    """A collector over the snapshots in a folder; a file that cannot be read is left out of that scrape."""

    def __init__(self, folder: str | os.PathLike[str]) -> None:
        self._folder = Path(folder)

    def describe(self) -> Iterable[Any]:
        """Nothing: the registry must not read files when it takes the collector."""
        return ()

    def collect(self) -> Iterator[Any]:
        """Every metric of every engine, as prometheus_client's families."""
        from prometheus_client.core import GaugeMetricFamily

        snapshots = list(self._snapshots())
        if not snapshots:
            return
        labels = list(snapshots[0]["labels"])
        options = list(snapshots[0]["info"])
        info = GaugeMetricFamily("kvopt:info", "What KVopt runs with.", labels=[*labels, *options])
        for snapshot in snapshots:
            info.add_metric([*snapshot["labels"].values(), *snapshot["info"].values()], 1.0)
        yield info
        for name in METRICS:
            family = _family(name, labels)
            for snapshot in snapshots:
                if name in snapshot["values"]:
                    _add(family, name, list(snapshot["labels"].values()), snapshot["values"][name])
            if family.samples:
                yield family

    def _snapshots(self) -> Iterator[dict[str, Any]]:
        for path in sorted(self._folder.glob("engine-*.json")):
            try:
                yield json.loads(path.read_bytes())
            except (OSError, ValueError):
                continue


def start_exporter() -> Path:
    """Make the folder, name it to the engines that this process starts, and join /metrics; once in a process."""
    given = os.environ.get(FOLDER)
    if given and Path(given).is_dir():
        folder = Path(given)
    else:
        folder = Path(tempfile.mkdtemp(prefix="kvopt-metrics-"))
        os.environ[FOLDER] = str(folder)
        atexit.register(_remove, folder, os.getpid())
    from prometheus_client import REGISTRY

    if not any(isinstance(known, SnapshotCollector) for known in list(REGISTRY._collector_to_names)):
        REGISTRY.register(SnapshotCollector(folder))
    _join_multiprocess()
    return folder


def join_registry(registry: Any) -> None:
    """Add the snapshots of engines that this process starts, if any, to a registry that is not the process's own."""
    from prometheus_client import REGISTRY

    folder = os.environ.get(FOLDER)
    if folder and registry is not REGISTRY:
        registry.register(SnapshotCollector(folder))


def _join_multiprocess() -> None:
    # With several API servers vLLM serves a registry that it makes anew, not the process's own.
    prometheus = sys.modules.get("vllm.v1.metrics.prometheus")
    original = getattr(prometheus, "get_prometheus_registry", None)
    if original is None or getattr(original, _MARK, False) or hasattr(prometheus, HOOKS):
        return

    def get_prometheus_registry() -> Any:
        registry = original()
        join_registry(registry)
        return registry

    setattr(get_prometheus_registry, _MARK, True)
    for module in (prometheus, sys.modules.get("vllm.entrypoints.serve.instrumentator.metrics")):
        if getattr(module, "get_prometheus_registry", None) is original:
            module.get_prometheus_registry = get_prometheus_registry  # type: ignore[union-attr]


def _family(name: str, labels: list[str]) -> Any:
    from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily

    metric = METRICS[name]
    kind = {"counter": CounterMetricFamily, "gauge": GaugeMetricFamily, "histogram": HistogramMetricFamily}[metric.kind]
    own = [metric.label] if metric.label else []
    return kind(f"kvopt:{name}", metric.meaning, labels=[*labels, *own])


def _add(family: Any, name: str, labels: list[str], value: Any) -> None:
    metric = METRICS[name]
    if metric.kind == "histogram":
        total = 0
        buckets: list[tuple[str, float]] = []
        for edge, count in zip((*DECISION_BUCKETS, "+Inf"), value["buckets"], strict=True):
            total += count
            buckets.append((str(edge), total))
        family.add_metric(labels, buckets, value["sum"])
    elif metric.label:
        for label, number in value.items():
            family.add_metric([*labels, label], number)
    else:
        family.add_metric(labels, value)


def _remove(folder: Path, owner: int) -> None:
    if os.getpid() == owner:
        shutil.rmtree(folder, ignore_errors=True)
