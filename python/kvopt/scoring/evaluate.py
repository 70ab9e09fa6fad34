"""Scores of blocks from their features, and the k lowest."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from kvopt.errors import ArrayError, ConfigError
from kvopt.scoring.arrays import CudaArray, View, require, share_memory, view_of
from kvopt.scoring.device import scoring_on
from kvopt.scoring.params import ScoreParams

_MOST_THREADS = 1024
_COLUMNS: dict[str, type[np.generic]] = {
    "last_use": np.float32,
    "cost": np.float32,
    "pace": np.float32,
    "hits": np.uint32,
    "depth": np.uint32,
    "class": np.uint8,
    "extra": np.float32,
}


def score(
    features: Mapping[str, Any],
    params: ScoreParams,
    now: float,
    *,
    out: Any = None,
    device: str = "auto",
    stream: Any = None,
    threads: int = 1,
    checked: bool = False,
) -> Any:
    """The value of N blocks under P parameter sets: float32 [P, N]; what is lowest is evicted first.

    `features`: columns of N entries, of which those that the score reads must be there: `last_use` (float32 seconds on
    the clock of `now`), `cost` (float32, at least 0, any unit), `pace` (float32, units of age a second), `hits` and
    `depth` (uint32), `class` (uint8), `extra` (float32 [E, N]). Arrays are those of NumPy or any library that speaks
    DLPack or `__cuda_array_interface__`; C-contiguous, not copied, all on one device, which computes.

    `now`: float64 seconds; a last use after it counts as now. `out`: written to and returned; else a new array.
    `threads`: of the CPU. `stream`: of the GPU, on which the work is queued: torch's, CuPy's, or an address; else the
    one that the arrays name, else the legacy default stream. A score is computed in float64 and rounded once. NaN in a
    feature gives NaN, which sorts last; so does a class without a row in the tables. `checked`: both raise ConfigError
    instead, before anything is written, for one more look at the features.

    Raises ArrayError (dtype, shape, layout, device), ConfigError (parameters, a feature that is missing or unknown) or
    DeviceError.
    """
    columns = _columns(features)
    target = None if out is None else view_of("out", out)
    _require_whole("threads", threads, 1, _MOST_THREADS)
    scoring = scoring_on(device, {**columns, "out": target}, threads, stream)
    if target is not None:
        _require_out(target, np.float32, (params.sets, _count(columns)), _inputs(columns, None))
    scores = scoring.score(columns, params, now, target, checked=checked)
    return scores if out is None else out


def select_k(
    scores: Any,
    k: int,
    *,
    eligible: Any = None,
    out: Any = None,
    device: str = "auto",
    stream: Any = None,
    threads: int = 1,
) -> Any:
    """Indices of the k lowest scores, lowest first, ties by index: `np.argsort(scores, kind="stable")[:k]`.

    Of arrays on a GPU the result is a :class:`~kvopt.scoring.cuda.DeviceArray` there, with -1 where fewer than k are
    eligible.

    `scores`: float32 [N], or [P, N], of which each row is a choice of its own; the result is [k] or [P, k]. `eligible`:
    bool or uint8 [N]; where it is 0, a block is left out. NaN comes last. `out`: int64 of the result's shape,
    written to and returned; else a new array. Raises ArrayError, ConfigError (more than are eligible) or DeviceError.
    """
    view = view_of("scores", scores)
    flat = view.ndim == 1
    require("scores", view, (np.float32,), (None,) if flat else (None, None))
    mask = _mask(eligible, view.shape[-1])
    _require_whole("k", k, 0, view.shape[-1])
    _require_whole("threads", threads, 1, _MOST_THREADS)
    target = None if out is None else view_of("out", out)
    scoring = scoring_on(device, {"scores": view, "eligible": mask, "out": target}, threads, stream)
    if target is not None:
        _require_out(target, np.int64, (k,) if flat else (view.shape[0], k), _inputs({}, mask) | {"scores": view})
        target = target[None] if flat else target
    chosen = scoring.select_k(view[None] if flat else view, k, mask, target)
    if out is not None:
        return out
    return chosen[0] if flat else chosen


def score_select(
    features: Mapping[str, Any],
    params: ScoreParams,
    now: float,
    k: int,
    *,
    eligible: Any = None,
    out: Any = None,
    device: str = "auto",
    stream: Any = None,
    threads: int = 1,
    checked: bool = False,
) -> Any:
    """:func:`select_k` of :func:`score`, [P, k], in one pass: the scores never reach memory.

    Arguments and errors are theirs.
    """
    columns = _columns(features)
    mask = _mask(eligible, _count(columns))
    _require_whole("k", k, 0, _count(columns))
    _require_whole("threads", threads, 1, _MOST_THREADS)
    target = None if out is None else view_of("out", out)
    scoring = scoring_on(device, {**columns, "eligible": mask, "out": target}, threads, stream)
    if target is not None:
        _require_out(target, np.int64, (params.sets, k), _inputs(columns, mask))
    chosen = scoring.score_select(columns, params, now, k, mask, target, checked=checked)
    return chosen if out is None else out


def _columns(features: Mapping[str, Any]) -> dict[str, View]:
    """Views of the columns, of known names and dtypes and of one length."""
    columns: dict[str, View] = {}
    count: int | None = None
    for name, value in features.items():
        if name not in _COLUMNS:
            raise ConfigError(f"feature {name!r} is unknown; known: {', '.join(_COLUMNS)}")
        columns[name] = view_of(f"feature {name!r}", value)
        shape = (count,) if name != "extra" else (None, count)
        require(f"feature {name!r}", columns[name], (_COLUMNS[name],), shape)
        count = columns[name].shape[-1]
    if count is None:
        raise ConfigError("no feature is given; a score reads at least one")
    return columns


def _count(columns: Mapping[str, View]) -> int:
    return int(next(iter(columns.values())).shape[-1])


def _mask(eligible: Any, count: int) -> View | None:
    if eligible is None:
        return None
    mask = view_of("eligible", eligible)
    require("eligible", mask, (np.bool_, np.uint8), (count,))
    return mask


def _require_whole(name: str, value: int, least: int, most: int) -> None:
    if isinstance(value, bool) or not isinstance(value, int | np.integer) or not least <= value <= most:
        raise ConfigError(f"{name} is {value!r}; it must be a whole number from {least} to {most}")


def _inputs(columns: Mapping[str, View], mask: View | None) -> dict[str, View]:
    """By the names that messages have for them."""
    named = {f"feature {name!r}": column for name, column in columns.items()}
    return named if mask is None else {**named, "eligible": mask}


def _require_out(out: View, dtype: type[np.generic], shape: tuple[int, ...], inputs: Mapping[str, View]) -> None:
    require("out", out, (dtype,), shape)
    writable = out.writable if isinstance(out, CudaArray) else out.flags.writeable
    if not writable:
        raise ArrayError("out is read-only")
    for name, array in inputs.items():
        if share_memory(out, array):
            raise ArrayError(f"out shares memory with {name}")
