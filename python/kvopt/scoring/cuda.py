"""Scores on a GPU: the core's kernels, queued on the caller's stream."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import TYPE_CHECKING, Any

import numpy as np

from kvopt import _core
from kvopt.errors import ArrayError, DeviceError
from kvopt.scoring.arrays import CudaArray
from kvopt.scoring.device import cuda_stream

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from kvopt.scoring.params import ScoreParams

_LEGACY_STREAM = 0
_LEGACY_STREAM_OF_ARRAYS = 1  # how __cuda_array_interface__ writes it


class DeviceArray:
    """A result on a GPU, which torch.as_tensor and cupy.asarray take without a copy.

    What wrote it runs on `stream`: another stream must wait for that one first, as for any array of the library that
    owns the stream.
    """

    def __init__(
        self, shape: tuple[int, ...], dtype: type[np.generic], device: int, stream: int, owner: Any = None
    ) -> None:
        """`owner`: what keeps the stream alive, on which the memory is freed. Raises DeviceError."""
        self.shape = shape
        self.dtype = np.dtype(dtype)
        self.device = device
        self.stream = stream
        self._stream_owner = owner
        self._memory = _core.CudaMemory(device, int(np.prod(shape)) * self.dtype.itemsize, stream)
        self.address: int = self._memory.address

    @property
    def __cuda_array_interface__(self) -> dict[str, Any]:
        return {
            "version": 3,
            "shape": self.shape,
            "typestr": self.dtype.str,
            "data": (self.address, False),
            "strides": None,
            "stream": self.stream or _LEGACY_STREAM_OF_ARRAYS,
        }

    def __getitem__(self, row: int) -> DeviceArray:
        """Row `row` of the first axis: the same memory. Raises IndexError."""
        if not self.shape or not 0 <= row < self.shape[0]:
            raise IndexError(f"row {row} of shape {self.shape}")
        view = object.__new__(DeviceArray)
        view.__dict__.update(self.__dict__)
        view.shape = self.shape[1:]
        view.address = self.address + row * int(np.prod(view.shape)) * self.dtype.itemsize
        return view

    def numpy(self) -> NDArray[Any]:
        """A copy for the CPU; waits for the stream. Raises DeviceError."""
        host = np.empty(self.shape, self.dtype)
        _core.cuda_to_host(self.address, host, self.device, self.stream)
        return host

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> NDArray[Any]:
        if copy is False:
            raise ValueError("an array on a GPU cannot be one of NumPy's without a copy")
        return self.numpy().astype(dtype or self.dtype, copy=False)


class CudaScoring:
    """:class:`~kvopt.scoring.device.Scoring` for arrays on one GPU."""

    def __init__(self, arrays: Mapping[str, CudaArray], stream: Any) -> None:
        """`stream`: as score() takes it. Raises ArrayError for arrays of several GPUs, DeviceError without a driver."""
        unavailable = _core.cuda_unavailable()
        if unavailable:
            raise DeviceError(f"no GPU can be used: {unavailable}")
        devices = {name: _core.cuda_device_of(array.pointer) for name, array in arrays.items() if array.pointer}
        for name, device in devices.items():
            if device < 0:
                raise ArrayError(f"{name} says that it lies on a GPU; the driver does not know its address")
        if len(set(devices.values())) > 1:
            places = ", ".join(f"{name} on {device}" for name, device in devices.items())
            raise ArrayError(f"the arrays lie on several GPUs ({places}); all must lie on one")
        self.device = next(iter(devices.values()), 0)
        address = cuda_stream(stream)
        self.stream = address if address is not None else stream_of(arrays)
        self._stream_owner = stream
        self.scorer = _scorer(self.device)

    def score(
        self, columns: Mapping[str, CudaArray], params: ScoreParams, now: float, out: Any, *, checked: bool
    ) -> DeviceArray | CudaArray:
        """Scores [P, N]."""
        count = _count(columns)
        target = out if out is not None else self._result((params.sets, count), np.float32)
        native = params.native()
        self.scorer.score(_addresses(columns), count, native, now, _address(target), self.stream, checked=checked)
        return target

    def select_k(
        self, scores: CudaArray, k: int, eligible: CudaArray | None, out: CudaArray | None
    ) -> DeviceArray | CudaArray:
        """Indices [P, k] of scores [P, N]."""
        sets, count = scores.shape
        target = out if out is not None else self._result((sets, k), np.int64)
        self.scorer.select_k(scores.pointer, sets, count, k, _address(eligible), _address(target), self.stream)
        return target

    def score_select(
        self,
        columns: Mapping[str, CudaArray],
        params: ScoreParams,
        now: float,
        k: int,
        eligible: CudaArray | None,
        out: CudaArray | None,
        *,
        checked: bool,
    ) -> DeviceArray | CudaArray:
        """Indices [P, k]."""
        target = out if out is not None else self._result((params.sets, k), np.int64)
        self.scorer.score_select(
            _addresses(columns),
            _count(columns),
            params.native(),
            now,
            k,
            _address(eligible),
            _address(target),
            self.stream,
            checked=checked,
        )
        return target

    def _result(self, shape: tuple[int, ...], dtype: type[np.generic]) -> DeviceArray:
        return DeviceArray(shape, dtype, self.device, self.stream, self._stream_owner)


@cache
def _scorer(device: int) -> _core.CudaScorer:
    """One a GPU, so that its workspaces are found again."""
    return _core.CudaScorer(device)


def stream_of(arrays: Mapping[str, CudaArray]) -> int:
    """The one stream that the arrays name, else the legacy default, which waits for all blocking ones."""
    named = {array.stream or _LEGACY_STREAM_OF_ARRAYS for array in arrays.values() if array.stream is not None}
    if len(named) > 1:
        raise ArrayError(f"the arrays name the streams {sorted(named)}; say stream= and make it wait for them")
    stream = named.pop() if named else _LEGACY_STREAM
    return _LEGACY_STREAM if stream == _LEGACY_STREAM_OF_ARRAYS else stream


def _count(columns: Mapping[str, CudaArray]) -> int:
    return next(iter(columns.values())).shape[-1]


def _address(array: CudaArray | DeviceArray | None) -> int:
    if array is None:
        return 0
    return array.address if isinstance(array, DeviceArray) else array.pointer


def _addresses(columns: Mapping[str, CudaArray]) -> dict[str, tuple[int, int]]:
    return {name: (array.pointer, array.shape[0] if array.ndim == 2 else 0) for name, array in columns.items()}
