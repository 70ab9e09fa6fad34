"""Arrays of other libraries, without a copy: NumPy and what speaks DLPack on the CPU, __cuda_array_interface__ on GPUs.

Nothing here imports another library: an object says itself where it lies.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from kvopt.errors import ArrayError

if TYPE_CHECKING:
    from numpy.typing import NDArray

_CPU_DEVICES = {1, 3, 11}  # DLDeviceType: kDLCPU, and memory of the host that CUDA or ROCm has pinned
_CUDA_DEVICES = {2, 13}  # kDLCUDA, kDLCUDAManaged


@dataclass(frozen=True, slots=True)
class CudaArray:
    """Memory on a GPU, as `__cuda_array_interface__` (version 3) describes it; C-contiguous."""

    pointer: int
    shape: tuple[int, ...]
    dtype: np.dtype[Any]
    writable: bool
    stream: int | None
    """Work of the owner that must come first runs on this stream; None: there is nothing to wait for."""
    owner: Any
    """Keeps the memory alive."""

    @property
    def ndim(self) -> int:
        """Axes."""
        return len(self.shape)

    @property
    def nbytes(self) -> int:
        """Bytes of all entries."""
        return math.prod(self.shape) * self.dtype.itemsize

    def __getitem__(self, axis: None) -> CudaArray:
        """The same memory with an axis of length 1 in front, as NumPy's [None]."""
        return replace(self, shape=(1, *self.shape))


View: TypeAlias = "NDArray[Any] | CudaArray"


def view_of(name: str, value: Any) -> View:
    """The same memory. Raises ArrayError for what is no array, cannot be shared, or is not C-contiguous."""
    if isinstance(value, CudaArray):
        return value
    described = _cuda_interface(name, value)
    if described is not None:
        return _cuda_view(name, value, described)
    if isinstance(value, np.ndarray):
        array: NDArray[Any] = value
    elif hasattr(value, "__dlpack__"):
        array = _from_dlpack(name, value)
    else:
        raise ArrayError(
            f"{name} is a {type(value).__name__}; it must be an array of NumPy's, or speak DLPack or "
            "__cuda_array_interface__"
        )
    if not array.flags.c_contiguous:
        raise ArrayError(f"{name} is not C-contiguous (strides {array.strides} for shape {array.shape})")
    return array


def require(name: str, array: View, dtypes: tuple[type[np.generic], ...], shape: tuple[int | None, ...]) -> None:
    """One of these dtypes, and this shape, in which None is any length. Raises ArrayError."""
    if array.dtype.type not in dtypes or not array.dtype.isnative:
        wanted = " or ".join(np.dtype(dtype).name for dtype in dtypes)
        raise ArrayError(f"{name} is {array.dtype}; it must be {wanted}")
    fits = array.ndim == len(shape) and all(w is None or n == w for n, w in zip(array.shape, shape, strict=True))
    if not fits:
        wanted = ", ".join("any" if w is None else str(w) for w in shape)
        raise ArrayError(f"{name} has the shape {array.shape}; it must be ({wanted})")


def share_memory(a: View, b: View) -> bool:
    """Whether a byte may belong to both."""
    if isinstance(a, CudaArray) and isinstance(b, CudaArray):
        return a.pointer < b.pointer + b.nbytes and b.pointer < a.pointer + a.nbytes
    return isinstance(a, np.ndarray) and isinstance(b, np.ndarray) and np.may_share_memory(a, b)


def _from_dlpack(name: str, value: Any) -> NDArray[Any]:
    kind, _ = value.__dlpack_device__()
    if kind in _CUDA_DEVICES:
        raise ArrayError(f"{name} lies on a GPU, and its owner has no __cuda_array_interface__ to read it by")
    if kind not in _CPU_DEVICES:
        raise ArrayError(f"{name} lies on a device of DLPack's kind {kind}; it must be a CPU or CUDA")
    try:
        array: NDArray[Any] = np.from_dlpack(value)
    except (BufferError, RuntimeError, TypeError, ValueError) as error:
        raise ArrayError(f"{name} cannot be shared: {error}") from error
    return array


def _cuda_interface(name: str, value: Any) -> dict[str, Any] | None:
    try:
        described: dict[str, Any] | None = getattr(value, "__cuda_array_interface__", None)
    except (KeyError, RuntimeError, TypeError, ValueError) as error:  # as torch says that a tensor requires gradients
        raise ArrayError(f"{name} cannot be shared: {error}") from error
    return described


def _cuda_view(name: str, value: Any, described: dict[str, Any]) -> CudaArray:
    pointer, read_only = described["data"]
    if described.get("mask") is not None:
        raise ArrayError(f"{name} has a mask; it must be a plain array")
    shape = tuple(int(n) for n in described["shape"])
    dtype = np.dtype(described["typestr"])
    strides = described.get("strides")
    if strides is not None and tuple(strides) != _contiguous_strides(shape, dtype.itemsize):
        raise ArrayError(f"{name} is not C-contiguous (strides {tuple(strides)} for shape {shape})")
    return CudaArray(int(pointer), shape, dtype, not read_only, described.get("stream"), value)


def _contiguous_strides(shape: tuple[int, ...], itemsize: int) -> tuple[int, ...]:
    strides = []
    for length in reversed(shape):
        strides.append(itemsize)
        itemsize *= length
    return tuple(reversed(strides))
