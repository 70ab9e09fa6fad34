"""Where scores are computed: what device='auto', 'cpu' and 'cuda' mean."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Protocol

from kvopt import _core
from kvopt.errors import ArrayError, ConfigError, DeviceError
from kvopt.scoring.arrays import CudaArray, View
from kvopt.scoring.cpu import CpuScoring

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from kvopt.scoring.params import ScoreParams

DEVICES = ("auto", "cpu", "cuda")


class Scoring(Protocol):
    """What computes on one device. Its arrays (NumPy's or CudaArray) have been checked for dtype, shape and layout."""

    def score(self, columns: Mapping[str, Any], params: ScoreParams, now: float, out: Any, *, checked: bool) -> Any:
        """Scores [P, N], written to `out` or, where that is None, to a new array, which is returned."""
        ...

    def select_k(self, scores: Any, k: int, eligible: Any) -> NDArray[np.uint32]:
        """Indices [P, k] of scores [P, N]; `eligible` [N] of bool or uint8, or None."""
        ...

    def score_select(
        self, columns: Mapping[str, Any], params: ScoreParams, now: float, k: int, eligible: Any, *, checked: bool
    ) -> NDArray[np.uint32]:
        """Indices [P, k]."""
        ...


def scoring_on(device: str, arrays: Mapping[str, View | None], threads: int) -> Scoring:
    """The device that the arrays lie on, all of them; None counts for nothing.

    Raises ConfigError for an unknown device, ArrayError when the arrays lie apart or elsewhere than asked for, and
    DeviceError where there are no kernels for it.
    """
    if device not in DEVICES:
        raise ConfigError(f"device is {device!r}; it must be one of {', '.join(DEVICES)}")
    if device == "cuda":
        cuda_scoring()
    on_gpu = [name for name, array in arrays.items() if isinstance(array, CudaArray)]
    on_cpu = [name for name, array in arrays.items() if array is not None and name not in on_gpu]
    if on_gpu and on_cpu:
        raise ArrayError(f"{on_gpu[0]} lies on a GPU, {on_cpu[0]} on the CPU; all must lie on one device")
    if device == "cuda" and on_cpu:
        raise ArrayError(f"{on_cpu[0]} lies on the CPU; device='cuda' takes arrays on the GPU")
    if device == "cpu" and on_gpu:
        raise ArrayError(f"{on_gpu[0]} lies on a GPU; device='cpu' takes arrays of the CPU")
    return cuda_scoring() if on_gpu else CpuScoring(threads)


def cuda_scoring() -> Scoring:
    """The GPU's. Raises DeviceError where this build has none."""
    if not _core.build_info()["cuda"]:
        raise DeviceError(
            "this build has no CUDA kernels (kvopt.build_info()['cuda'] is False); build where CMake finds nvcc, with "
            "KVOPT_CUDA=ON, or give arrays of the CPU"
        )
    raise DeviceError("this version has no CUDA kernels for scores yet; give arrays of the CPU")
