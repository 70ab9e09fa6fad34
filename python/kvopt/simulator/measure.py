"""Turning the hits of a replay into hit ratios and saved prefill cost."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from kvopt.cost import prefill_cost

if TYPE_CHECKING:
    from kvopt.workload.base import Trace


@dataclass(frozen=True, slots=True)
class HitFigures:
    """What the hits of a replay are worth; `requests` counts all, the rest the requests that were not skipped."""

    block_hit: float
    token_hit: float
    cost_saved: float
    """NaN where hits need not be leading blocks."""
    requests: int
    skipped: int
    block_references: int


class RequestWeights:
    """What each request of a trace weighs; computed once and shared by all cells of a replay."""

    def __init__(self, trace: Trace, p_star: float) -> None:
        self._block_tokens = int(trace.block_tokens)
        self._p_star = p_star
        self.blocks: NDArray[np.int64] = trace.chain_blocks()
        self._input_tokens = trace.input_tokens.astype(np.int64)
        self._cost = prefill_cost(self.blocks * self._block_tokens, p_star)

    def figures(self, hit_blocks: NDArray[Any], skipped: NDArray[np.bool_], *, prefix: bool = True) -> HitFigures:
        """The figures of R requests: `hit_blocks` unsigned[R] found cached, `skipped` bool[R].

        `prefix`: hits are the leading blocks of a request; else they may be any, and save no prefill by themselves.
        """
        kept = ~skipped
        hit = hit_blocks.astype(np.int64)[kept]
        hit_tokens = hit * self._block_tokens
        inputs = self._input_tokens[kept]
        references = int(self.blocks[kept].sum())
        saved = float(prefill_cost(hit_tokens, self._p_star).sum())
        return HitFigures(
            block_hit=_ratio(int(hit.sum()), references),
            token_hit=_ratio(int(np.minimum(hit_tokens, inputs).sum()), int(inputs.sum())),
            cost_saved=_ratio(saved, float(self._cost[kept].sum())) if prefix else math.nan,
            requests=int(kept.size),
            skipped=int(np.count_nonzero(skipped)),
            block_references=references,
        )


def _ratio(part: float, whole: float) -> float:
    return part / whole if whole else 0.0
