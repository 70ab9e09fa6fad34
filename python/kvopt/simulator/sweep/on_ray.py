"""Workers on a Ray cluster, or on a local one that is started for the sweep. Needs the extra ``ray``."""

from __future__ import annotations

import contextlib
import re
import socket
import tempfile
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from kvopt.errors import ConfigError, KvoptError, SimulationError
from kvopt.simulator.sweep.cell import Cell, CellRunner, Job, Row
from kvopt.workload.parquet import read_parquet

_HOST_AND_PORT = re.compile(r"(?:ray://)?(?P<host>[^/\s]+):(?P<port>\d+)")
_LISTENING_S = 10.0  # for an answer of whoever listens at an address

_runners: dict[str, CellRunner] = {}  # of this worker process, by the digest of its trace and job


class RayWorkers:
    """Cells as tasks of one core each; the trace travels through Ray's object store, once a machine."""

    def __init__(self, address: str | None, trace_file: Path, job: Job, name: str) -> None:
        """Connect to `address` ("auto", "host:6379", "ray://host:10001"), or start a local Ray where it is None.

        `name` tells trace and job from any others. Raises ConfigError when Ray is missing or cannot be reached, for an
        address where nobody listens within ten seconds.
        """
        try:
            import ray
        except ImportError:
            raise ConfigError("--ray needs Ray: pip install 'kvopt[ray]'") from None
        if address is not None:
            _check_listening(address)
        self._ray: Any = ray
        self._ours = not ray.is_initialized()
        if self._ours:
            try:
                ray.init(address=address, log_to_driver=False, configure_logging=False, include_dashboard=None)
            except Exception as error:
                raise ConfigError(f"--ray {address or ''}: {type(error).__name__}: {error}") from None
        self._task = ray.remote(num_cpus=1)(_run)
        self._common = ray.put((name, trace_file.read_bytes(), job))

    def run(self, cells: Iterable[Cell]) -> Iterator[tuple[Cell, Row]]:
        """See Workers."""
        busy = {self._task.remote(self._common, cell): cell for cell in cells}
        while busy:
            (ready,), _ = self._ray.wait(list(busy), num_returns=1)
            cell = busy.pop(ready)
            try:
                row, error = self._ray.get(ready)
            except self._ray.exceptions.RayError as lost:
                raise SimulationError(f"the Ray worker of {cell} was lost: {lost}") from None
            if error is not None:
                raise error
            yield cell, row

    def close(self) -> None:
        """See Workers."""
        if self._ours:
            with contextlib.suppress(Exception):
                self._ray.shutdown()


def _check_listening(address: str) -> None:
    # Ray itself tries again for minutes before it says that nobody is there.
    match = _HOST_AND_PORT.fullmatch(address)
    if match is None:
        return
    try:
        socket.create_connection((match["host"].strip("[]"), int(match["port"])), timeout=_LISTENING_S).close()
    except (OSError, OverflowError) as error:
        raise ConfigError(f"--ray {address}: cannot be reached: {error}") from None


def _run(common: tuple[str, bytes, Job], cell: Cell) -> tuple[Row | None, KvoptError | None]:
    name, trace, job = common
    try:
        if name not in _runners:
            with tempfile.TemporaryDirectory() as folder:
                path = Path(folder) / "trace.parquet"
                path.write_bytes(trace)
                _runners.clear()
                _runners[name] = CellRunner(read_parquet(path), job)
        return _runners[name].run(cell), None
    except KvoptError as error:
        return None, error
