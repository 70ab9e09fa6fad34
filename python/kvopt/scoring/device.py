"""Where scores are computed: what device='auto', 'cpu' and 'cuda' mean."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Protocol

from kvopt import _core
from kvopt.errors import ArrayError, ConfigError, DeviceError
from kvopt.scoring.arrays import CudaArray, View
from kvopt.scoring.cpu import CpuScoring

if TYPE_CHECKING:
    from kvopt.scoring.params import ScoreParams

DEVICES = ("auto", "cpu", "cuda")


class Scoring(Protocol):
    """What computes on one device. Its arrays (NumPy's or CudaArray) have been checked for dtype, shape and layout."""

    def score(self, columns: Mapping[str, Any], params: ScoreParams, now: float, out: Any, *, checked: bool) -> Any:
        """Scores [P, N], written to `out` or, where that is None, to a new array, which is returned."""
        ...

    def select_k(self, scores: Any, k: int, eligible: Any, out: Any) -> Any:
        """Indices int64 [P, k] of scores [P, N]; `eligible` [N] of bool or uint8, or None; `out` as in score()."""
        ...

    def score_select(
        self,
        columns: Mapping[str, Any],
        params: ScoreParams,
        now: float,
        k: int,
        eligible: Any,
        out: Any,
        *,
        checked: bool,
    ) -> Any:
        """Indices int64 [P, k]."""
        ...


def scoring_on(device: str, arrays: Mapping[str, View | None], threads: int, stream: Any) -> Scoring:
    """The device that the arrays lie on, all of them; None counts for nothing.

    Raises ConfigError for an unknown device or a stream on the CPU, ArrayError when the arrays lie apart or elsewhere
    than asked for, and DeviceError where there are no kernels or no driver for it.
    """
    if device not in DEVICES:
        raise ConfigError(f"device is {device!r}; it must be one of {', '.join(DEVICES)}")
    on_gpu = {name: array for name, array in arrays.items() if isinstance(array, CudaArray)}
    on_cpu = [name for name, array in arrays.items() if array is not None and name not in on_gpu]
    if device == "cuda":
        require_cuda()
    if on_gpu and on_cpu:
        raise ArrayError(f"{next(iter(on_gpu))} lies on a GPU, {on_cpu[0]} on the CPU; all must lie on one device")
    if device == "cuda" and on_cpu:
        raise ArrayError(f"{on_cpu[0]} lies on the CPU; device='cuda' takes arrays on the GPU")
    if device == "cpu" and on_gpu:
        raise ArrayError(f"{next(iter(on_gpu))} lies on a GPU; device='cpu' takes arrays of the CPU")
    if on_gpu:
        require_cuda()
        from kvopt.scoring.cuda import CudaScoring

        return CudaScoring(on_gpu, stream)
    if stream is not None:
        raise ConfigError("a stream is given; arrays of the CPU have none")
    return CpuScoring(threads)


def cuda_stream(stream: Any) -> int | None:
    """The address of a stream: an int, or an object of torch (cuda_stream), CuPy (ptr) or cuda.core."""
    if stream is None or (isinstance(stream, int) and not isinstance(stream, bool) and stream >= 0):
        return stream
    for name in ("cuda_stream", "ptr"):
        address = getattr(stream, name, None)
        if isinstance(address, int):
            return address
    if hasattr(stream, "__cuda_stream__"):
        return int(stream.__cuda_stream__()[1])
    raise ConfigError(f"stream is {stream!r}; it must be a stream of torch or CuPy, or its address")


def require_cuda() -> None:
    """Raises DeviceError where this build has no kernels for GPUs."""
    if not _core.build_info()["cuda"]:
        raise DeviceError(
            "this build has no CUDA kernels (kvopt.build_info()['cuda'] is False); build where CMake finds nvcc, with "
            "KVOPT_CUDA=ON, or give arrays of the CPU"
        )
