"""A build with CUDA kernels: what it says on a machine without a GPU, and what it computes on one with it."""

from __future__ import annotations

import numpy as np
import pytest

import kvopt
from kvopt import _core, scoring
from kvopt.errors import ArrayError, ConfigError, DeviceError

if not kvopt.build_info()["cuda"]:
    pytest.skip("this build has no CUDA kernels", allow_module_level=True)

NO_GPU = _core.cuda_unavailable()
needs_gpu = pytest.mark.skipif(bool(NO_GPU), reason=f"no GPU can be used: {NO_GPU}")
without_gpu = pytest.mark.skipif(not NO_GPU, reason="this machine has a GPU")


class Elsewhere:
    """Says that it lies on a GPU."""

    def __init__(self, shape: tuple[int, ...], typestr: str) -> None:
        self.__cuda_array_interface__ = {"version": 3, "shape": shape, "typestr": typestr, "data": (4096, False)}


@without_gpu
def test_without_a_gpu_the_error_says_why() -> None:
    features = {"last_use": Elsewhere((8,), "<f4")}
    for call in (
        lambda: kvopt.score(features, scoring.recency(), 1.0),
        lambda: kvopt.score(features, scoring.recency(), 1.0, device="cuda"),
        lambda: kvopt.score_select(features, scoring.recency(), 1.0, 2),
        lambda: kvopt.select_k(Elsewhere((8,), "<f4"), 2),
        lambda: scoring.DeviceTable(10),
    ):
        with pytest.raises(DeviceError, match=r"no GPU can be used: .+"):
            call()


@without_gpu
def test_arrays_of_the_cpu_are_scored_as_in_any_build() -> None:
    last_use = np.array([3, 1, 2], np.float32)
    assert kvopt.score_select({"last_use": last_use}, scoring.recency(), 5.0, 3)[0].tolist() == [1, 2, 0]
    with pytest.raises(ArrayError, match="lies on the CPU"):
        kvopt.score({"last_use": last_use}, scoring.recency(), 5.0, device="cuda")


def test_a_stream_is_for_arrays_on_a_gpu() -> None:
    with pytest.raises(ConfigError, match="a stream is given; arrays of the CPU have none"):
        kvopt.score({"last_use": np.zeros(2, np.float32)}, scoring.recency(), 5.0, stream=0)


@needs_gpu
def test_a_gpu_scores_and_selects_as_the_cpu() -> None:
    random = np.random.default_rng(1)
    count = 100_003
    table = scoring.DeviceTable(count)
    columns = {
        "last_use": random.uniform(0, 1000, count).astype(np.float32),
        "cost": random.uniform(0, 9, count).astype(np.float32),
        "pace": np.ones(count, np.float32),
        "hits": random.integers(0, 99, count).astype(np.uint32),
        "depth": np.zeros(count, np.uint32),
    }
    cls = random.integers(0, 4, count).astype(np.uint8)
    table.update(np.arange(count), **columns, class_=cls)
    assert table.flush() == count
    params = scoring.cost_per_age([0.5, 2.0])
    here = kvopt.score({**columns, "class": cls}, params, 1000.0)
    there = kvopt.score(table.features(), params, 1000.0)
    np.testing.assert_array_max_ulp(there.numpy(), here, maxulp=1)
    chosen = kvopt.score_select(table.features(), params, 1000.0, 500)
    assert np.array_equal(chosen.numpy(), kvopt.select_k(there.numpy(), 500))
