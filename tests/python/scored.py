"""Features and parameter sets that the tests of scores share."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from kvopt import scoring
from kvopt.scoring import INPUTS, ScoreParams

NOW = 20_000.25
CLASSES = 12


def random_features(n: int, seed: int = 0) -> dict[str, NDArray[Any]]:
    r = np.random.default_rng(seed)
    return {
        "last_use": r.uniform(0, NOW, n).astype(np.float32),
        "cost": r.lognormal(4, 2, n).astype(np.float32),
        "pace": r.lognormal(-3, 2, n).astype(np.float32),
        "hits": r.geometric(0.1, n).astype(np.uint32),
        "depth": r.integers(0, 8000, n, np.uint32),
        "class": r.integers(0, CLASSES, n, np.uint8),
        "extra": r.normal(0, 3, (2, n)).astype(np.float32) ** 2,
    }


def extreme_features() -> dict[str, NDArray[Any]]:
    """Every combination of values at the ends: subnormal, zero age, a last use after now, 1e9 seconds, all classes."""
    tiny = np.finfo(np.float32).smallest_subnormal
    last_use = [NOW, NOW + 1, -1e9, 0.0, -0.0, float(tiny), NOW - 1e-3, 1e9, 19_999.0, -3e38]
    cost = [0.0, -0.0, float(tiny), 1e-38, 1.0, 1e9, 3e38, 16.0, np.inf]
    pace = [float(tiny), 1e-6, 1.0, 1e6]
    hits = [0, 1, 2**24 + 1, 2**32 - 1]
    grid = np.meshgrid(last_use, cost, pace, hits, np.arange(CLASSES), indexing="ij")
    columns = [axis.ravel() for axis in grid]
    return {
        "last_use": columns[0].astype(np.float32),
        "cost": columns[1].astype(np.float32),
        "pace": columns[2].astype(np.float32),
        "hits": columns[3].astype(np.uint32),
        "depth": columns[3].astype(np.uint32),
        "class": columns[4].astype(np.uint8),
        "extra": np.stack([columns[1], columns[0]]).astype(np.float32),
    }


def random_forest(trees: int, depth: int, seed: int = 0, names: tuple[str, ...] = INPUTS[:8]) -> ScoreParams:
    r = np.random.default_rng(seed)
    inner = 2**depth - 1
    numbers = [INPUTS.index(name) for name in names]
    return scoring.forest(
        r.choice(numbers, (trees, inner)), r.lognormal(3, 3, (trees, inner)), r.normal(0, 1, (trees, inner + 1)), 0.25
    )


def random_network(hidden: int, seed: int = 0) -> ScoreParams:
    r = np.random.default_rng(seed)
    names = ("idle", "cost", "hits", "depth", "extra1")
    return scoring.network(
        names,
        r.normal(0, 1, (3, hidden, 5)),
        r.normal(0, 1, (3, hidden)),
        r.normal(0, 1, hidden),
        [0.5, -1, 3],
        logarithm=(True, True, True, False, False),
    )


def all_params() -> dict[str, ScoreParams]:
    r = np.random.default_rng(5)
    rates = r.lognormal(-4, 2, (2, CLASSES))
    rates[:, 3] = 0  # a class without returns
    index = r.lognormal(-2, 3, (2, CLASSES, 32))
    index[:, 5] = 0  # a class of which nothing is known
    return {
        "recency": scoring.recency(),
        "frequency": scoring.frequency([0.0, 0.01, 2.0]),
        "cost-per-age": scoring.cost_per_age([0.0, 0.5]),
        "asymcache": scoring.asymcache([1, 100, 1e5], [0.3, 0.5, 0.7], [1, 40, 10]),
        "workload-aware": scoring.workload_aware(rates, [10, 1000]),
        "retention-index": scoring.retention_index(index),
        "forest-1": random_forest(3, 1),
        "forest-5": random_forest(20, 5),
        "forest-8": random_forest(5, 8),
        "network": random_network(16),
    }
