"""A mirror of a block table on a GPU, kept up to date by batches of changed rows."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from kvopt import _core
from kvopt.errors import ArrayError, ConfigError, DeviceError
from kvopt.scoring.arrays import CudaArray
from kvopt.scoring.device import cuda_stream, require_cuda

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray

_COLUMNS: dict[str, type[np.generic]] = {
    "last_use": np.float32,
    "cost": np.float32,
    "pace": np.float32,
    "hits": np.uint32,
    "depth": np.uint32,
    "class": np.uint8,
}


class DeviceTable:
    """Features of `rows` blocks in a GPU's memory, 21 bytes a row, for :func:`~kvopt.scoring.score` and its kin.

    Changes gather on the host and go over in one copy and one kernel a :meth:`flush`. Not for several threads at once.
    """

    def __init__(self, rows: int, *, gpu: int = 0, stream: Any = None) -> None:
        """All features are 0. `stream`: as score() takes it. Raises ConfigError, DeviceError."""
        require_cuda()
        unavailable = _core.cuda_unavailable()
        if unavailable:
            raise DeviceError(f"no GPU can be used: {unavailable}")
        if isinstance(rows, bool) or not isinstance(rows, int) or rows < 1:
            raise ConfigError(f"rows is {rows!r}; it must be a whole number of at least 1")
        self.rows = rows
        self._stream = cuda_stream(stream) or 0
        self._table = _core.CudaTable(gpu, rows, self._stream)

    def update(self, rows: ArrayLike, **columns: ArrayLike) -> None:
        """Notes new features of some rows: all of `last_use`, `cost`, `pace`, `hits`, `depth` and `class_`.

        Rows may repeat: the last counts. Raises ArrayError and ConfigError (a row that is not there) before any change.
        """
        named = {name.rstrip("_"): values for name, values in columns.items()}
        if set(named) != set(_COLUMNS):
            raise ArrayError(f"columns are {', '.join(sorted(named))}; they must be {', '.join(_COLUMNS)}")
        index = _array("rows", rows, np.uint32)
        last_use, cost, pace, hits, depth, cls = (_array(name, named[name], dtype) for name, dtype in _COLUMNS.items())
        self._table.set(index, last_use, cost, pace, hits, depth, cls)

    @property
    def pending(self) -> int:
        """Rows that changed and were not sent."""
        return self._table.pending

    def flush(self, *, stream: Any = None) -> int:
        """Queues what changed on the stream, behind earlier flushes on others; returns how many rows.

        Raises DeviceError, in a capture too.
        """
        on = cuda_stream(stream) or 0
        sent = self._table.flush(on)
        if sent:
            self._stream = on
        return sent

    def features(self) -> dict[str, CudaArray]:
        """Columns that :func:`~kvopt.scoring.score` takes; they stay where they are as long as the table lives.

        They name the stream of the last flush, on which scores run that are told no other.
        """
        addresses = self._table.addresses()
        return {
            name: CudaArray(addresses[name], (self.rows,), np.dtype(dtype), False, self._stream, self)
            for name, dtype in _COLUMNS.items()
        }


def _array(name: str, values: ArrayLike, dtype: type[np.generic]) -> NDArray[Any]:
    array = np.asarray(values)
    if array.ndim != 1:
        raise ArrayError(f"{name} has {array.ndim} axes; it must have 1")
    converted = array.astype(dtype)
    if array.dtype.kind not in "iuf" or (np.dtype(dtype).kind == "u" and not np.array_equal(converted, array)):
        raise ArrayError(f"{name} is {array.dtype}; its values must be those of {np.dtype(dtype).name}")
    return np.ascontiguousarray(converted)
