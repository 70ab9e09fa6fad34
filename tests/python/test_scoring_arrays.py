"""Arrays of other libraries: taken without a copy, or refused with the reason."""

from __future__ import annotations

from typing import Any, cast

import numpy as np
import pytest
from numpy.typing import NDArray

import kvopt
from kvopt.errors import ArrayError, ConfigError, DeviceError
from kvopt.scoring.arrays import CudaArray, share_memory, view_of
from kvopt.scoring.cuda import stream_of
from scored import NOW, all_params, random_features

PARAMS = all_params()["cost-per-age"]
N = 5000


class Foreign:
    """An array that speaks DLPack and nothing else."""

    def __init__(self, array: NDArray[Any], device: tuple[int, int] | None = None) -> None:
        self.array = array
        self.device = device or array.__dlpack_device__()

    def __dlpack__(self, **options: Any) -> Any:
        return self.array.__dlpack__(**options)

    def __dlpack_device__(self) -> tuple[int, int]:
        return self.device


class OnGpu:
    """Describes memory on a GPU that is not there."""

    def __init__(self, shape: tuple[int, ...], typestr: str = "<f4", **described: Any) -> None:
        self.__cuda_array_interface__ = {
            "shape": shape,
            "typestr": typestr,
            "data": (4096, False),
            "version": 3,
        } | described


class NeedsGradients:
    """Refuses to describe itself, as torch's tensors do that require gradients."""

    @property
    def __cuda_array_interface__(self) -> dict[str, Any]:
        raise RuntimeError("use detach()")


def columns() -> dict[str, Any]:
    made = random_features(N)
    return {name: made[name] for name in ("last_use", "cost")}


def test_dlpack_in_and_out_without_a_copy() -> None:
    plain = columns()
    expected = kvopt.score(plain, PARAMS, NOW)
    foreign = {name: Foreign(column) for name, column in plain.items()}
    np.testing.assert_array_equal(kvopt.score(foreign, PARAMS, NOW), expected)
    np.testing.assert_array_equal(kvopt.score_select(foreign, PARAMS, NOW, 9), kvopt.select_k(expected, 9))
    np.testing.assert_array_equal(kvopt.select_k(Foreign(expected), 9), kvopt.select_k(expected, 9))
    out = np.zeros_like(expected)
    assert kvopt.score(foreign, PARAMS, NOW, out=out) is out
    np.testing.assert_array_equal(out, expected)
    shared = view_of("x", foreign["cost"])
    assert isinstance(shared, np.ndarray)
    assert shared.ctypes.data == plain["cost"].ctypes.data


def test_torch_tensors() -> None:
    torch = pytest.importorskip("torch", reason="torch is not installed")
    plain = columns() | {"hits": random_features(N)["hits"]}
    tensors = {name: torch.from_numpy(column) for name, column in plain.items()}
    params = all_params()["frequency"]
    expected = kvopt.score(plain, params, NOW)
    np.testing.assert_array_equal(kvopt.score(tensors, params, NOW), expected)
    out = torch.empty(expected.shape)
    if np.from_dlpack(out).flags.writeable:
        assert kvopt.score(tensors, params, NOW, out=out) is out
        np.testing.assert_array_equal(out.numpy(), expected)
    np.testing.assert_array_equal(
        kvopt.select_k(torch.from_numpy(expected), 5, eligible=torch.ones(N, dtype=torch.bool)),
        kvopt.select_k(expected, 5),
    )
    with pytest.raises(ArrayError, match="feature 'cost'"):
        kvopt.score(tensors | {"cost": tensors["cost"].to(torch.bfloat16)}, params, NOW)
    with pytest.raises(ArrayError, match="feature 'cost' cannot be shared"):
        kvopt.score(tensors | {"cost": tensors["cost"].requires_grad_()}, params, NOW)


BAD_FEATURES: dict[str, tuple[dict[str, Any], str]] = {
    "float64": ({"cost": np.ones(N)}, "feature 'cost' is float64; it must be float32"),
    "int64": ({"hits": np.ones(N, np.int64)}, "feature 'hits' is int64; it must be uint32"),
    "byte order": ({"cost": np.ones(N, ">f4")}, "feature 'cost' is >f4; it must be float32"),
    "length": ({"cost": np.ones(N - 1, np.float32)}, r"feature 'cost' has the shape \(4999,\); it must be \(5000\)"),
    "axes": ({"cost": np.ones((1, N), np.float32)}, r"feature 'cost' has the shape \(1, 5000\)"),
    "extra": ({"extra": np.ones(N, np.float32)}, r"feature 'extra' has the shape \(5000,\); it must be \(any, 5000\)"),
    "strided": ({"cost": np.ones(2 * N, np.float32)[::2]}, r"feature 'cost' is not C-contiguous \(strides \(8,\)"),
    "list": ({"cost": [1.0] * N}, "feature 'cost' is a list; it must be an array"),
    "other device": (
        {"cost": Foreign(np.ones(N, np.float32), (4, 0))},
        "feature 'cost' lies on a device of DLPack's kind 4",
    ),
    "gpu by dlpack": ({"cost": Foreign(np.ones(N, np.float32), (2, 0))}, "feature 'cost' lies on a GPU, and its owner"),
    "two devices": ({"cost": OnGpu((N,))}, "cost lies on a GPU, last_use on the CPU"),
    "strided on the gpu": ({"cost": OnGpu((N,), strides=(8,))}, "feature 'cost' is not C-contiguous"),
    "float64 on the gpu": ({"cost": OnGpu((N,), "<f8")}, "feature 'cost' is float64"),
    "mask on the gpu": ({"cost": OnGpu((N,), mask=OnGpu((N,), "|b1"))}, "feature 'cost' has a mask"),
    "gradients": ({"cost": NeedsGradients()}, "feature 'cost' cannot be shared: use detach"),
}


@pytest.mark.parametrize("case", BAD_FEATURES)
def test_features_that_do_not_fit(case: str) -> None:
    change, message = BAD_FEATURES[case]
    with pytest.raises(ArrayError, match=message):
        kvopt.score(columns() | change, PARAMS, NOW)
    with pytest.raises(ArrayError, match=message):
        kvopt.score_select(columns() | change, PARAMS, NOW, 1)


def test_features_that_are_missing_or_unknown() -> None:
    last_use = {"last_use": columns()["last_use"]}
    with pytest.raises(ConfigError, match="feature 'cost' is missing; this score reads it"):
        kvopt.score(last_use, PARAMS, NOW)
    with pytest.raises(ConfigError, match="feature 'costs' is unknown; known: last_use, cost"):
        kvopt.score(last_use | {"costs": last_use["last_use"]}, PARAMS, NOW)
    with pytest.raises(ConfigError, match="no feature is given"):
        kvopt.score({}, PARAMS, NOW)
    with pytest.raises(ConfigError, match="'extra' has 0 columns; this score reads column 1"):
        kvopt.score(random_features(3) | {"extra": np.ones((0, 3), np.float32)}, all_params()["network"], NOW)
    with pytest.raises(ConfigError, match="now is nan; it must be finite"):
        kvopt.score(columns(), PARAMS, float("nan"))


BAD_OUT: dict[str, tuple[Any, str]] = {
    "float64": (np.ones((2, N)), "out is float64; it must be float32"),
    "shape": (np.ones((1, N), np.float32), r"out has the shape \(1, 5000\); it must be \(2, 5000\)"),
    "order": (np.ones((N, 2), np.float32).T, "out is not C-contiguous"),
    "device": (OnGpu((2, N)), "out lies on a GPU, last_use on the CPU"),
}


@pytest.mark.parametrize("case", BAD_OUT)
def test_out_that_does_not_fit(case: str) -> None:
    out, message = BAD_OUT[case]
    with pytest.raises(ArrayError, match=message):
        kvopt.score(columns(), PARAMS, NOW, out=out)


def test_out_that_must_not_be_written() -> None:
    frozen = np.ones((2, N), np.float32)
    frozen.flags.writeable = False
    with pytest.raises(ArrayError, match="out is read-only"):
        kvopt.score(columns(), PARAMS, NOW, out=frozen)
    both = np.ones((2, N), np.float32)
    with pytest.raises(ArrayError, match="out shares memory with feature 'cost'"):
        kvopt.score(columns() | {"cost": both[1]}, PARAMS, NOW, out=both)
    assert (both == 1).all()


def test_scores_and_masks_that_do_not_fit() -> None:
    scores = np.ones(N, np.float32)
    with pytest.raises(ArrayError, match="scores is float64"):
        kvopt.select_k(scores.astype(float), 1)
    with pytest.raises(ArrayError, match="eligible is int64; it must be bool or uint8"):
        kvopt.select_k(scores, 1, eligible=np.ones(N, np.int64))
    with pytest.raises(ArrayError, match=r"eligible has the shape \(4,\); it must be \(5000\)"):
        kvopt.select_k(scores, 1, eligible=np.ones(4, bool))


def test_devices() -> None:
    with pytest.raises(ConfigError, match="device is 'gpu'; it must be one of auto, cpu, cuda"):
        kvopt.score(columns(), PARAMS, NOW, device="gpu")
    with pytest.raises(ArrayError, match="last_use lies on a GPU; device='cpu'"):
        kvopt.score({"last_use": OnGpu((N,)), "cost": OnGpu((N,))}, PARAMS, NOW, device="cpu")
    np.testing.assert_array_equal(
        kvopt.score(columns(), PARAMS, NOW, device="cpu"), kvopt.score(columns(), PARAMS, NOW)
    )


def test_arrays_on_a_gpu_that_overlap() -> None:
    def at(address: int) -> CudaArray:
        return cast(CudaArray, view_of("x", OnGpu((10,), data=(address, False))))

    assert share_memory(at(4096), at(4096 + 39))
    assert share_memory(at(4096 + 39), at(4096))
    assert not share_memory(at(4096), at(4096 + 40))
    assert not share_memory(at(4096), np.zeros(10, np.float32))


def test_the_stream_that_arrays_name() -> None:
    def named(*streams: int | None) -> int:
        arrays = {str(i): view_of("x", OnGpu((N,), stream=stream)) for i, stream in enumerate(streams)}
        return stream_of(cast(dict[str, CudaArray], arrays))

    assert named(None) == 0
    assert named(None, 1) == 0  # how arrays write the legacy default stream
    assert named(0, 1) == 0
    assert named(2, None, 2) == 2
    assert named(4096) == 4096
    with pytest.raises(ArrayError, match=r"the arrays name the streams \[2, 4096\]; say stream="):
        named(2, 4096)


@pytest.mark.skipif(kvopt.build_info()["cuda"], reason="this build has CUDA kernels")
def test_no_kernels_for_the_gpu() -> None:
    gpu = {"last_use": OnGpu((N,)), "cost": OnGpu((N,))}
    for device, features in (("auto", gpu), ("cuda", gpu), ("cuda", columns())):
        with pytest.raises(DeviceError, match=r"no CUDA kernels \(kvopt.build_info\(\)\['cuda'\] is False\)"):
            kvopt.score(features, PARAMS, NOW, device=device)
    with pytest.raises(DeviceError, match="no CUDA kernels"):
        kvopt.select_k(np.ones(4, np.float32), 1, device="cuda")
