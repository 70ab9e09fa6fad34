"""The k lowest: NumPy's stable argsort, in every order of the scores and with every set of vector instructions."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays
from numpy.typing import NDArray

import kvopt
from kvopt import _core, scoring
from kvopt.errors import ArrayError, ConfigError
from scored import NOW, all_params, random_features

INSTRUCTIONS = _core.scoring_instructions()
LARGE = 150_000  # enough for the first limit to come from a sample


def lowest(scores: NDArray[np.float32], k: int, eligible: NDArray[np.bool_] | None = None) -> NDArray[np.int64]:
    order = np.argsort(scores, kind="stable")
    return order[:k] if eligible is None else order[eligible[order]][:k]


def orders() -> dict[str, NDArray[np.float32]]:
    r = np.random.default_rng(0)
    drawn = r.normal(0, 1, LARGE).astype(np.float32)
    odd = drawn.copy()
    odd[::7] = np.nan
    odd[::11] = -np.inf
    odd[::13] = np.inf
    trap = np.ones(LARGE, np.float32)  # what the sample sees is lower than the rest
    stretches = LARGE // (16 * 16)  # of 16 side by side; one score in 16 is in the sample
    step = (LARGE - 16) // (stretches - 1)
    for at in range(16):
        trap[at::step] = -5
    few = np.full(LARGE, np.nan, np.float32)
    few[[5, 70_000, 149_999]] = [1, np.inf, -1]
    return {
        "random": drawn,
        "rising": np.sort(drawn),
        "falling": np.sort(drawn)[::-1].copy(),
        "equal": np.zeros(LARGE, np.float32),
        "signs of zero": np.where(drawn > 0, np.float32(0), np.float32(-0.0)),
        "few values": np.round(drawn),
        "alike side by side": np.repeat(drawn[::600], 600),
        "nan and inf": odd,
        "all nan": np.full(LARGE, np.nan, np.float32),
        "all inf": np.full(LARGE, np.inf, np.float32),
        "sample misleads": trap,
        "mostly nan": few,
        "subnormal": drawn * np.float32(1e-44),
    }


ORDERS = orders()


@pytest.mark.parametrize("instructions", INSTRUCTIONS)
@pytest.mark.parametrize("order", ORDERS)
def test_equals_a_stable_argsort(order: str, instructions: str) -> None:
    scores = ORDERS[order]
    full = np.argsort(scores, kind="stable")
    eligible = np.random.default_rng(1).random(LARGE) < 0.3
    masked = full[eligible[full]]
    for k in (0, 1, 17, 5000, 40_000):
        np.testing.assert_array_equal(_core.select_k(scores[None], k, None, instructions=instructions)[0], full[:k])
        np.testing.assert_array_equal(
            _core.select_k(scores[None], k, eligible, instructions=instructions)[0], masked[:k]
        )
    np.testing.assert_array_equal(kvopt.select_k(scores, LARGE), full)
    np.testing.assert_array_equal(kvopt.select_k(scores, 3000, threads=3), full[:3000])


@settings(deadline=None, max_examples=200)
@given(
    arrays.arrays(np.float32, st.integers(1, 60), elements=st.floats(width=32)),
    st.data(),
)
def test_small_arrays(scores: NDArray[np.float32], data: st.DataObject) -> None:
    eligible = data.draw(arrays.arrays(np.bool_, len(scores)))
    k = data.draw(st.integers(0, int(eligible.sum())))
    np.testing.assert_array_equal(kvopt.select_k(scores, k, eligible=eligible), lowest(scores, k, eligible))
    np.testing.assert_array_equal(kvopt.select_k(scores, len(scores)), lowest(scores, len(scores)))


@pytest.mark.parametrize("name", all_params())
def test_fused_is_selection_of_the_scores(name: str) -> None:
    params = all_params()[name]
    columns = random_features(LARGE if not name.startswith(("forest", "network")) else 70_000, seed=8)
    columns["last_use"][1000:1003] = np.nan
    count = len(columns["last_use"])
    eligible = np.random.default_rng(2).random(count) < 0.5
    scores = kvopt.score(columns, params, NOW)
    for threads in (1, 2):
        chosen = kvopt.score_select(columns, params, NOW, 700, threads=threads)
        np.testing.assert_array_equal(chosen, [lowest(row, 700) for row in scores])
    chosen = kvopt.score_select(columns, params, NOW, 700, eligible=eligible)
    np.testing.assert_array_equal(chosen, [lowest(row, 700, eligible) for row in scores])
    np.testing.assert_array_equal(kvopt.select_k(scores, 700, eligible=eligible.view(np.uint8)), chosen)


def test_out_takes_the_choice() -> None:
    columns = random_features(3000, seed=9)
    params = all_params()["asymcache"]
    wanted = kvopt.score_select(columns, params, NOW, 40)
    out = np.zeros((3, 40), np.int64)
    assert kvopt.score_select(columns, params, NOW, 40, out=out) is out
    np.testing.assert_array_equal(out, wanted)
    scores = kvopt.score(columns, params, NOW)
    out[:] = 0
    assert kvopt.select_k(scores, 40, out=out) is out
    np.testing.assert_array_equal(out, wanted)
    one = np.zeros(40, np.int64)
    assert kvopt.select_k(scores[1], 40, out=one) is one
    np.testing.assert_array_equal(one, wanted[1])


def test_out_that_does_not_fit() -> None:
    columns = random_features(50, seed=9)
    scores = kvopt.score(columns, scoring.recency(), NOW)
    mask = np.ones(320, np.uint8)
    read_only = np.zeros((1, 5), np.int64)
    read_only.flags.writeable = False
    for out, message in (
        (np.zeros((1, 5), np.int32), "out is int32; it must be int64"),
        (np.zeros((1, 4), np.int64), r"out has the shape \(1, 4\); it must be \(1, 5\)"),
        (np.zeros((1, 10), np.int64)[:, ::2], "out is not C-contiguous"),
        (read_only, "out is read-only"),
        (mask[:40].view(np.int64)[None], "out shares memory with eligible"),
    ):
        with pytest.raises(ArrayError, match=message):
            kvopt.select_k(scores, 5, eligible=mask[:50], out=out)
        with pytest.raises(ArrayError, match=message):
            kvopt.score_select(columns, scoring.recency(), NOW, 5, eligible=mask[:50], out=out)
    with pytest.raises(ArrayError, match=r"out has the shape \(1, 5\); it must be \(5\)"):
        kvopt.select_k(scores[0], 5, out=np.zeros((1, 5), np.int64))


def test_more_than_there_are() -> None:
    scores = np.arange(10, dtype=np.float32)
    with pytest.raises(ConfigError, match="k is 11; it must be a whole number from 0 to 10"):
        kvopt.select_k(scores, 11)
    with pytest.raises(ConfigError, match="k is 4; 3 blocks are eligible"):
        kvopt.select_k(scores, 4, eligible=scores < 3)
    with pytest.raises(ConfigError, match="k is 4; 3 blocks are eligible"):
        kvopt.score_select({"last_use": scores}, scoring.recency(), NOW, 4, eligible=scores < 3)
    for k in (-1, 1.0, True, "1"):
        with pytest.raises(ConfigError, match="k is "):
            kvopt.select_k(scores, k)  # type: ignore[arg-type]
    for threads in (0, 1025, 1.5):
        with pytest.raises(ConfigError, match=r"threads is .* from 1 to 1024"):
            kvopt.select_k(scores, 1, threads=threads)  # type: ignore[arg-type]
