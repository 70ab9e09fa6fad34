"""How fast blocks are scored, beside reading them, NumPy's and torch's expression of the same formula.

Stands for valuing the entries of an offload tier: 10^7 blocks, one thread, one parameter set, every array already in
memory. "read" is the largest of a column by NumPy: memory read once and nothing written. Peers compute in float64 as
the kernels do, so that the results are equal; in float32 they are quicker and lose the sub-second part of large times.
"unallocated": no array for the scores is given, so the operating system finds its pages, as it does for every peer.
Correctness inside: peers' scores within one unit in the last place where they compute in float64, and the fused choice
equal to the choice among the scores.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from benchmark_fixture import Benchmark, cpu_seconds

import kvopt
from kvopt import scoring

BLOCKS = 10_000_000
LEARNED = 1_000_000  # blocks of forest and network
CLASSES = 16
CHOSEN = {"fused": 1_000, "fused 1%": BLOCKS // 100}
NOW = 20_000.0
TREES, DEPTH, HIDDEN, INPUTS = 50, 5, 16, ("idle", "cost", "hits", "depth")
ROUNDS = 5

Arrays = dict[str, Any]
READS = {
    "recency": ("last_use",),
    "frequency": ("last_use", "hits"),
    "cost-per-age": ("last_use", "cost"),
    "asymcache": ("last_use", "cost"),
    "workload-aware": ("last_use", "class"),
    "retention-index": ("last_use", "cost", "pace", "class"),
    "forest": INPUTS,
    "network": INPUTS,
}


@pytest.fixture(scope="module")
def blocks() -> Arrays:
    r = np.random.default_rng(0)
    return {
        "last_use": r.uniform(0, NOW, BLOCKS).astype(np.float32),
        "cost": r.lognormal(4, 1, BLOCKS).astype(np.float32),
        "pace": r.lognormal(-3, 1, BLOCKS).astype(np.float32),
        "hits": r.geometric(0.1, BLOCKS).astype(np.uint32),
        "depth": r.integers(0, 8000, BLOCKS, np.uint32),
        "class": r.integers(0, CLASSES, BLOCKS, np.uint8),
    }


def params_of(score: str) -> scoring.ScoreParams:
    r = np.random.default_rng(1)
    inner = 2**DEPTH - 1
    made: dict[str, Callable[[], scoring.ScoreParams]] = {
        "recency": scoring.recency,
        "frequency": lambda: scoring.frequency(0.01),
        "cost-per-age": lambda: scoring.cost_per_age(1.0),
        "asymcache": scoring.asymcache,
        "workload-aware": lambda: scoring.workload_aware(r.lognormal(-4, 1, CLASSES)),
        "retention-index": lambda: scoring.retention_index(r.lognormal(-2, 1, (CLASSES, 32))),
        "forest": lambda: scoring.forest(
            r.integers(0, 2, (TREES, inner)), r.uniform(0, NOW, (TREES, inner)), r.normal(0, 1, (TREES, inner + 1))
        ),
        "network": lambda: scoring.network(
            [*INPUTS], r.normal(0, 1, (HIDDEN, 4)), r.normal(0, 1, HIDDEN), r.normal(0, 1, HIDDEN), 0.0
        ),
    }
    return made[score]()


def expression(score: str, params: scoring.ScoreParams, library: Any, exact: bool, arrays: Arrays) -> Callable[[], Any]:
    """The formula in NumPy or torch."""
    number = library.float64 if exact else library.float32
    values = params.values[0].astype(np.float64)

    def widen(column: Any) -> Any:
        return column.astype(number, copy=False) if library is np else column.to(number)

    def wide(name: str) -> Any:
        return widen(arrays[name])

    def logarithm(x: Any) -> Any:
        return library.log(x)

    def narrow(x: Any) -> Any:
        return x.astype(np.float32, copy=False) if library is np else x.to(library.float32)

    def pick(table: Any, index: Any) -> Any:
        return table[index] if library is np else table[index.to(library.int32)]

    def constant(x: Any) -> Any:
        return np.asarray(x, number) if library is np else library.tensor(np.asarray(x)).to(number)

    if score == "recency":
        return lambda: narrow(wide("last_use") - NOW)
    if score == "frequency":
        return lambda: narrow(wide("hits") + 1 - values[0] * (NOW - wide("last_use")))
    if score == "cost-per-age":
        return lambda: narrow(wide("cost") / (NOW - wide("last_use") + values[0]))
    if score == "asymcache":
        lifespan, p, r = values
        alpha = -lifespan / np.log(p)
        onset = lifespan * (1 - 1 / r)

        def asymcache() -> Any:
            idle = NOW - wide("last_use")
            return narrow(logarithm(wide("cost")) + library.minimum(-idle / alpha, -(idle - onset) / (alpha / r)))

        return asymcache
    if score == "workload-aware":
        rate = constant(values[1:])
        reach = constant(np.log(-np.expm1(-values[1:] * values[0])))
        return lambda: narrow(pick(reach, arrays["class"]) - pick(rate, arrays["class"]) * (NOW - wide("last_use")))
    if score == "retention-index":
        index = params.values[0].reshape(CLASSES, -1)
        here, following = constant(index), constant(np.append(index[:, 1:], index[:, -1:], axis=1))
        # Two bins an octave: the exponent and one bit of the mantissa tell the bin, the rest the place within it.
        bits, fraction, bias = (np.int64, 51, 1023) if exact else (np.int32, 22, 127)
        last = index.shape[1] - 1

        def retention_index() -> Any:
            age = (NOW - wide("last_use")) * wide("pace")
            pattern = age.view(bits if library is np else getattr(library, bits.__name__))
            leading = (pattern >> fraction) - (((bias - 4) << 1) - 1)
            within = widen(pattern & ((1 << fraction) - 1)) * 2.0**-fraction
            at = (arrays["class"] if library is np else arrays["class"].to(library.int32), leading.clip(0, last))
            low = here[at]
            return narrow((low + (following[at] - low) * within * (leading > 0)) * (wide("cost") * wide("pace")))

        return retention_index
    if score == "network":
        w1 = constant(values[: HIDDEN * 4].reshape(HIDDEN, 4))
        b1 = constant(values[HIDDEN * 4 : HIDDEN * 5][:, None])
        w2 = constant(values[HIDDEN * 5 : HIDDEN * 6])

        def network() -> Any:
            idle = widen(narrow(NOW - wide("last_use")))  # inputs are float32
            x = library.stack([idle, wide("cost"), wide("hits"), wide("depth")])
            units = w1 @ x + b1
            return narrow(w2 @ (np.maximum(units, 0) if library is np else units.clamp(min=0)))

        return network
    raise LookupError(score)


def of_score(blocks: Arrays, score: str) -> Arrays:
    count = LEARNED if score in ("forest", "network") else BLOCKS
    names = ("last_use", *(name for name in READS[score] if name not in ("idle", "last_use")))
    return {name: blocks[name][:count] for name in names}


def run(benchmark: Benchmark, score: str, engine: str, arrays: Arrays, target: Callable[[], Any]) -> Any:
    benchmark.group = f"scoring {score}"
    benchmark.extra_info |= {
        "question": "scoring",
        "score": score,
        "engine": engine,
        "blocks": len(arrays["last_use"]),
        "bytes": sum(column.nbytes for column in arrays.values()),
    }
    return benchmark.pedantic(target, rounds=ROUNDS, warmup_rounds=1)


@pytest.mark.benchmark(timer=cpu_seconds)
@pytest.mark.parametrize("score", READS)
def test_kvopt(benchmark: Benchmark, blocks: Arrays, score: str) -> None:
    arrays = of_score(blocks, score)
    out = np.empty((1, len(arrays["last_use"])), np.float32)
    params = params_of(score)
    run(benchmark, score, "kvopt", arrays, lambda: kvopt.score(arrays, params, NOW, out=out))


@pytest.mark.benchmark(timer=cpu_seconds)
@pytest.mark.parametrize("score", READS)
def test_unallocated(benchmark: Benchmark, blocks: Arrays, score: str) -> None:
    arrays = of_score(blocks, score)
    params = params_of(score)
    run(benchmark, score, "unallocated", arrays, lambda: kvopt.score(arrays, params, NOW))


@pytest.mark.benchmark(timer=cpu_seconds)
@pytest.mark.parametrize("choice", CHOSEN)
@pytest.mark.parametrize("score", READS)
def test_fused(benchmark: Benchmark, blocks: Arrays, score: str, choice: str) -> None:
    arrays = of_score(blocks, score)
    params = params_of(score)
    k = min(CHOSEN[choice], len(arrays["last_use"]) // 100)
    chosen = run(benchmark, score, choice, arrays, lambda: kvopt.score_select(arrays, params, NOW, k))
    np.testing.assert_array_equal(chosen, kvopt.select_k(kvopt.score(arrays, params, NOW), k))


@pytest.mark.benchmark(timer=cpu_seconds)
@pytest.mark.parametrize("score", READS)
def test_read(benchmark: Benchmark, blocks: Arrays, score: str) -> None:
    arrays = of_score(blocks, score)
    run(benchmark, score, "read", arrays, lambda: [column.max() for column in arrays.values()])


@pytest.mark.benchmark(timer=cpu_seconds)
@pytest.mark.parametrize("library", ["numpy", "numpy float32", "torch", "torch float32"])
@pytest.mark.parametrize("score", [score for score in READS if score != "forest"])
def test_peer(benchmark: Benchmark, blocks: Arrays, score: str, library: str) -> None:
    arrays = of_score(blocks, score)
    params = params_of(score)
    exact = not library.endswith("float32")
    if library.startswith("torch"):
        torch = pytest.importorskip("torch", reason="torch is not installed")
        torch.set_num_threads(1)
        call = expression(score, params, torch, exact, {n: torch.from_numpy(column) for n, column in arrays.items()})
    else:
        call = expression(score, params, np, exact, arrays)
    result = run(benchmark, score, library, arrays, call)
    if exact:
        ours = kvopt.score(arrays, params, NOW)[0]
        assert (np.abs(np.asarray(result) - ours) <= np.spacing(np.abs(ours)) + 1e-9).all()
