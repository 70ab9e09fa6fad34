"""The prefill cost of a running server, learned from the times of its steps.

Steps are kept by shape: cells of a factor of two in new tokens and in cached tokens, the last few of each cell. So rare
long prompts are not pushed out by many short ones, memory is bounded, and old steps make room for new ones of their own
shape. Every so many steps T(q, s) is fitted anew, robustly (:mod:`kvopt.cost.fit`); more often at first. Where no step
was seen, the cost that was given at the start holds, scaled to the server's speed.

Drift (another GPU clock, a neighbour, a new configuration) shows as steps that are all longer, or all shorter, than
expected: a two-sided CUSUM (Page, 1954) of log(time ÷ expected) in units of the fit's own error, each step clipped so
that a few hiccups do not count. On drift everything before it is forgotten; until enough new steps are there, the old
cost is scaled by what they say.
"""

from __future__ import annotations

import math
import warnings
from collections import deque
from dataclasses import dataclass, replace

import numpy as np

from kvopt.cost.fit import SIGMA, PrefillFit, fit_points
from kvopt.cost.geometry import ModelGeometry
from kvopt.cost.points import PrefillPoints, prefill_points
from kvopt.cost.prefill import PrefillCost
from kvopt.cost.reload import LostPrefix, Restore, Tier
from kvopt.errors import ConfigError, MeasurementError, PoorFitWarning

_SLACK = 1.0  # of CUSUM, in standard deviations: a shift below it is left to the running refit
_ALARM = 8.0  # with this slack a false alarm comes once in some 10⁷ steps
_CLIP = 3.0  # no step counts for more standard deviations
_LEAST_ERROR = 0.02  # relative; a fit is never trusted to be better

# Where the given cost speaks for shapes that were not seen.
_GIVEN_SHAPES = tuple((new, cached) for new in (64, 512, 4096) for cached in (0, 4096, 65_536))


@dataclass(frozen=True, slots=True)
class _Step:
    number: int
    new: float
    cached: float
    ms: float


class PrefillProfile:
    """T(q, s) of a running server. Not for use by several threads at once.

    `given` is the cost before anything was measured, such as a preset's or a chip's. `steps_a_cell` are kept of each
    shape. The cost is fitted from `least_steps` steps on, whenever they have doubled, and every `refit_every` steps.
    Raises ConfigError for counts below 1.
    """

    def __init__(
        self, given: PrefillCost, *, steps_a_cell: int = 4, refit_every: int = 256, least_steps: int = 16
    ) -> None:
        for name, value in (("steps_a_cell", steps_a_cell), ("refit_every", refit_every), ("least_steps", least_steps)):
            if isinstance(value, bool) or not isinstance(value, int) or value < 1:
                raise ConfigError(f"{name}: {value!r} is not a whole number of 1 or more")
        self._given = given
        self._cost = given
        self._fit: PrefillFit | None = None
        self._error = _LEAST_ERROR  # relative, of one step
        self._steps_a_cell = steps_a_cell
        self._refit_every = refit_every
        self._least_steps = least_steps
        self._cells: dict[tuple[int, int], deque[_Step]] = {}
        self._seen = 0
        self._next_fit = 0
        self._drifts = 0
        self._higher = _Cusum(+1.0)
        self._lower = _Cusum(-1.0)

    @property
    def cost(self) -> PrefillCost:
        """The cost as it is known now."""
        return self._cost

    @property
    def fit(self) -> PrefillFit | None:
        """The last fit, with its errors, over kept steps and given shapes; None before the first and after drift."""
        return self._fit

    @property
    def steps(self) -> int:
        """How many steps were observed."""
        return self._seen

    @property
    def kept(self) -> int:
        """How many steps are kept."""
        return sum(map(len, self._cells.values()))

    @property
    def drifts(self) -> int:
        """How often the server's speed changed for good."""
        return self._drifts

    def observe(self, new: float, cached: float, ms: float) -> bool:
        """A step computed `new` tokens behind `cached` ones in `ms` milliseconds; True when it shows a drift.

        Raises MeasurementError, with nothing changed, unless all are finite, `cached` is 0 or more and the others are
        above 0.
        """
        for name, value, least in (("new", new, 0.0), ("cached", cached, -1.0), ("ms", ms, 0.0)):
            if not least < value < math.inf or value < 0.0:
                raise MeasurementError(
                    f"{name}: {value!r} is not a finite number {'of 0 or more' if least else 'above 0'}"
                )
        self._seen += 1
        cell = (int(math.log2(new)), int(math.log2(cached + 1.0)))
        kept = self._cells.setdefault(cell, deque(maxlen=self._steps_a_cell))
        kept.append(_Step(self._seen, new, cached, ms))
        drifted = self._watch(math.log(ms / self._cost.step_ms(new, cached)))
        if self._seen >= self._next_fit:
            self._learn()
        return drifted

    def restore(
        self,
        model: ModelGeometry,
        tokens: int,
        cached: int = 0,
        *,
        tier: Tier | None = None,
        block_tokens: int = 16,
        tensor_parallel: int = 1,
    ) -> Restore:
        """The quickest way to get `tokens` tokens behind `cached` ones back: with a tier, loading counts as well.

        Raises ConfigError as LostPrefix does.
        """
        lost = LostPrefix(self._cost, model, tokens, cached, block_tokens, tensor_parallel)
        return lost.best(tier)

    def _watch(self, surprise: float) -> bool:
        if self._fit is None:
            return False
        deviation = max(-_CLIP, min(_CLIP, surprise / self._error))
        alarms = [cusum for cusum in (self._higher, self._lower) if cusum.add(deviation, self._seen)]
        if not alarms:
            return False
        since = alarms[0].since
        for cell in list(self._cells):
            recent = deque((step for step in self._cells[cell] if step.number >= since), maxlen=self._steps_a_cell)
            if recent:
                self._cells[cell] = recent
            else:
                del self._cells[cell]
        self._given, self._fit = self._cost, None  # what is known best, but for its scale
        self._next_fit = 0
        self._drifts += 1
        return True

    def _learn(self) -> None:
        steps = [step for cell in self._cells.values() for step in cell]
        ratios = sorted(step.ms / self._given.step_ms(step.new, step.cached) for step in steps)
        scaled = _scaled(self._given, ratios[len(ratios) // 2])
        self._cost = scaled
        if len(steps) < self._least_steps:
            return
        self._next_fit = self._seen + min(len(steps), self._refit_every)
        points = self._points(steps, scaled)
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", PoorFitWarning)
                self._fit = fit_points(points, "measured steps")
        except MeasurementError:  # times that do not grow with the tokens: the scaled cost is the best there is
            return
        self._cost = self._fit.cost
        measured = np.abs(self._fit.residuals[: len(steps)] / points.ms[: len(steps)])
        self._error = max(SIGMA * float(np.median(measured)), _LEAST_ERROR)
        self._higher.reset()
        self._lower.reset()

    def _points(self, steps: list[_Step], scaled: PrefillCost) -> PrefillPoints:
        rows = [(step.new, step.cached, step.ms) for step in steps]
        for new, cached in _GIVEN_SHAPES:
            near = (
                abs(math.log2(new / s.new)) <= 2 and abs(math.log2((cached + 64) / (s.cached + 64))) <= 2 for s in steps
            )
            if not any(near):
                rows.append((float(new), float(cached), scaled.step_ms(new, cached)))
        return prefill_points(*zip(*rows, strict=True))


@dataclass(slots=True)
class _Cusum:
    sign: float
    total: float = 0.0
    since: int = 0

    def add(self, deviation: float, number: int) -> bool:
        if self.total == 0.0:
            self.since = number
        self.total = max(0.0, self.total + self.sign * deviation - _SLACK)
        if self.total < _ALARM:
            return False
        self.total = 0.0
        return True

    def reset(self) -> None:
        self.total = 0.0


def _scaled(cost: PrefillCost, ratio: float) -> PrefillCost:
    return replace(
        cost,
        k0=cost.k0 * ratio,
        k1=cost.k1 * ratio,
        k2=cost.k2 * ratio,
        k3=cost.k3 * ratio,
        source=f"{cost.source}, × {ratio:.3g} by measured steps",
    )
