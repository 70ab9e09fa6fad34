"""Scores on the CPU: the core, with the vector instructions that it chooses."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from kvopt import _core

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from kvopt.scoring.params import ScoreParams


class CpuScoring:
    """:class:`~kvopt.scoring.device.Scoring` for NumPy arrays."""

    def __init__(self, threads: int) -> None:
        self.threads = threads

    def score(
        self,
        columns: Mapping[str, NDArray[Any]],
        params: ScoreParams,
        now: float,
        out: NDArray[np.float32] | None,
        *,
        checked: bool,
    ) -> NDArray[np.float32]:
        """Scores [P, N]."""
        if out is None:
            out = np.empty((params.sets, next(iter(columns.values())).shape[-1]), np.float32)
        _core.score(dict(columns), params.native(), now, out, threads=self.threads, checked=checked)
        return out

    def select_k(
        self, scores: NDArray[np.float32], k: int, eligible: NDArray[Any] | None, out: NDArray[np.int64] | None
    ) -> NDArray[np.int64]:
        """Indices [P, k] of scores [P, N]."""
        return _as_int64(_core.select_k(scores, k, eligible, threads=self.threads), out)

    def score_select(
        self,
        columns: Mapping[str, NDArray[Any]],
        params: ScoreParams,
        now: float,
        k: int,
        eligible: NDArray[Any] | None,
        out: NDArray[np.int64] | None,
        *,
        checked: bool,
    ) -> NDArray[np.int64]:
        """Indices [P, k]."""
        chosen = _core.score_select(
            dict(columns), params.native(), now, k, eligible, threads=self.threads, checked=checked
        )
        return _as_int64(chosen, out)


def _as_int64(chosen: NDArray[np.uint32], out: NDArray[np.int64] | None) -> NDArray[np.int64]:
    if out is None:
        return chosen.astype(np.int64)
    out[...] = chosen
    return out
