"""Scores against their formulas in float64, with every set of vector instructions that this processor has."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from numpy.typing import NDArray

import kvopt
from kvopt import _core, scoring
from kvopt.errors import ConfigError
from kvopt.scoring import ScoreParams
from score_reference import Features, reference
from scored import CLASSES, NOW, all_params, extreme_features, random_features

PARAMS = all_params()
INSTRUCTIONS = _core.scoring_instructions()


def score_with(features: Features, params: ScoreParams, now: float, instructions: str) -> NDArray[np.float32]:
    out = np.empty((params.sets, len(features["last_use"])), np.float32)
    _core.score(features, params.native(), now, out, instructions=instructions)
    return out


def assert_within_one_ulp(actual: NDArray[np.float32], expected: NDArray[np.float64], slack: float) -> None:
    """`slack`: absolute, for what float64 itself loses where terms cancel."""
    with np.errstate(over="ignore"):
        rounded = expected.astype(np.float32)
    same = (actual == rounded) | (np.isnan(actual) & np.isnan(rounded))
    with np.errstate(invalid="ignore"):
        step = np.spacing(np.abs(rounded))
        near = np.abs(actual.astype(np.float64) - rounded) <= step + slack
    bad = ~(same | near)
    assert not bad.any(), (actual[bad][:5], rounded[bad][:5], int(bad.sum()))


@pytest.mark.parametrize("instructions", INSTRUCTIONS)
@pytest.mark.parametrize("name", PARAMS)
@pytest.mark.parametrize("features", ["random", "extreme"])
def test_within_one_ulp_of_float64(features: str, name: str, instructions: str) -> None:
    columns = random_features(30_011) if features == "random" else extreme_features()
    params = PARAMS[name]
    expected = reference(columns, params, NOW)
    # The terms of these sums are up to 1e9 and float64 has 2^-53 of that; scores near 0 cannot be better.
    slack = {"asymcache": 1e-12, "network": 1e-9}.get(name, 0) * (1 if features == "random" else 1e3)
    if name == "network" and features == "extreme":
        magnitude = np.nan_to_num(np.abs(expected), posinf=0)
        slack += float(magnitude.max()) * 1e-15
    assert_within_one_ulp(score_with(columns, params, NOW, instructions), expected, slack)


def test_age_of_zero_and_cost_of_zero() -> None:
    columns = {"last_use": np.array([NOW, NOW, 9e9], np.float32), "cost": np.array([0, 2, 2], np.float32)}
    assert kvopt.score(columns, scoring.cost_per_age(), NOW)[0].tolist() == [0, np.inf, np.inf]
    assert kvopt.score(columns, scoring.recency(), NOW)[0].tolist() == [0, 0, 0]
    assert kvopt.score(columns, scoring.asymcache(), NOW)[0].tolist() == [
        -np.inf,
        np.float32(np.log(2)),
        np.float32(np.log(2)),
    ]


def test_logarithms_keep_the_order_where_the_chance_is_below_the_least_float32() -> None:
    columns = {"last_use": np.arange(1000, dtype=np.float32), "cost": np.ones(1000, np.float32)}
    scores = kvopt.score(columns, scoring.asymcache(lifespan=1), 1e6)[0]
    assert (np.diff(scores) >= 0).all()
    assert len(np.unique(scores)) > 100


@pytest.mark.parametrize("instructions", INSTRUCTIONS)
@pytest.mark.parametrize("name", PARAMS)
def test_nan_in_a_feature_gives_nan_and_sorts_last(name: str, instructions: str) -> None:
    params = PARAMS[name]
    columns = random_features(5000, seed=2)
    whole = score_with(columns, params, NOW, instructions)
    columns["last_use"][77] = np.nan
    columns["last_use"][4999] = np.nan
    if (
        params.score == "forest"
        and not (params.values[0, 1:].reshape(params.trees, -1)[:, : 2**params.depth - 1] == 0).any()
    ):
        return  # it does not look at the idle time
    scores = score_with(columns, params, NOW, instructions)
    assert np.isnan(scores[:, [77, 4999]]).all()
    np.testing.assert_array_equal(np.delete(scores, [77, 4999], axis=1), np.delete(whole, [77, 4999], axis=1))
    assert (kvopt.select_k(scores, 5000)[:, -2:] == [77, 4999]).all()
    with pytest.raises(ConfigError, match="'last_use' of block 77 is NaN"):
        kvopt.score(columns, params, NOW, checked=True)
    with pytest.raises(ConfigError, match="'last_use' of block 77 is NaN"):
        kvopt.score_select(columns, params, NOW, 3, checked=True)


def test_checked_mode_names_what_is_wrong_and_writes_nothing() -> None:
    columns = random_features(9000, seed=3)
    out = np.full((2, 9000), 7, np.float32)
    columns["class"][8500] = CLASSES
    for name in ("workload-aware", "retention-index"):
        with pytest.raises(ConfigError, match=f"'class' of block 8500 is {CLASSES}; the tables have {CLASSES} classes"):
            kvopt.score(columns, PARAMS[name], NOW, out=out, checked=True)
        assert (out == 7).all()
        assert np.isnan(kvopt.score(columns, PARAMS[name], NOW)[:, 8500]).all()
    columns["extra"][1, 12] = np.nan
    with pytest.raises(ConfigError, match="'extra' column '1' of block 12 is NaN"):
        kvopt.score(columns, PARAMS["network"], NOW, checked=True)
    assert kvopt.score(columns, PARAMS["asymcache"], NOW, checked=True).shape == (3, 9000)


@pytest.mark.parametrize("name", PARAMS)
def test_threads_and_tiles_change_nothing(name: str) -> None:
    columns = random_features(20_003, seed=4)
    scores = kvopt.score(columns, PARAMS[name], NOW)
    np.testing.assert_array_equal(kvopt.score(columns, PARAMS[name], NOW, threads=3), scores)
    part = {key: np.ascontiguousarray(column[..., 4090:4110]) for key, column in columns.items()}
    np.testing.assert_array_equal(kvopt.score(part, PARAMS[name], NOW), scores[:, 4090:4110])


@pytest.mark.parametrize("instructions", INSTRUCTIONS)
def test_scores_that_are_written_past_the_caches(instructions: str) -> None:
    """More than 4 MiB of scores, at addresses that no vector is aligned to."""
    count = 1_050_003
    columns = random_features(count, seed=6)
    for name in ("recency", "asymcache"):
        params = PARAMS[name]
        few = np.concatenate(
            [
                score_with(
                    {key: np.ascontiguousarray(column[..., at : at + 50_000]) for key, column in columns.items()},
                    params,
                    NOW,
                    instructions,
                )
                for at in range(0, count, 50_000)
            ],
            axis=1,
        )
        many = np.empty(params.sets * count + 1, np.float32)[1:]
        for threads in (1, 2):
            many.fill(7)
            out = many.reshape(params.sets, count)
            _core.score(columns, params.native(), NOW, out, threads=threads, instructions=instructions)
            np.testing.assert_array_equal(out, few)


def test_no_blocks() -> None:
    columns = random_features(0)
    assert kvopt.score(columns, PARAMS["asymcache"], NOW).shape == (3, 0)
    assert kvopt.select_k(np.empty(0, np.float32), 0).tolist() == []


def test_forest_of_any_trees_is_that_of_complete_ones() -> None:
    # x0 > 0.1 (no float32): right is 5, left looks at cost; a second tree is a mere leaf.
    trees = [
        scoring.NodeTree(
            [0, 1, -2, -2, -2], [0.1, 2.0, 0, 0, 0], [1, 2, -1, -1, -1], [4, 3, -1, -1, -1], [0, 0, 1, 2, 5]
        ),
        scoring.NodeTree([-2], [0], [-1], [-1], [0.5]),
    ]
    params = scoring.forest_of_nodes(trees, ["extra0", "cost"], base=10)
    tenth = np.float32(0.1)  # above 0.1
    columns = {
        "last_use": np.zeros(4, np.float32),
        "cost": np.array([2, 3, 0, 0], np.float32),
        "extra": np.array([[0, 0, np.nextafter(tenth, np.float32(0)), tenth]], np.float32),
    }
    assert kvopt.score(columns, params, 0.0)[0].tolist() == [11.5, 12.5, 11.5, 15.5]


BAD_PARAMS: dict[str, tuple[Callable[[], ScoreParams], str]] = {
    "lifespan": (lambda: scoring.asymcache(lifespan=0), "lifespan of parameter set 0 is 0.000000"),
    "p": (lambda: scoring.asymcache(p=[0.5, 1]), "p of parameter set 1 is 1.000000"),
    "r": (lambda: scoring.asymcache(r=0.5), "r of parameter set 0"),
    "ageing": (lambda: scoring.frequency(ageing=-1), "ageing of parameter set 0 is -1"),
    "rate": (lambda: scoring.workload_aware([0.1, np.inf]), "rate of class 1 of parameter set 0 is inf"),
    "classes": (lambda: scoring.workload_aware(np.ones(257)), "classes is 257; it must be 1 to 256"),
    "index": (lambda: scoring.retention_index(np.full((1, 32), np.nan)), "a value of the index"),
    "input": (lambda: scoring.forest([[99.0]], [[1.0]], [[0.0, 1.0]]), "an input of parameter set 0 is 99"),
}


@pytest.mark.parametrize("case", BAD_PARAMS)
def test_parameters_out_of_range(case: str) -> None:
    make, message = BAD_PARAMS[case]
    with pytest.raises(ConfigError, match=message):
        kvopt.score(random_features(10), make(), NOW)


BAD_SHAPES: dict[str, tuple[Callable[[], ScoreParams], str]] = {
    "sets": (lambda: scoring.asymcache([1, 2], [0.1, 0.2, 0.3]), "lifespan has 2 parameter sets; others have 3"),
    "bins": (lambda: scoring.retention_index(np.ones((4, 31))), "index has 31 values a class; it must have 32"),
    "leaves": (lambda: scoring.forest([[1.0]], [[1.0]], [[0.0, 1.0, 2.0]]), r"\[T, 2\^d - 1\] twice"),
    "units": (lambda: scoring.network(["idle"], [[1.0]], [1.0, 2.0], [1.0], 0), "b1 has 2 units; w1 has 1"),
    "width": (lambda: scoring.network(["idle"], [[1.0, 2.0]], [1.0], [1.0], 0), "w1 has 2 columns"),
    "name": (lambda: scoring.network(["idel"], [[1.0]], [1.0], [1.0], 0), "input 'idel' is unknown"),
    "text": (lambda: scoring.frequency("much"), "ageing is 'much'; it must be numbers"),
}


@pytest.mark.parametrize("case", BAD_SHAPES)
def test_parameters_of_the_wrong_shape(case: str) -> None:
    make, message = BAD_SHAPES[case]
    with pytest.raises(ConfigError, match=message):
        make()


def test_instructions_that_are_not_there() -> None:
    with pytest.raises(ConfigError, match=r"instructions 'mmx' are not available; .* have .*baseline"):
        score_with(random_features(3), PARAMS["recency"], NOW, "mmx")
    assert kvopt.build_info()["scoring"] == tuple(INSTRUCTIONS)
    assert INSTRUCTIONS[-1] == "baseline"
