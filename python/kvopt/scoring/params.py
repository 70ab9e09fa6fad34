"""Scores and their parameter sets, as flat float32 arrays [P, K].

Every number may be one for all sets or a sequence of P; what stands for one set in a table or a weight may have a
leading axis of P. Out of range, not finite, of different P: :class:`~kvopt.errors.ConfigError`, here or where the
parameters are used first.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from kvopt import _core
from kvopt.errors import ConfigError

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray

INPUTS = ("idle", "cost", "pace", "hits", "depth", "class", *(f"extra{i}" for i in range(_core.MOST_EXTRA)))
"""What forests and networks can look at, each as float32: seconds idle, the columns, and rows of `extra`."""


@dataclass(frozen=True, slots=True)
class ScoreParams:
    """Parameter sets of one score. The functions of this module make them."""

    score: str
    values: NDArray[np.float32]
    """[P, K], in the order that the function which made it names."""
    classes: int = 0
    """Rows of the tables; class numbers are below."""
    trees: int = 0
    depth: int = 0
    hidden: int = 0
    inputs: tuple[str, ...] = ()
    logarithm: tuple[bool, ...] = ()

    @property
    def sets(self) -> int:
        """P."""
        return int(self.values.shape[0])

    def native(self) -> _core.ScoreParams:
        """The same for the core."""
        return _core.ScoreParams(
            self.score,
            self.values,
            classes=self.classes,
            forest=(self.trees, self.depth),
            hidden=self.hidden,
            inputs=[INPUTS.index(name) for name in self.inputs],
            logarithm=list(self.logarithm),
        )


def recency() -> ScoreParams:
    """Score -idle: LRU's order. Looks at `last_use`; K = 0, one set."""
    return ScoreParams("recency", np.empty((1, 0), np.float32))


def frequency(ageing: ArrayLike = 0.0) -> ScoreParams:
    """Score hits + 1 - ageing * idle: LFU's order; `ageing` hits a second are lost while idle.

    Looks at `last_use` and `hits`; K = 1.
    """
    return ScoreParams("frequency", _numbers({"ageing": ageing}))


def cost_per_age(offset: ArrayLike = 0.0) -> ScoreParams:
    """Score cost / (idle + offset): the order of Pensieve (EuroSys 2025) with an offset of 0 seconds.

    A block that was used at `now` has inf, or 0 where it costs nothing. Looks at `last_use` and `cost`; K = 1.
    """
    return ScoreParams("cost-per-age", _numbers({"offset": offset}))


def asymcache(lifespan: ArrayLike = 100.0, p: ArrayLike = 0.5, r: ArrayLike = 40.0) -> ScoreParams:
    """Score ln(f(idle) * cost), f falling slowly up to `lifespan` (s) and `r` times as fast behind it.

    f = min(exp(-idle / alpha), exp(-(idle - onset) / beta)), alpha = -lifespan / ln p, beta = alpha / r,
    onset = lifespan * (1 - 1 / r): AsymCache (arXiv:2606.02964), as the policy `asymcache` orders. The logarithm keeps
    the order where f is below the least float32. Looks at `last_use` and `cost`; K = 3: lifespan, p, r.
    """
    return ScoreParams("asymcache", _numbers({"lifespan": lifespan, "p": p, "r": r}))


def workload_aware(rate: ArrayLike, life: ArrayLike = 60.0) -> ScoreParams:
    """Score ln(exp(-rate * idle) * (1 - exp(-rate * life))): the chance to be reused while still cached.

    Wang et al., "KVCache Cache in the Wild" (USENIX ATC 2025), as the policy `workload-aware` orders. `rate` [C] or
    [P, C]: of each class, 1/s; a class without returns has rate 0 and the score -inf. `life`: seconds that an unused
    block is cached. Looks at `last_use` and `class`; K = 1 + C: life, rates.
    """
    rates = _tables("rate", rate, axes=1)
    values = np.concatenate(_same_sets({"life": _column("life", life), "rate": rates}), axis=1)
    return ScoreParams("workload-aware", np.ascontiguousarray(values), classes=rates.shape[1])


def retention_index(index: ArrayLike) -> ScoreParams:
    """Score cost * pace * index(class, idle * pace): what the policy `cost-aware` orders by.

    `index` [C, 32] or [P, C, 32]: of each class, by age in units: at 0, then at the ages that begin two bins an octave
    from 1/16 to 2^11, between them in proportion. `pace` is units of age a second. Looks at `last_use`, `cost`, `pace`
    and `class`; K = 32 C.
    """
    tables = _tables("index", index, axes=2)
    if tables.shape[2] != _core.AGE_BINS:
        raise ConfigError(f"index has {tables.shape[2]} values a class; it must have {_core.AGE_BINS}")
    return ScoreParams("retention-index", tables.reshape(len(tables), -1), classes=tables.shape[1])


def network(
    inputs: Sequence[str],
    w1: ArrayLike,
    b1: ArrayLike,
    w2: ArrayLike,
    b2: ArrayLike,
    *,
    logarithm: Sequence[bool] | None = None,
) -> ScoreParams:
    """Score b2 + w2 · max(0, b1 + w1 x): a network with one hidden layer, computed in float64.

    `inputs`: names of :data:`INPUTS`, the entries of x; where `logarithm` is true, ln(1 + x) goes in. Shapes, for I
    inputs and H units: `w1` [H, I], `b1` [H], `w2` [H], `b2` one number, each with a leading P where there are several
    sets. K = H * I + 2 H + 1, in this order.
    """
    first = _tables("w1", w1, axes=2)
    hidden, width = first.shape[1:]
    marks = tuple(bool(mark) for mark in logarithm) if logarithm is not None else (False,) * len(inputs)
    if width != len(inputs) or len(marks) != len(inputs):
        raise ConfigError(f"w1 has {width} columns and logarithm {len(marks)} marks for {len(inputs)} inputs")
    parts = {"b1": _tables("b1", b1, axes=1), "w2": _tables("w2", w2, axes=1)}
    for name, part in parts.items():
        if part.shape[1] != hidden:
            raise ConfigError(f"{name} has {part.shape[1]} units; w1 has {hidden}")
    flat = {"w1": first.reshape(len(first), -1), **parts, "b2": _column("b2", b2)}
    values = np.ascontiguousarray(np.concatenate(_same_sets(flat), axis=1))
    return ScoreParams("network", values, hidden=hidden, inputs=known_inputs(inputs), logarithm=marks)


def known_inputs(names: Sequence[str]) -> tuple[str, ...]:
    """The same names. Raises ConfigError for one that is not in INPUTS."""
    for name in names:
        if name not in INPUTS:
            raise ConfigError(f"input {name!r} is unknown; known: {', '.join(INPUTS[:6])} and extra0 to {INPUTS[-1]}")
    return tuple(names)


def _numbers(columns: dict[str, ArrayLike]) -> NDArray[np.float32]:
    parts = {name: _column(name, values) for name, values in columns.items()}
    return np.ascontiguousarray(np.concatenate(_same_sets(parts), axis=1))


def _column(name: str, values: ArrayLike) -> NDArray[np.float32]:
    """[P, 1]."""
    return _floats(name, values, most_axes=1).reshape(-1, 1)


def _tables(name: str, values: ArrayLike, *, axes: int) -> NDArray[np.float32]:
    """[P, ...] of what has `axes` axes for one set."""
    array = _floats(name, values, most_axes=axes + 1)
    if array.ndim < axes:
        raise ConfigError(f"{name} has {array.ndim} axes; it must have {axes}, or {axes + 1} for several sets")
    return array if array.ndim > axes else array[None]


def _floats(name: str, values: Any, *, most_axes: int) -> NDArray[np.float32]:
    try:
        array = np.asarray(values, dtype=np.float32)
    except (TypeError, ValueError) as error:
        raise ConfigError(f"{name} is {values!r}; it must be numbers") from error
    if array.ndim > most_axes:
        raise ConfigError(f"{name} has {array.ndim} axes; it may have {most_axes}")
    return array


def _same_sets(parts: dict[str, NDArray[np.float32]]) -> list[NDArray[np.float32]]:
    """Each with the P of the longest; what has one set serves for all."""
    sets = max(len(part) for part in parts.values())
    for name, part in parts.items():
        if len(part) not in (1, sets):
            raise ConfigError(f"{name} has {len(part)} parameter sets; others have {sets}")
    return [np.broadcast_to(part, (sets, part.shape[1])) for part in parts.values()]
