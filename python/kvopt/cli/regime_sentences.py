"""What `kvopt compare` ends with: a regime report as sentences, one or two a capacity, each with what to do first."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from kvopt.simulator.regime import LEAST_GAIN, SLACK

if TYPE_CHECKING:
    from kvopt.simulator.regime import Regime, RegimeReport

GIB = 2**30
_REUSE = {
    "predictable": "reuse is predictable",
    "partly": "reuse is partly predictable",
    "hardly": "reuse is hardly predictable",
}


def regime_sentences(report: RegimeReport, block_bytes: float | None = None) -> list[str]:
    """The report in lines of a sentence or two; `block_bytes` are those of a block where a model is known."""
    wording = _Wording(report, block_bytes)
    return [*wording.capacities(), *wording.slack()]


class _Wording:
    def __init__(self, report: RegimeReport, block_bytes: float | None) -> None:
        self._report = report
        self._block_bytes = block_bytes
        flat = report.metric == "block_hit"
        self._verb = "hits" if flat else "saves"
        self._points = "points of hit ratio" if flat else "points of prefill cost"

    def capacities(self) -> Iterator[str]:
        for kind, group in _runs(self._report.regimes):
            where = self._where(group)
            if kind == "nothing":
                yield f"{where} no request fits."
            elif kind == "slack":
                yield (
                    f"{where} memory is slack: lru is within {100 * SLACK:g} points of a cache without limit, and "
                    "neither another policy nor more memory gains more than that."
                )
            else:
                (regime,) = group
                yield f"{where} {self._advice(regime)}. {self._memory(regime)}"

    def slack(self) -> Iterator[str]:
        blocks = self._report.slack_from
        if blocks is not None:
            yield f"For the whole trace memory is slack from {self._size(blocks)} on."

    def _advice(self, regime: Regime) -> str:
        if regime.best == "lru":
            return self._keep_lru(regime)
        best = regime.standing(regime.best)
        gain = f"{100 * best.over_lru:.1f} {self._points} over lru"
        if best.gap_closed is None:
            closed = gain
        else:
            bound = "" if best.bound_closed is None else f" ({best.bound_closed:.0%} of that to the bound)"
            closed = f"{gain}, {best.gap_closed:.0%} of the gap to the optimum{bound}"
        same = "" if regime.as_lru_with is None else f", as much as lru with {self._size(regime.as_lru_with)}"
        reuse = "" if regime.predictability is None else f"; {_REUSE[regime.predictability]}"
        return f"use {best.policy}: {closed}{same}{reuse}"

    def _keep_lru(self, regime: Regime) -> str:
        others = any(not standing.offline and standing.policy != "lru" for standing in regime.policies)
        if regime.optimum is None:
            return f"lru {self._verb} {regime.lru:.1%}; without min, the gap to the optimum is not known"
        left = regime.optimum - regime.lru
        if left < LEAST_GAIN:
            return "keep lru: the optimum is no better"
        if not others:
            return (
                f"the optimum is {100 * left:.1f} {self._points} above lru; no other online policy was compared, so "
                "whether reuse is predictable is not known"
            )
        return (
            f"keep lru: no online policy compared {self._verb} more, and the optimum {100 * left:.1f} {self._points}; "
            "reuse is hardly predictable for them"
        )

    def _memory(self, regime: Regime) -> str:
        unlimited = f"{100 * (regime.unlimited - regime.lru):.1f}"
        gains = [] if regime.more_lru is None else [f"lru {_gain(regime.more_lru)}"]
        if regime.best != "lru" and regime.more_best is not None:
            gains.append(f"{regime.best} about {_gain(regime.more_best)}")
        if not gains:
            return f"Memory without limit would bring lru {unlimited} {self._points}."
        more = "10% more blocks"
        if self._block_bytes is not None:
            more = f"One more GiB ({regime.more_blocks:,} blocks)"
        return f"{more} would bring {' and '.join(gains)} {self._points}, memory without limit {unlimited}."

    def _where(self, group: list[Regime]) -> str:
        first, last = group[0].capacity, group[-1].capacity
        return f"At {self._size(first)}" if len(group) == 1 else f"From {first:,} to {self._size(last)}"

    def _size(self, blocks: int) -> str:
        memory = "" if self._block_bytes is None else f" ({blocks * self._block_bytes / GIB:,.1f} GiB)"
        return f"{blocks:,} block{'' if blocks == 1 else 's'}{memory}"


def _runs(regimes: tuple[Regime, ...]) -> list[tuple[str, list[Regime]]]:
    # Neighbours of which there is nothing to say but the same.
    runs: list[tuple[str, list[Regime]]] = []
    for regime in regimes:
        kind = "nothing" if regime.fits_nothing else "slack" if regime.slack else "own"
        if runs and kind != "own" and runs[-1][0] == kind:
            runs[-1][1].append(regime)
        else:
            runs.append((kind, [regime]))
    return runs


def _gain(share: float) -> str:
    return f"{100 * share:.2f}" if abs(share) < 0.00095 else f"{100 * share:.1f}"
