"""An engine's metrics as a small file that the API server reads.

vLLM's engine core usually is a process of its own, and its statistics travel in a fixed record. So the API server makes
a folder, names it in the environment that its engines inherit, and every engine keeps one file of JSON there, renewed
at most once a second, each time whole.
"""

from __future__ import annotations

import json
import os
import threading
from pathlib import Path

from kvopt.vllm.metrics import EngineMetrics

FOLDER = "KVOPT_METRICS_FOLDER"
"""The environment variable that names the folder."""

_PERIOD = 1.0


class SnapshotPublisher:
    """Writes the snapshots of one engine from a thread of its own, until it is closed."""

    def __init__(self, metrics: EngineMetrics, folder: str | os.PathLike[str]) -> None:
        self._metrics = metrics
        self._path = Path(folder) / f"engine-{metrics.labels['engine']}.json"
        self._ended = threading.Event()
        self._last = b""
        self._thread = threading.Thread(target=self._run, name="kvopt-metrics", daemon=True)
        self.publish()
        self._thread.start()

    @classmethod
    def from_environment(cls, metrics: EngineMetrics) -> SnapshotPublisher | None:
        """A publisher into the folder that the environment names; None without one."""
        folder = os.environ.get(FOLDER)
        return cls(metrics, folder) if folder and Path(folder).is_dir() else None

    def publish(self) -> None:
        """Write the snapshot now, if anything changed. A folder that is gone is no error: nobody reads any more."""
        content = json.dumps(self._metrics.snapshot()).encode()
        if content == self._last:
            return
        partial = self._path.with_suffix(f".{os.getpid()}.partial")
        try:
            partial.write_bytes(content)
            partial.replace(self._path)
        except OSError:
            return
        self._last = content

    def close(self) -> None:
        """Write a last time and end the thread."""
        self._ended.set()
        self._thread.join(timeout=5.0)
        self.publish()

    def _run(self) -> None:
        while not self._ended.wait(_PERIOD):
            try:
                self.publish()
            except RuntimeError:
                continue  # the engine changed a table under the snapshot; the next one is a second away
