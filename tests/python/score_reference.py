"""Scores by their formulas, in float64 with NumPy: what the kernels must come to within one unit in the last place."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from kvopt.scoring import INPUTS, ScoreParams

Features = dict[str, NDArray[Any]]
Floats = NDArray[np.float64]


def reference(features: Features, params: ScoreParams, now: float) -> Floats:
    """float64 [P, N]."""
    with np.errstate(all="ignore"):
        return np.array([of_set(features, values.astype(np.float64), params, now) for values in params.values])


def of_set(f: Features, v: Floats, params: ScoreParams, now: float) -> Floats:
    match params.score:
        case "recency":
            return -idle_of(f, now)
        case "frequency":
            return np.asarray((f["hits"] + 1.0) - v[0] * idle_of(f, now))
        case "cost-per-age":
            return cost_per_age(f, v, now)
        case "asymcache":
            return asymcache(f, v, now)
        case "workload-aware":
            return workload_aware(f, v, now)
        case "retention-index":
            return retention_index(f, v.reshape(-1, 32), now)
        case "forest":
            return forest(f, v, params, now)
        case _:
            return network(f, v, params, now)


def idle_of(f: Features, now: float) -> Floats:
    idle = now - f["last_use"].astype(np.float64)
    return np.where(idle < 0, 0, idle)


def cost_per_age(f: Features, v: Floats, now: float) -> Floats:
    value = f["cost"].astype(np.float64) / (idle_of(f, now) + v[0])
    return np.where((f["cost"] == 0) & ~np.isnan(f["last_use"]), 0, value)


def asymcache(f: Features, v: Floats, now: float) -> Floats:
    lifespan, p, r = v
    alpha = -lifespan / np.log(p)
    idle = idle_of(f, now)
    log_f = np.minimum(-idle / alpha, -(idle - lifespan * (1 - 1 / r)) / (alpha / r))
    return np.asarray(np.log(f["cost"].astype(np.float64)) + log_f)


def workload_aware(f: Features, v: Floats, now: float) -> Floats:
    life = v[0]
    rate = np.full(256, np.nan)
    rate[: len(v) - 1] = v[1:]
    of_class = rate[f["class"]]
    return np.asarray(np.log(-np.expm1(-of_class * life)) - of_class * idle_of(f, now))


def retention_index(f: Features, index: Floats, now: float) -> Floats:
    pace = f["pace"].astype(np.float64)
    age = idle_of(f, now) * pace
    octave = 2.0 ** np.arange(-4, 12)
    edges = np.concatenate([[0.0], np.stack([octave, 1.5 * octave], axis=1).ravel()])[:32]
    tables = np.full((256, 32), np.nan)
    tables[: len(index)] = index
    # Below the first edge above 0 the value is that at 0; above the last it stays.
    bin_of = np.clip(np.searchsorted(edges, age, side="right") - 1, 0, 31)
    after = np.minimum(bin_of + 1, 31)
    width = np.where(bin_of == 31, 1, edges[after] - edges[bin_of])
    past = np.where(bin_of == 0, 0, np.where(bin_of == 31, 0, (age - edges[bin_of]) / width))
    here = tables[f["class"], bin_of]
    value = here + (tables[f["class"], after] - here) * past
    value = value * (f["cost"].astype(np.float64) * pace)
    return np.where(np.isnan(age), np.nan, value)


def inputs_of(f: Features, now: float) -> dict[str, NDArray[np.float32]]:
    named = {"idle": idle_of(f, now).astype(np.float32)}
    named |= {name: f[name].astype(np.float32) for name in ("cost", "pace", "hits", "depth", "class") if name in f}
    return named | {f"extra{e}": row for e, row in enumerate(f.get("extra", []))}


def forest(f: Features, v: Floats, params: ScoreParams, now: float) -> Floats:
    inputs = inputs_of(f, now)
    inner = 2**params.depth - 1
    total = np.full(len(f["last_use"]), v[0])
    for tree in v[1:].reshape(params.trees, 3 * inner + 1):
        node = np.zeros(len(total), np.int64)
        for _ in range(params.depth):
            x = np.select([tree[node] == i for i in range(len(INPUTS))], [inputs.get(n, total * 0) for n in INPUTS])
            node = 2 * node + 1 + (x > tree[inner + node])
        total = total + tree[2 * inner + node - inner]
    used = {INPUTS[int(i)] for tree in v[1:].reshape(params.trees, -1) for i in tree[:inner]}
    for name in used:
        total = np.where(np.isnan(inputs[name]), np.nan, total)
    return total


def network(f: Features, v: Floats, params: ScoreParams, now: float) -> Floats:
    named = inputs_of(f, now)
    x = np.array([named[name].astype(np.float64) for name in params.inputs])
    x = np.where(np.array(params.logarithm)[:, None], np.log1p(x), x)
    h, i = params.hidden, len(params.inputs)
    units = v[: h * i].reshape(h, i) @ x + v[h * i : h * i + h, None]
    return np.asarray(v[h * i + h : h * i + 2 * h] @ np.where(units < 0, 0, units) + v[-1])
