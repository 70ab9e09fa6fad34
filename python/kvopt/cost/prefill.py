"""Prefill cost: relative to a first token, and in milliseconds.

A token at position p costs 1 + p/p*, because attention reads all earlier tokens; p* is the position where that
doubles the cost. The sum over a prompt of n tokens is F(n) = n + n²/(2·p*).

In time, a step that computes q new tokens behind s that are cached takes T(q, s) = k0 + k1·q + k2·s + k3·q·s: the step
itself, the matrices, reading the cache, and attention. Calibrated systems converge on this form (Preble, ICLR'25). Its
p* is k1/k3.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from kvopt.errors import ConfigError

DEFAULT_P_STAR = 28_600.0
"""p* of Llama-3.1-8B, in tokens."""

DEFAULT_STEP_TOKENS = 2048
"""Tokens of a prefill step where nothing else is said."""


def check_p_star(p_star: float) -> float:
    """Return `p_star` (tokens) as a float; raise ConfigError unless it is a finite number, 0.001 or more."""
    if isinstance(p_star, bool) or not isinstance(p_star, (int, float, np.integer, np.floating)):
        raise ConfigError(f"p_star: {p_star!r} is not a number of tokens")
    value = float(p_star)
    if not math.isfinite(value) or value < 1e-3:
        raise ConfigError(f"p_star: {p_star!r} is not a finite number of tokens, 0.001 or more")
    return value


def prefill_cost(tokens: ArrayLike, p_star: float = DEFAULT_P_STAR) -> NDArray[Any]:
    """F(n) of each prompt length, in units of a first token's cost.

    `tokens` has any shape, in tokens (0 or more); the answer is float64 of the same shape. Raises ConfigError for a bad
    `p_star` or a negative length.
    """
    p_star = check_p_star(p_star)
    n = np.asarray(tokens, dtype=np.float64)
    if n.size and not float(n.min()) >= 0.0:
        raise ConfigError(f"tokens: {float(n.min())!r} is below 0 or not a number")
    return n + n * n / (2.0 * p_star)


@dataclass(frozen=True, slots=True)
class PrefillCost:
    """T(q, s) = k0 + k1·q + k2·s + k3·q·s milliseconds for q new tokens behind s cached ones.

    Attributes:
        k0: ms of a step, whatever it computes.
        k1: ms of each new token.
        k2: ms of each cached token in front of a step.
        k3: ms of each pair of a new and a cached token.
        source: where the coefficients are from.

    Raises ConfigError unless all are finite, none is below 0, and k1 is above 0.
    """

    k0: float
    k1: float
    k2: float
    k3: float
    source: str = ""

    def __post_init__(self) -> None:
        for name in ("k0", "k1", "k2", "k3"):
            value = getattr(self, name)
            if isinstance(value, bool) or not isinstance(value, (int, float, np.integer, np.floating)):
                raise ConfigError(f"{name}: {value!r} is not a number of milliseconds")
            if not 0.0 <= value < math.inf:
                raise ConfigError(f"{name}: {value!r} is not a finite number of milliseconds of 0 or more")
        if not self.k1 > 0.0:
            raise ConfigError(f"k1: {self.k1!r} must be above 0: a new token costs time")

    def step_ms(self, new: float, cached: float = 0.0) -> float:
        """T(q, s): one step that computes `new` tokens behind `cached` ones. Raises ConfigError below 0."""
        _check_counts(new, cached)
        return self.k0 + self.k1 * new + self.k2 * cached + self.k3 * new * cached

    def token_ms(self, position: float) -> float:
        """What one more token at `position` adds to a step: k1 + k3·position. Raises ConfigError below 0."""
        _check_counts(position, 0.0)
        return self.k1 + self.k3 * position

    def prefill_ms(self, new: float, cached: float = 0.0, *, step_tokens: int = DEFAULT_STEP_TOKENS) -> float:
        """The whole prefill of `new` tokens behind `cached` ones, in steps of `step_tokens`; 0 for no token.

        Every token pays for its own position, k1 + k3·p, whether what lies in front of it was cached or computed in
        the same step; every step pays k0, and k2 for what lies in front of the step. So with small steps it is the
        sum of T over them, and k1·F(new) besides the steps' own cost. Raises ConfigError below 0, or for an empty step.
        """
        _check_counts(new, cached)
        if step_tokens < 1:
            raise ConfigError(f"step_tokens: {step_tokens} is below 1")
        steps = math.ceil(new / step_tokens)
        in_front = steps * cached + step_tokens * steps * (steps - 1) / 2.0
        pairs = new * cached + new * new / 2.0
        return self.k0 * steps + self.k1 * new + self.k2 * in_front + self.k3 * pairs

    @property
    def p_star(self) -> float:
        """p* = k1/k3 in tokens; infinite where context costs nothing."""
        return self.k1 / self.k3 if self.k3 else math.inf


def _check_counts(new: float, cached: float) -> None:
    if not 0.0 <= new < math.inf:
        raise ConfigError(f"new tokens: {new!r} is not a finite number of 0 or more")
    if not 0.0 <= cached < math.inf:
        raise ConfigError(f"cached tokens: {cached!r} is not a finite number of 0 or more")
